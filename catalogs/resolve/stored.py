"""A package's facts for resolution, read from its rows; of few bundles from their blobs, too.

Knows the models and nothing of the rules.
"""

from collections.abc import Iterable

import msgspec

from catalogs.blobs import read_blob
from catalogs.graph import Entry
from catalogs.models import Bundle, BundleGVK, ChannelEntry, Package
from catalogs.resolve.facts import BundleFacts, PackageFacts

DEPENDENCIES = ("olm.package.required", "olm.gvk.required", "olm.constraint")
_FIELDS = ("id", "name", "version", "release", "deprecated", "image", "required_packages")


class _Property(msgspec.Struct):
    type: str = ""
    value: msgspec.Raw = msgspec.Raw(b"null")


class _Bundle(msgspec.Struct):
    properties: list[_Property] | None = None


class _Version(msgspec.Struct):
    version: str | None = None


def facts_of(package: Package) -> PackageFacts:
    """Four queries, and one for each of the few bundles whose rows don't say all."""
    channels: dict[str, list[Entry]] = {
        name: [] for name in package.channels.order_by("name").values_list("name", flat=True)
    }
    entries = ChannelEntry.objects.filter(channel__package=package).order_by("channel", "ordinal")
    for channel, *values in entries.values_list(
        "channel__name", "name", "replaces", "skips", "skip_range"
    ):
        channels[channel].append(entry_of(*values))
    return PackageFacts(package.name, package.default_channel, channels, _bundles(package))


def entry_of(name: str, replaces: str, skips: Iterable[object], skip_range: str) -> Entry:
    """An entry as a ChannelEntry keeps it."""
    return Entry(name, replaces, tuple(str(each) for each in skips), skip_range)


def _bundles(package: Package) -> list[BundleFacts]:
    rows = list(
        Bundle.objects.filter(package=package)
        .order_by("id")  # the catalog's order: bundles are written as they come
        .values_list(*_FIELDS, "constraint_count", "blob_id")
    )
    needing = set(
        BundleGVK.objects.filter(bundle__package=package, required=True)
        .order_by()
        .values_list("bundle_id", flat=True)
        .distinct()
    )
    told: dict[int, tuple[str, ...]] = {}
    unclear: dict[int, str] = {}  # bundle -> blob that says what the rows don't
    for pk, _, _, release, _, _, packages, constraints, blob in rows:
        present = (bool(packages), pk in needing, bool(constraints))
        told[pk] = tuple(kind for kind, there in zip(DEPENDENCIES, present, strict=True) if there)
        if blob and (release or len(told[pk]) > 1):
            unclear[pk] = blob
    blobs = _read(set(unclear.values()))
    found = []
    for pk, name, version, _, deprecated, image, *_ in rows:
        kinds = told[pk]
        if pk in unclear and (blob_facts := blobs.get(unclear[pk])) is not None:
            version, kinds = blob_facts[0] or version, blob_facts[1]
        found.append(BundleFacts(name, version, deprecated, kinds, image))
    return found


def _read(ids: set[str]) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Blob to the version as written and the dependencies in order; unreadable ones are absent.

    A release in the rows may come from build metadata or stand by itself, which only opm reads;
    and of several kinds of dependency the first is the one that OLM v1 names.
    """
    found = {}
    for sha256 in ids:
        try:
            properties = msgspec.json.decode(read_blob(sha256) or b"", type=_Bundle).properties or []
            written = next((each for each in properties if each.type == "olm.package"), None)
            version = msgspec.json.decode(written.value, type=_Version).version if written else ""
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            continue  # not JSON: what the rows say has to do
        kinds = tuple(each.type for each in properties if each.type in DEPENDENCIES)
        found[sha256] = (version or "", kinds)
    return found
