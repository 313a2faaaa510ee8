"""A package's facts for resolution, read from its rows; of few bundles from their blobs, too.

The PackageManifest API has no upgrade graph. A package that was read with it has the graph of the
ClusterCatalog that serves the same catalog, if that has the same bundles in the same channels: OLM
resolves from the graph of the registry, which is the graph of the catalog image. Knows the models
and nothing of the rules.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from catalogs.fbc.properties import DEPENDENCIES
from catalogs.graph import GraphEntry
from catalogs.models import (
    Bundle,
    BundleGVK,
    Catalog,
    Channel,
    Package,
    distinct_catalogs,
)
from catalogs.resolve.facts import ResolverBundle, ResolverPackage
from catalogs.sources.access_methods import PACKAGE_MANIFEST
from catalogs.storage.blobs import read_blob

BUNDLE_FIELDS = (
    *("name", "version", "release", "deprecated", "image"),
    *("required_packages", "constraint_count", "blob_id", "package"),
)
_ENTRY_FIELDS = ("name", "replaces", "skips", "skip_range")


Channels = dict[str, list[GraphEntry]]  # by name, entries as their authors ordered them


class PackageGraph(NamedTuple):
    """The entries of each channel. `complete` is False if their edges are unknown."""

    entries: Channels
    complete: bool


class _Property(msgspec.Struct):
    type: str = ""
    value: msgspec.Raw = msgspec.Raw(b"null")


class _Bundle(msgspec.Struct):
    properties: list[_Property] | None = None


class _PackageValue(msgspec.Struct):
    version: str | None = None


def graph_of(package: Package) -> PackageGraph:
    """That of the channels with entries; one query, four for a package that was read with the
    PackageManifest API."""
    graph = graphs_of([package])[package.pk]
    return graph._replace(entries={name: rows for name, rows in graph.entries.items() if rows})


def graphs_of(packages: Sequence[Package]) -> dict[int, PackageGraph]:
    """Package key -> its graph. The packages are of one catalog; queries as `graph_of`."""
    channels = _read_channels([package.pk for package in packages])
    if not packages or packages[0].catalog.access_method != PACKAGE_MANIFEST:
        return {pk: PackageGraph(entries, complete=True) for pk, entries in channels.items()}
    full = _in_full_catalog(packages, channels)
    return {
        pk: PackageGraph(full[pk][1] if pk in full else entries, complete=pk in full)
        for pk, entries in channels.items()
    }


def full_package(package: Package) -> Package:
    """The same package with its upgrade graph: of the ClusterCatalog for one that was read with the
    PackageManifest API, if that has the same bundles in the same channels, else itself. At most
    four queries."""
    if package.catalog.access_method != PACKAGE_MANIFEST:
        return package
    full = _in_full_catalog([package], _read_channels([package.pk])).get(package.pk)
    return full[0] if full else package


def full_catalogs(catalog: Catalog, rows: Iterable[Catalog] | None = None) -> list[Catalog]:
    """The ClusterCatalog that serves the same catalog as one that was read with the PackageManifest
    API; empty for others. `rows`: the catalogs of its name on its cluster by key, if they were
    read; else at most one query."""
    if catalog.access_method != PACKAGE_MANIFEST or catalog.cluster_id is None:
        return []
    if rows is None:
        rows = Catalog.objects.filter(cluster=catalog.cluster_id, name=catalog.name).order_by("pk")
    return [
        row
        for access_methods in distinct_catalogs(rows)
        if catalog in access_methods
        for row in access_methods
        if row.source_kind == Catalog.SourceKind.CLUSTER_CATALOG
        and row.access_method != PACKAGE_MANIFEST
    ]


def _in_full_catalog(
    packages: Sequence[Package], channels: Mapping[int, Channels]
) -> dict[int, tuple[Package, Channels]]:
    """Package key -> the same package of the ClusterCatalog with its channels, where that has the
    same bundles in the same channels."""
    keys = {package.name: package.pk for package in packages}
    full = full_catalogs(packages[0].catalog)
    rows = Package.objects.filter(catalog__in=full, name__in=keys).select_related("catalog")
    by_key = {row.pk: row for row in rows.order_by()}
    return {
        keys[by_key[pk].name]: (by_key[pk], graph)
        for pk, graph in _read_channels(by_key).items()
        if _listed(graph) == _listed(channels[keys[by_key[pk].name]])
    }


def _listed(channels: Channels) -> dict[str, set[str]]:
    """Channel -> the bundles in it."""
    return {name: {entry.name for entry in entries} for name, entries in channels.items()}


def _read_channels(packages: Collection[int]) -> dict[int, Channels]:
    channels: dict[int, Channels] = {package: {} for package in packages}
    rows = Channel.objects.filter(package__in=packages)
    rows = rows.order_by("package", "name", "entries__ordinal")
    fields = (f"entries__{name}" for name in _ENTRY_FIELDS)
    for package, channel, name, *values in rows.values_list("package", "name", *fields):
        entries = channels[package].setdefault(channel, [])
        if name is not None:  # else a channel without entries
            entries.append(_entry(name, *values))
    return channels


def facts_of(package: Package) -> ResolverPackage:
    """Three queries, three more for a package that was read with the PackageManifest API, and one
    for each of the few bundles whose rows lack a fact."""
    return facts_of_all([package])[package.pk]


def facts_of_all(
    packages: Sequence[Package], bundles: Iterable[Bundle] | None = None
) -> dict[int, ResolverPackage]:
    """`facts_of` for packages of one catalog, by key, in as many queries as for one.

    `bundles` are the rows of all of them where they are read already, with BUNDLE_FIELDS.
    """
    graphs = graphs_of(packages)
    if bundles is None:
        bundles = Bundle.objects.filter(package__in=packages).order_by().only(*BUNDLE_FIELDS)
    by_package: dict[int, list[Bundle]] = defaultdict(list)
    for bundle in bundles:
        by_package[bundle.package_id].append(bundle)
    needing = _needing(packages)
    return {
        package.pk: facts_from(
            package,
            graphs[package.pk].entries,
            by_package[package.pk],
            needing,
            complete=graphs[package.pk].complete,
        )
        for package in packages
    }


def facts_from(
    package: Package,
    channels: Mapping[str, list[GraphEntry]],
    bundles: Iterable[Bundle],
    needing: Collection[int] | None = None,
    *,
    complete: bool = True,
) -> ResolverPackage:
    """`facts_of` from rows that are read already; `needing` are the bundles that require a kind."""
    needing = _needing([package]) if needing is None else needing
    rows = sorted(bundles, key=lambda bundle: bundle.pk)
    facts = _bundle_facts(rows, needing)
    return ResolverPackage(package.name, package.default_channel, channels, facts, complete)


def _entry(name: str, replaces: str, skips: list[Any], skip_range: str) -> GraphEntry:
    return GraphEntry(name, replaces, tuple(map(str, skips)), skip_range)


def _needing(packages: Collection[Package]) -> set[int]:
    """Bundles that require a kind."""
    return set(
        BundleGVK.objects.filter(bundle__package__in=packages, required=True)
        .order_by()
        .values_list("bundle_id", flat=True)
        .distinct()
    )


def _bundle_facts(bundles: Sequence[Bundle], needing: Collection[int]) -> list[ResolverBundle]:
    """In the order of `bundles`: by key, as the catalog has them, for they are written so."""
    facts = []
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
        facts.append(ResolverBundle(bundle.name, version, bundle.deprecated, kinds, bundle.image))
    return facts


def _read(sha256: str) -> tuple[str, tuple[str, ...]] | None:
    """The version as written and the dependencies in order; None for a blob that isn't JSON. A
    release in the rows may stem from build metadata or from its own property, which only opm reads;
    of several dependency types OLM v1 names the first."""
    try:
        blob = msgspec.json.decode(read_blob(sha256) or b"", type=_Bundle)
        properties = blob.properties or []
        written = next(
            (property_ for property_ in properties if property_.type == "olm.package"), None
        )
        version = msgspec.json.decode(written.value, type=_PackageValue).version if written else ""
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    kinds = dict.fromkeys(
        property_.type for property_ in properties if property_.type in DEPENDENCIES
    )
    return version or "", tuple(kinds)
