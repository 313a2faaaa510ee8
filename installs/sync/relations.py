"""Who belongs to whom: components to operators, images to bundles, members to their operators."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from catalogs.models import Bundle
from installs.aggregated import disagreement, parse_members
from installs.models import ClusterOperatorMember, Component, Operator
from installs.sync.decode import Kept, Key
from installs.sync.store import BATCH, upsert
from olmweb.kube.conditions import find, status_of, text


@dataclass(frozen=True, slots=True)
class Part:
    """A stored component, with what its relations need."""

    id: int
    kind: str
    namespace: str
    name: str
    owner_kind: str
    owner_name: str
    image: str
    operator_id: int | None


def load_parts(cluster_id: int) -> list[Part]:
    rows = Component.objects.filter(cluster_id=cluster_id).values_list(
        "id", "kind", "namespace", "name", "owner_kind", "owner_name", "image", "operator_id"
    )
    return [Part(*row) for row in rows]


def with_versions(operators: Sequence[Kept], parts: Sequence[Part], cluster_id: int) -> list[Kept]:
    """PlatformOperators completed with bundle and version of the image that they deploy.

    The PlatformOperator itself names neither; its BundleDeployment names an image, and a catalog
    that has that image knows the rest. Without one the image itself stands for the bundle.
    """
    images = {part.name: part.image for part in parts if part.kind == "BundleDeployment"}
    known = _bundles_by_image(operators, images, cluster_id)
    completed = []
    for one in operators:
        if one.kind == "PlatformOperator":
            image = images.get(one.name, "")
            name, version, deprecated = known.get(image, (image, "", False))
            columns = {"bundle": name, "version": version, "deprecated": deprecated}
            one = replace(one, columns={**one.columns, **columns})
        completed.append(one)
    return completed


def _bundles_by_image(
    operators: Sequence[Kept], images: Mapping[str, str], cluster_id: int
) -> dict[str, tuple[str, str, bool]]:
    """Image -> (bundle, version, deprecated), of this cluster's catalogs before any other."""
    packages = {one.columns["package"] for one in operators if one.kind == "PlatformOperator"}
    wanted = {image for image in images.values() if image}
    if not packages or not wanted:
        return {}
    rows = Bundle.objects.filter(package__name__in=packages, image__in=wanted).values_list(
        "image", "name", "version", "deprecated", "package__catalog__cluster_id"
    )
    ordered = sorted(rows, key=lambda row: (row[4] == cluster_id, row[1]))
    return {image: (name, version, gone) for image, name, version, gone, _ in ordered}


def link_components(
    parts: Sequence[Part], operator_ids: Mapping[Key, int], cluster_id: int
) -> set[int]:
    """Points each component at its operator; returns the ids of operators that won or lost one.

    PlatformOperator -> BundleDeployment by owner reference, else by name, which is always the same;
    BundleDeployment -> Bundle by label.
    """
    owners: dict[str, int] = {}  # BundleDeployment -> operator
    wanted: dict[int, int | None] = {}
    for part in sorted(parts, key=lambda part: part.kind, reverse=True):  # deployments first
        if part.kind == "BundleDeployment":
            name = part.owner_name if part.owner_kind == "PlatformOperator" else part.name
            owner = operator_ids.get(("PlatformOperator", "", name))
            if owner is not None:
                owners[part.name] = owner
            wanted[part.id] = owner
        else:
            is_owned = part.owner_kind == "BundleDeployment"
            wanted[part.id] = owners.get(part.owner_name) if is_owned else None
    moved = [part for part in parts if wanted[part.id] != part.operator_id]
    rows = [
        Component(
            cluster_id=cluster_id,
            kind=part.kind,
            namespace=part.namespace,
            name=part.name,
            operator_id=wanted[part.id],
        )
        for part in moved
    ]
    upsert(Component, rows, ["operator"])
    touched = {one for part in moved for one in (wanted[part.id], part.operator_id) if one}
    return touched & set(operator_ids.values())


def with_problems(
    cluster_operators: Sequence[Kept], platform_operators: Sequence[Kept] | None
) -> list[Kept]:
    """Aggregated ones completed with the sentence on what they and the objects disagree about.

    `platform_operators` is None when they could not be read: then there is nothing to compare.
    """
    if platform_operators is None:
        return list(cluster_operators)
    failing = {one.name for one in platform_operators if status_of(one.conditions, "Installed") != "True"}
    return [
        replace(one, columns={**one.columns, "problem": disagreement(_members_of(one), failing)})
        if one.columns["aggregated"]
        else one
        for one in cluster_operators
    ]


def _members_of(one: Kept) -> Sequence[Any]:
    return parse_members(text(find(one.conditions, "Available"), "message"))


def join_members(
    cluster_operators: Iterable[Kept], row_ids: Mapping[Key, int], cluster_id: int
) -> int:
    """Brings the members of aggregated ClusterOperators to what their messages list.

    Returns how many rows it wrote or deleted.
    """
    wanted: dict[tuple[int, str], str] = {}
    for one in cluster_operators:
        if one.columns["aggregated"]:
            wanted |= {(row_ids[one.key], m.name[:253]): m.reason for m in _members_of(one)}
    stored = {
        (row.cluster_operator_id, row.name): row
        for row in ClusterOperatorMember.objects.filter(cluster_operator__cluster_id=cluster_id)
    }
    if not wanted and not stored:
        return 0
    operators = dict(
        Operator.objects.filter(
            cluster_id=cluster_id,
            kind="PlatformOperator",
            name__in={name for _, name in wanted},
        ).values_list("name", "id")
    )
    rows = [
        ClusterOperatorMember(
            cluster_operator_id=parent, name=name, reason=reason, operator_id=operators.get(name)
        )
        for (parent, name), reason in wanted.items()
        if (old := stored.get((parent, name))) is None
        or (old.reason, old.operator_id) != (reason, operators.get(name))
    ]
    ClusterOperatorMember.objects.bulk_create(
        rows,
        batch_size=BATCH,
        update_conflicts=True,
        unique_fields=["cluster_operator", "name"],
        update_fields=["reason", "operator"],
    )
    gone = [row.pk for key, row in stored.items() if key not in wanted]
    if gone:
        ClusterOperatorMember.objects.filter(pk__in=gone).delete()
    return len(rows) + len(gone)
