"""Hands the objects of catalogs to the app that has their content. Knows no content itself."""

from collections.abc import Iterable, Mapping

from catalogs.sync.cluster_catalogs import record_catalog_sources, record_cluster_catalogs
from installs.state.decode import Kept
from installs.state.decode.common import Object
from installs.state.store import Delta
from olmweb.models import Cluster

_CLUSTER_CATALOGS = ("ClusterCatalog", "Catalog")  # as catalogd calls them now, and as it did
_CATALOG_SOURCE = "CatalogSource"
CATALOG_KINDS = (*_CLUSTER_CATALOGS, _CATALOG_SOURCE)


def record_catalogs(cluster: Cluster, lists: Mapping[str, list[Kept]], parts: Delta) -> int:
    """All catalogs of the kinds in `lists`, which are complete; of others what changed in `parts`.

    Returns the rows written. ClusterCatalogs come first: where names clash, theirs stays short.
    """
    return _record_cluster_catalogs(cluster, lists, parts) + _record_sources(cluster, lists, parts)


def _record_cluster_catalogs(
    cluster: Cluster, lists: Mapping[str, list[Kept]], parts: Delta
) -> int:
    listed = [lists[kind] for kind in _CLUSTER_CATALOGS if kind in lists]
    found = [one for several in listed for one in several]
    if len(listed) == len(_CLUSTER_CATALOGS):
        return record_cluster_catalogs(cluster, _objects(found))
    # Both kinds share their rows: the list of one kind says nothing about those of the other.
    names = {key[2] for key in parts.touched if key[0] in _CLUSTER_CATALOGS}
    names |= {one.name for one in found}
    if not names:
        return 0
    changed = [one for one in parts.changed.values() if one.kind in _CLUSTER_CATALOGS]
    return record_cluster_catalogs(cluster, _objects(found or changed), only=names)


def _record_sources(cluster: Cluster, lists: Mapping[str, list[Kept]], parts: Delta) -> int:
    if _CATALOG_SOURCE in lists:
        return record_catalog_sources(cluster, _objects(lists[_CATALOG_SOURCE]))
    keys = {key[1:] for key in parts.touched if key[0] == _CATALOG_SOURCE}
    if not keys:
        return 0
    changed = [one for one in parts.changed.values() if one.kind == _CATALOG_SOURCE]
    return record_catalog_sources(cluster, _objects(changed), only=keys)


def _objects(found: Iterable[Kept]) -> list[Object]:
    return [one.source for one in found if one.source]
