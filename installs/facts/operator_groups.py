"""OperatorGroups from stored rows: the namespaces that the operators of a namespace watch."""

from typing import Any

from catalogs.verdicts.facts import OperatorGroupFacts
from installs.models import Component
from installs.state.observation import details_of
from olmweb.models import Cluster


def groups_of(cluster: Cluster) -> tuple[OperatorGroupFacts, ...]:
    """The OperatorGroups, by namespace. One query.

    The selected namespaces are those of the status, or of the spec while the status has none. A
    spec without target namespaces and selector selects all.
    """
    rows = Component.objects.filter(cluster=cluster, kind="OperatorGroup")
    groups = []
    for row in rows.order_by("namespace", "name"):
        details: dict[str, Any] = row.details
        requested = details.get("targets") or ([] if details.get("selects") else [""])
        selects = frozenset(details.get("namespaces") or requested)
        alone = bool(details.get("own_catalogs_only"))
        groups.append(OperatorGroupFacts(row.namespace, row.name, selects, alone))
    return tuple(groups)


def groups_in(cluster: Cluster, namespace: str) -> list[Component]:
    """The OperatorGroups of a namespace; OLM v0 needs exactly one."""
    rows = Component.objects.filter(cluster=cluster, kind="OperatorGroup", namespace=namespace)
    return list(rows.order_by("name"))


def watched(group: Component) -> tuple[str, ...]:
    """The namespaces that the group selects; none means every namespace."""
    namespaces = details_of(group).get("namespaces")
    listed = [str(namespace) for namespace in namespaces] if isinstance(namespaces, list) else []
    return () if listed == [""] else tuple(listed)


def watched_from(cluster: Cluster, namespace: str, wanted: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The namespaces that operators in the namespace watch: those of its group, or `wanted`."""
    groups = groups_in(cluster, namespace)
    return watched(groups[0]) if groups else wanted
