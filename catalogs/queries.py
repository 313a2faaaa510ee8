"""Reads behind the package, bundle and catalog pages: rows in, plain answers out.

Knows no HTTP. Every lookup by name raises `Missing` with a sentence that says which part of the
name is not known.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import msgspec
from django.db.models import Q

from catalogs.fbc.properties import Told, tell
from catalogs.graph import Entry
from catalogs.models import (
    Blob,
    Bundle,
    Catalog,
    Channel,
    Icon,
    Package,
)
from catalogs.storage import blobs
from olmweb.errors import Missing
from olmweb.models import LOCAL

PLATFORM_OPERATOR = "PlatformOperator"
BLOB_DECODE_LIMIT = 1_000_000  # bytes: larger blobs are shown as they are, not taken apart
BLOB_SHOW_LIMIT = 64_000  # characters of raw FBC on a page
IMAGE_SHOW_LIMIT = 300  # related images on a page


def each_once(rows: Iterable[Catalog]) -> list[list[Catalog]]:
    """The catalogs, each with the ways in which it is there; no query.

    On one cluster a ClusterCatalog and a CatalogSource of one name are one catalog, as a form that
    installs takes them; CatalogSources of several namespaces are several.
    """
    found: dict[tuple[object, ...], list[Catalog]] = {}
    ordered = sorted(rows, key=lambda row: row.source_kind == Catalog.SourceKind.CLUSTER_CATALOG)
    spaces: dict[tuple[int, str], str] = {}
    for row in ordered:
        if row.cluster_id is None:
            found[row.pk,] = [row]
            continue
        name = (row.cluster_id, row.name)
        namespace = row.namespace or spaces.get(name, "")
        spaces.setdefault(name, namespace)
        found.setdefault((*name, namespace), []).append(row)
    return list(found.values())


def packages_in(catalogs: Iterable[Sequence[Catalog]]) -> int:
    """How many packages these catalogs have; of the ways of one, the way that shows most."""
    return sum(max(row.package_count for row in ways) for ways in catalogs)


@dataclass(frozen=True, slots=True)
class Choice:
    """The channel and bundle that a package page shows; empty only for an empty package."""

    channel: Channel | None
    bundle: Bundle | None
    channels: Sequence[Channel]
    offered: Sequence[Bundle]  # bundles of the channel, newest first
    bundles: Sequence[Bundle]  # all of the package, newest first
    notices: Sequence[str]


@dataclass(frozen=True, slots=True)
class RawBlob:
    """FBC as its author published it, indented when it is JSON. `size` in bytes."""

    text: str
    size: int
    cut: bool
    properties: Sequence[Told]


def get_catalog(cluster: str, slug: str) -> Catalog:
    """The catalog at `/catalogs/CLUSTER/SLUG`; raises Missing."""
    found = Catalog.objects.select_related("cluster").filter(_at(cluster, slug)).first()
    if found is None:
        where = "outside of clusters" if cluster == LOCAL else f"on cluster “{cluster}”"
        raise Missing(
            f"There is no catalog “{slug}” {where}.",
            code="no-such-catalog",
            hint="The page Catalogs lists those that are known.",
        )
    return found


def get_called(name: str) -> Catalog:
    """The one catalog that NAME or CLUSTER/NAME calls; raises Missing for none and for several.

    Where several have the name, LOCAL/NAME is the one of no cluster.
    """
    cluster, _, slug = name.rpartition("/")
    matches = Catalog.objects.select_related("cluster").filter(
        _at(cluster, slug) if cluster else Q(slug=_safe(slug))
    )
    found = list(matches)
    if len(found) > 1:
        raise Missing(
            f"Several catalogs have that name: {', '.join(map(str, found))}.",
            code="several-catalogs",
            hint=f"Name one in full (for one of no cluster: -- {LOCAL}/{slug}).",
        )
    if not found:
        known = ", ".join(map(str, Catalog.objects.select_related("cluster"))) or "none"
        raise Missing(f'No catalog is called "{name}" (known: {known}).', code="no-such-catalog")
    return found[0]


def get_sources(cluster: str, slug: str, name: str) -> tuple[Package, list[Package]]:
    """The package that a URL names and the same name in every catalog, winner first.

    One query for both. Raises Missing.
    """
    sources = sorted(
        Package.objects.filter(name=_safe(name)).select_related("catalog__cluster"),
        key=lambda each: (
            each.catalog.state == Catalog.State.DISABLED,
            -each.catalog.priority,
            each.catalog.slug,
            each.catalog.cluster_name,
        ),
    )
    for each in sources:
        if (each.catalog.cluster_name, each.catalog.slug) == (cluster, slug):
            return each, sources
    catalog = get_catalog(cluster, slug)
    raise Missing(
        f"Catalog “{catalog}” has no package “{name}”.",
        code="no-such-package",
        hint="It may have been removed by a newer revision: the catalog's page lists changes.",
    )


def get_bundles(package: Package, name: str) -> list[Bundle]:
    """The bundles with this name: one, or more where the catalog repeats it; raises Missing."""
    found = list(package.bundles.filter(name=_safe(name)).select_related("blob"))
    if not found:
        raise Missing(
            f"Package “{package.name}” of catalog “{package.catalog}” has no bundle “{name}”.",
            code="no-such-bundle",
            hint="Its tab Versions lists the bundles that the catalog has now.",
        )
    return found


def get_icon(sha256: str) -> Icon:
    """Raises Missing."""
    found = Icon.objects.filter(pk=_safe(sha256)).first()
    if found is None:
        raise Missing("There is no such icon.", code="no-such-icon")
    return found


def choose(
    package: Package,
    channel: str = "",
    version: str = "",
    entries: Mapping[str, Sequence[Entry]] | None = None,
) -> Choice:
    """The channel asked for or the default one, and in it the version asked for or the head.

    `entries` are those of all its channels where they are read already. A package whose channels
    list none of its bundles still shows its newest bundle.
    """
    notices = []
    channels = list(package.channels.all())
    by_name = {each.name: each for each in channels}
    if channel and channel not in by_name:
        notices.append(f"There is no channel “{channel}” in this package.")
    shown = by_name.get(channel) or by_name.get(package.default_channel)
    shown = shown or (channels[0] if channels else None)
    if shown is None:
        listed = set()
    elif entries is None:
        listed = set(shown.entries.order_by().values_list("name", flat=True))
    else:
        listed = {each.name for each in entries.get(shown.name, ())}
    bundles = list(package.bundles.all())
    offered = [each for each in bundles if each.name in listed]
    newest = offered or bundles
    bundle = next((each for each in newest if version and each.version == version), None)
    if version and bundle is None:
        notices.append(f"There is no version “{version}” in the channel that is shown.")
    head = shown.head if shown else ""
    bundle = bundle or next((each for each in newest if each.name == head), None)
    bundle = bundle or (newest[0] if newest else None)
    return Choice(shown, bundle, channels, offered, bundles, notices)


def read_blob(blob: Blob | None) -> RawBlob | None:
    """The blob for a page: at most BLOB_SHOW_LIMIT characters, and what its properties say."""
    data = blobs.read_blob(blob.pk, BLOB_DECODE_LIMIT) if blob else None
    if blob is None or data is None:
        return None
    properties: list[Told] = []
    if blob.size <= BLOB_DECODE_LIMIT:
        properties = tell(data)
        # YAML, or JSON that the catalog's author broke, is shown as it is.
        with suppress(msgspec.DecodeError, UnicodeDecodeError):
            data = msgspec.json.format(data, indent=2)
    text = data.decode(errors="replace")
    cut = len(text) > BLOB_SHOW_LIMIT or blob.size > BLOB_DECODE_LIMIT
    return RawBlob(text[:BLOB_SHOW_LIMIT], blob.size, cut, properties)


def _at(cluster: str, slug: str) -> Q:
    """The catalog that a URL names."""
    where = Q(cluster__isnull=True) if cluster == LOCAL else Q(cluster__name=_safe(cluster))
    return where & Q(slug=_safe(slug))


def _safe(name: str) -> str:
    """PostgreSQL refuses NUL in a parameter; a name with one matches nothing anyway."""
    return name.replace("\x00", "\ufffd")
