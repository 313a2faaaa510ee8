"""A package's facts for resolution, read from its rows; of few bundles from their blobs, too.

Knows the models and nothing of the rules.
"""

from collections.abc import Iterable, Sequence

import msgspec

from catalogs.blobs import read_blob
from catalogs.graph import Entry
from catalogs.models import Bundle, BundleGVK, Channel, ChannelEntry, Package
from catalogs.resolve.facts import BundleFacts, PackageFacts

DEPENDENCIES = ("olm.package.required", "olm.gvk.required", "olm.constraint")
_FIELDS = (
    *("name", "version", "release", "deprecated", "image"),
    *("required_packages", "constraint_count", "blob_id"),
)


class _Property(msgspec.Struct):
    type: str = ""
    value: msgspec.Raw = msgspec.Raw(b"null")


class _Bundle(msgspec.Struct):
    properties: list[_Property] | None = None


class _Version(msgspec.Struct):
    version: str | None = None


def facts_of(
    package: Package,
    *,
    channels: Iterable[Channel] | None = None,
    bundles: Iterable[Bundle] | None = None,
) -> PackageFacts:
    """Facts of the package; `channels` and `bundles` are its rows where they are read already.

    Four queries at most, and one for each of the few bundles whose rows don't say all.
    """
    rows = package.channels.all() if channels is None else channels
    entries: dict[str, list[Entry]] = {channel.name: [] for channel in rows}
    listed = ChannelEntry.objects.filter(channel__package=package).order_by("channel", "ordinal")
    for channel, name, replaces, skips, skip_range in listed.values_list(
        "channel__name", "name", "replaces", "skips", "skip_range"
    ):
        entry = Entry(name, replaces, tuple(str(each) for each in skips), skip_range)
        entries[channel].append(entry)
    if bundles is None:
        bundles = Bundle.objects.filter(package=package).order_by().only(*_FIELDS)
    found = _bundle_facts(package, sorted(bundles, key=lambda bundle: bundle.pk))
    return PackageFacts(package.name, package.default_channel, entries, found)


def _bundle_facts(package: Package, bundles: Sequence[Bundle]) -> list[BundleFacts]:
    """In the order of `bundles`: by key, as the catalog has them, for they are written so."""
    needing = set(
        BundleGVK.objects.filter(bundle__package=package, required=True)
        .order_by()
        .values_list("bundle_id", flat=True)
        .distinct()
    )
    found = []
    for bundle in bundles:
        present = (
            bool(bundle.required_packages),
            bundle.pk in needing,
            bool(bundle.constraint_count),
        )
        kinds = tuple(kind for kind, there in zip(DEPENDENCIES, present, strict=True) if there)
        version = bundle.version
        if bundle.blob_id and (bundle.release or len(kinds) > 1):
            version, kinds = _read(bundle.blob_id) or (version, kinds)
        found.append(BundleFacts(bundle.name, version, bundle.deprecated, kinds, bundle.image))
    return found


def _read(sha256: str) -> tuple[str, tuple[str, ...]] | None:
    """The version as written and the dependencies in order; None for a blob that isn't JSON.

    A release in the rows may come from build metadata or stand by itself, which only opm reads;
    and of several kinds of dependency the first is the one that OLM v1 names.
    """
    try:
        blob = msgspec.json.decode(read_blob(sha256) or b"", type=_Bundle)
        properties = blob.properties or []
        written = next((each for each in properties if each.type == "olm.package"), None)
        version = msgspec.json.decode(written.value, type=_Version).version if written else ""
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    kinds = dict.fromkeys(each.type for each in properties if each.type in DEPENDENCIES)
    return version or "", tuple(kinds)
