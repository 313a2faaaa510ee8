"""OperatorGroups as rows tell of them: which namespaces the operators of a namespace watch."""

from typing import Any

from catalogs.verdicts import Group
from installs.models import Component
from installs.state.observation import details_of
from olmweb.models import Cluster


def groups_of(cluster: Cluster) -> tuple[Group, ...]:
    """The OperatorGroups, by namespace. One query.

    What one came to select is in its status; until it is, its spec says: without target namespaces
    and selector it is all.
    """
    rows = Component.objects.filter(cluster=cluster, kind="OperatorGroup")
    found = []
    for row in rows.order_by("namespace", "name"):
        details: dict[str, Any] = row.details
        asked = details.get("targets") or ([] if details.get("selects") else [""])
        selects = frozenset(details.get("namespaces") or asked)
        alone = bool(details.get("own_catalogs_only"))
        found.append(Group(row.namespace, row.name, selects, alone))
    return tuple(found)


def groups_in(cluster: Cluster, namespace: str) -> list[Component]:
    """OLM v0 works where there is exactly one."""
    rows = Component.objects.filter(cluster=cluster, kind="OperatorGroup", namespace=namespace)
    return list(rows.order_by("name"))


def watched(group: Component) -> tuple[str, ...]:
    """The namespaces that the group selects; none means every namespace."""
    namespaces = details_of(group).get("namespaces")
    listed = [str(one) for one in namespaces] if isinstance(namespaces, list) else []
    return () if listed == [""] else tuple(listed)


def watched_from(cluster: Cluster, namespace: str, wanted: tuple[str, ...] = ()) -> tuple[str, ...]:
    """What operators in the namespace would watch: its group's choice, else what is `wanted`."""
    groups = groups_in(cluster, namespace)
    return watched(groups[0]) if groups else wanted
