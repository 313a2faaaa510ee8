"""Reads behind the package, bundle and catalog pages."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import NamedTuple, Protocol

import msgspec
from django.conf import settings
from django.db.models import Count, Exists, OuterRef

from catalogs.fbc.properties import PropertyText, describe_properties
from catalogs.graph import GraphEntry
from catalogs.models import (
    Blob,
    Bundle,
    BundleGVK,
    Catalog,
    Channel,
    ChannelEntry,
    Package,
    ProvidedCatalog,
    is_stale,
)
from catalogs.storage import blobs
from olmweb.models import LOCAL, NOT_CONFIGURED, REMOVED_TEXT, Cluster

BLOB_DECODE_LIMIT = 1_000_000  # bytes: larger blobs are shown without decoding
BLOB_SHOW_LIMIT = 64_000  # characters of raw FBC on a page
IMAGE_SHOW_LIMIT = 300  # related images on a page


@dataclass(slots=True)
class CatalogState:
    """What the overview shows of a catalog. A page reads all of them and shows a few, and model
    instances of hundreds take long."""

    cluster_name: str
    on_removed: bool
    pk: int
    name: str
    slug: str
    namespace: str
    source_kind: str
    source: str
    base_url: str
    state: str
    error_code: str
    error_text: str
    error_hint: str
    revision: int
    synced_at: datetime | None
    cluster_id: int | None
    stale: bool = field(init=False)

    def __post_init__(self) -> None:
        self.stale = is_stale(self.state, self.source_kind, self.source, self.synced_at)

    @property
    def sync_error(self) -> "SyncError | None":
        return sync_error(self)


class SyncError(NamedTuple):
    """Why the content of a catalog is not confirmed, and what to do about it."""

    code: str
    message: str
    hint: str


def sync_error(catalog: Catalog | CatalogState) -> SyncError | None:
    """Why the content of the catalog is not confirmed: its cluster is removed, the error of the
    last attempt to read it, or why an attempt is overdue. None if the last attempt succeeded and
    the next one is not overdue. A sync that was cancelled or interrupted is an error of a catalog
    that is not stale, too.
    """
    if catalog.on_removed:
        return SyncError(
            NOT_CONFIGURED,
            REMOVED_TEXT.format(catalog.cluster_name),
            "The catalog is not synced; name the cluster there again to sync it.",
        )
    if catalog.error_text or catalog.state == Catalog.State.FAILED:
        text = catalog.error_text or "The last attempt to read it failed."
        return SyncError(catalog.error_code, text, catalog.error_hint)
    if not catalog.stale:
        return None
    overdue = "Not synced for more than three polling intervals"
    if catalog.cluster_id is not None and not catalog.base_url:
        return SyncError(
            "not-synced",
            f"{overdue}: the {catalog.source_kind} reports no address to read it from.",
            "Look at its conditions and at the pod that serves it; it is read again when it "
            "reports an address.",
        )
    return SyncError(
        "not-synced",
        f"{overdue}.",
        "The log of OLM Web says more."
        if settings.EMBEDDED
        else "Check that beat and a worker of the queue sync run; their logs say more.",
    )


class _NamesCatalog(Protocol):
    """The catalog that an operator names, each part empty if it names none."""

    @property
    def catalog(self) -> str: ...
    @property
    def catalog_namespace(self) -> str: ...


def other_catalog(operator: _NamesCatalog, catalog: ProvidedCatalog) -> str:
    """The name of the catalog that an operator comes from, with its namespace where the name alone
    is the same; empty if it comes from `catalog` or names none."""
    if operator.catalog != catalog.name:
        return operator.catalog
    namespace = operator.catalog_namespace
    if "" in (namespace, catalog.namespace) or namespace == catalog.namespace:
        return ""
    return f"{namespace}/{operator.catalog}"


def fullest(group: Sequence[Catalog]) -> Catalog:
    """Of the rows that serve one catalog, as `distinct_catalogs` groups them, the one with most of
    the content; of equal ones the ClusterCatalog, as all its content can be read."""
    return max(reversed(group), key=lambda row: row.package_count)


def read_catalogs(clusters: Iterable[Cluster], *fields: str) -> list[Catalog]:
    """Every catalog by name, with these fields and its cluster, one of `clusters`; one query."""
    by_id = {cluster.pk: cluster for cluster in clusters}
    rows = list(Catalog.objects.only("name", "cluster_id", *fields).order_by("name", "pk"))
    for row in rows:
        if row.cluster_id in by_id:  # else added since; it is read when it is shown
            row.cluster = by_id[row.cluster_id]
    return rows


def read_states(clusters: Iterable[Cluster]) -> list[CatalogState]:
    """The state of every catalog by name; one query. `clusters` are all."""
    by_id = {cluster.pk: (cluster.name, cluster.removed) for cluster in clusters}
    columns = [column.name for column in fields(CatalogState) if column.init][2:]
    rows = Catalog.objects.order_by("name", "pk").values_list(*columns)
    return [CatalogState(*by_id.get(row[-1], (LOCAL, False)), *row) for row in rows]


def count_packages() -> int:
    """The number of packages in all catalogs together, as the software catalog shows them: by name.
    One query."""
    rows = Package.objects.order_by()
    return rows.aggregate(number=Count("name", distinct=True))["number"] or 0


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
    properties: Sequence[PropertyText]


def choose(
    package: Package,
    channel: str = "",
    version: str = "",
    entries: Mapping[str, Sequence[GraphEntry]] | None = None,
) -> Choice:
    """The requested channel or the default one, and in it the requested version or the head.

    `entries` are those of all channels, if read already; the bundles then say whether they require
    a kind (`requires_kind`), for what is worked out from all of them. A package whose channels list
    none of its bundles shows its newest bundle.
    """
    notices = []
    channels = list(package.channels.all())
    by_name = {row.name: row for row in channels}
    if channel and channel not in by_name:
        notices.append(f"There is no channel “{channel}” in this package.")
    shown = by_name.get(channel) or by_name.get(package.default_channel)
    shown = shown or (channels[0] if channels else None)
    bundles: Sequence[Bundle]
    offered: Sequence[Bundle]
    if entries is None:
        in_channel = ChannelEntry.objects.filter(channel=shown, name=OuterRef("name"))
        rows = list(package.bundles.annotate(is_listed=Exists(in_channel)))
        bundles, offered = rows, [row for row in rows if row.is_listed]
    else:
        required = BundleGVK.objects.filter(bundle=OuterRef("pk"), required=True)
        bundles = list(package.bundles.annotate(requires_kind=Exists(required)))
        listed = {entry.name for entry in entries.get(shown.name, ())} if shown else set()
        offered = [row for row in bundles if row.name in listed]
    newest = offered or bundles
    bundle = next((row for row in newest if version and row.version == version), None)
    if version and bundle is None:
        notices.append(f"There is no version “{version}” in the channel that is shown.")
    head = shown.head if shown else ""
    bundle = bundle or next((row for row in newest if row.name == head), None)
    bundle = bundle or (newest[0] if newest else None)
    return Choice(shown, bundle, channels, offered, bundles, notices)


def read_blob(blob: Blob | None) -> RawBlob | None:
    """The blob for a page: at most BLOB_SHOW_LIMIT characters, and its decoded properties."""
    data = blobs.read_blob(blob.pk, BLOB_DECODE_LIMIT) if blob else None
    if blob is None or data is None:
        return None
    properties: list[PropertyText] = []
    if blob.size <= BLOB_DECODE_LIMIT:
        properties = describe_properties(data)
        # YAML and invalid JSON are shown unformatted.
        with suppress(msgspec.DecodeError, UnicodeDecodeError):
            data = msgspec.json.format(data, indent=2)
    text = data.decode(errors="replace")
    cut = len(text) > BLOB_SHOW_LIMIT or blob.size > BLOB_DECODE_LIMIT
    return RawBlob(text[:BLOB_SHOW_LIMIT], blob.size, cut, properties)
