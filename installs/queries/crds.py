"""Reads about CustomResourceDefinitions: those that will block an upgrade first."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Case, IntegerField, QuerySet, TextField, Value, When
from django.db.models.functions import Cast

from catalogs.install_methods import InstallMethod
from installs.diagnosis.knowledge import Finding, finding_for
from installs.models import CRDState
from installs.queries import narrow, search
from olmweb.web.tables import Column, Table

_LISTS = ("stored_text", "served_text", "defined_text")
CRDS = Table(
    "crds",
    "CRDs",
    "installs:crds",
    (
        Column("name", "Name", fixed=True, exported=("name", "kind")),
        Column("cluster", "Cluster", keys=("cluster__name",)),
        Column("stored", "Stored", keys=("stored_text",)),
        Column("served", "Served", keys=("served_text",)),
        Column("defined", "Defined", keys=("defined_text",)),
        Column(
            "owner",
            "Owner",
            keys=("owner_name",),
            exported=("owner", "owner_kind", "owner_namespace"),
        ),
        Column("problem", "Problem", keys=("calm", "cluster__name")),
    ),
    sorted_by="problem",
)


@dataclass(frozen=True, slots=True)
class OwnedCRD:
    """A CustomResourceDefinition with what is wrong with it.

    `owner` is a package when `owner_kind` is Subscription, else the name of an operator; it is only
    words, without a page, when `owner_kind` is empty.
    """

    row: CRDState
    finding: Finding | None
    owner: str
    owner_kind: str
    owner_namespace: str


def crds_matching(*, cluster: str = "", q: str = "", finding: str = "") -> QuerySet[CRDState]:
    """CustomResourceDefinitions with their cluster; `calm` is 0 for those with a finding."""
    rows = (
        CRDState.objects.select_related("cluster")
        .defer("config_schemas")
        .annotate(
            calm=Case(
                When(finding="", then=Value(1)), default=Value(0), output_field=IntegerField()
            )
        )
    )
    rows = narrow(rows, cluster__name=cluster)
    if finding:
        rows = rows.filter(finding="" if finding == "-" else finding)
    return search(rows, q, "name", "served_kind", "owner_name")


def sorted_crds(
    order: Sequence[str], *, cluster: str = "", q: str = "", problems: bool = False
) -> QuerySet[CRDState]:
    """The matching ones in this order of the table, with the fields that it needs."""
    rows = crds_matching(cluster=cluster, q=q)
    if problems:
        rows = rows.exclude(finding="")
    key = order[0].removeprefix("-")
    if key in _LISTS:  # JSON, which a database compares as text alone
        rows = rows.annotate(**{key: Cast(key.removesuffix("_text"), TextField())})
    return rows.order_by(*order)


def crd_finding(row: CRDState) -> Finding | None:
    """The finding with the name of the definition in its commands."""
    if not row.finding:
        return None
    facts = {str(key): str(value) for key, value in row.facts.items()}
    return finding_for(row.finding, facts, {"kind": row.kind, "name": row.name})


def crd_row(row: CRDState) -> OwnedCRD:
    """The row of the page for one definition."""
    owner = row.operator
    if owner is None:
        return OwnedCRD(row, crd_finding(row), "", "", "")
    kind = owner.kind if owner.kind in tuple(InstallMethod) else ""
    return OwnedCRD(row, crd_finding(row), owner.name, kind, owner.namespace)
