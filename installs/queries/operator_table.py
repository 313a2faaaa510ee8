"""The table of operators: its columns, the order of its rows, and what a row shows."""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import (
    Case,
    F,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    TextField,
    Value,
    When,
)
from django.db.models.fields.json import KT
from django.db.models.functions import Coalesce, NullIf

from catalogs.models import Package
from installs.methods import AUTOMATIC
from installs.models import Component, Health, Operator
from installs.queries.operators import (
    OperatorFilters,
    awaits_first_approval,
    flapping,
    has_installed_nothing,
    is_slow,
    operators_matching,
    why,
)
from installs.state.observation import details_of
from olmweb.kube.fields import text, texts
from olmweb.web.tables import Column, Table

NAMESPACES_SHOWN = 3
OPERATORS = Table(
    "operators",
    "Installed operators",
    "installs:operators",
    (
        Column("name", "Name", fixed=True, exported=("name", "package")),
        Column("cluster", "Cluster", keys=("cluster__name",)),
        Column("path", "Install method", initial=False, keys=("kind",), exported=("kind",)),
        Column("namespace", "Namespace"),
        Column("managed", "Managed namespaces", exported=("managed_namespaces",)),
        Column("health", "Status", keys=("rank",), exported=("status", "why")),
        Column("version", "Version", exported=("version", "upgrade")),
        Column("channel", "Channel"),
        Column("approval", "Update approval"),
        Column("catalog", "Catalog"),
        Column("since", "Last updated", keys=("since_or_never",)),
    ),
    sorted_by="health",
)
_GROUP = "OperatorGroup"
_CSV = "ClusterServiceVersion"
_IN_A_GROUP = ("Subscription", _CSV)
_ALL = ("",)  # status.namespaces of an OperatorGroup of all namespaces


@dataclass(frozen=True, slots=True)
class OperatorLine:
    """One row. `health` is that of the installed version: an update that waits for approval is
    no fault of it, so `waits` says that apart. `version` is the installed one. `managed` are the
    managed namespaces, `("",)` for all and none where they are not known, or where a
    PlatformOperator has installed nothing. `approval` is empty for kinds without one; `icon` is a
    digest or empty; `flapping` counts changes of the health in 24 h, 0 for a few.
    `default_channel` is the channel that a Subscription without one follows, else empty."""

    operator: Operator
    health: str
    waits: bool
    why: str
    slow: bool
    flapping: int
    version: str
    managed: tuple[str, ...]
    approval: str
    icon: str
    default_channel: str

    @property
    def has_upgrade(self) -> bool:
        return self.operator.upgrade not in ("", self.operator.version)

    @property
    def managed_words(self) -> str:
        """For exports."""
        return "All" if self.manages_all else ", ".join(self.managed)

    @property
    def manages_all(self) -> bool:
        return self.managed == _ALL

    @property
    def namespaces_shown(self) -> tuple[str, ...]:
        return self.managed[:NAMESPACES_SHOWN]

    @property
    def namespaces_more(self) -> int:
        return len(self.managed) - len(self.namespaces_shown)


def sorted_rows(filters: OperatorFilters, order: Sequence[str]) -> QuerySet[Operator]:
    """The matching operators in this order of the table, with the fields that it needs."""
    rows = operators_matching(filters).defer("conditions")
    key = order[0].removeprefix("-")
    if key == "approval":
        rows = rows.annotate(approval=_APPROVAL)
    elif key == "managed":
        rows = rows.annotate(managed=_managed())
    return rows.order_by(*order)


_APPROVAL: Any = Case(
    When(
        kind="Subscription",
        then=Coalesce(NullIf(KT("details__approval"), Value("")), Value(AUTOMATIC)),
    ),
    default=Value(""),
    output_field=TextField(),
)


def _managed() -> Any:
    """The namespaces of the OperatorGroup as JSON text; that of no group is empty."""
    groups = Component.objects.filter(
        cluster=OuterRef("cluster"), kind=_GROUP, namespace=OuterRef("namespace")
    ).order_by("name")
    listed = Subquery(groups.values(listed=KT("details__namespaces"))[:1], TextField())
    return Case(
        When(kind="PlatformOperator", then=Value('[""]')),
        When(kind__in=_IN_A_GROUP, then=Coalesce(listed, Value(""), output_field=TextField())),
        default=Value(""),
        output_field=TextField(),
    )


def operator_lines(operators: Sequence[Operator]) -> list[OperatorLine]:
    """What the rows show; at most three queries."""
    unsteady = flapping(operators)
    icons, default_channels = _icons_and_channels(operators)
    groups, running = _components(operators)
    lines = []
    for row in operators:
        details = details_of(row)
        waits = _waits(row, running)
        managed: tuple[str, ...] = ()
        nothing = has_installed_nothing(row)
        if row.kind == "PlatformOperator" and not nothing:
            managed = _ALL  # it installs in no other mode
        elif row.kind in _IN_A_GROUP:
            managed = groups.get((row.cluster_id, row.namespace), ())
        approval = text(details, "approval") or AUTOMATIC
        lines.append(
            OperatorLine(
                operator=row,
                health=str(Health.HEALTHY) if waits else row.health,
                waits=waits,
                why="" if waits else why(row),
                slow=is_slow(row),
                flapping=unsteady.get(row.pk, 0),
                version="" if nothing or awaits_first_approval(row) else row.version,
                managed=managed,
                approval=approval if row.kind == "Subscription" else "",
                icon=icons.get(row.pk, ""),
                default_channel=(
                    default_channels.get(row.pk, "")
                    if row.kind == "Subscription" and not row.channel
                    else ""
                ),
            )
        )
    return lines


def runs_beside_update(operator: Operator) -> bool:
    """Whether its installed version runs while an update needs approval: it is healthy, with an
    update available. One query in the state NeedsApproval, else none."""
    if operator.health != Health.NEEDS_APPROVAL:
        return False
    _, running = _components([operator])
    return _waits(operator, running)


def _waits(row: Operator, running: Container[tuple[int, str, str]]) -> bool:
    """`running`: as of `_components`."""
    installed = text(details_of(row), "installed_csv")
    return row.health == Health.NEEDS_APPROVAL and (
        (row.cluster_id, row.namespace, installed) in running
    )


def _components(
    operators: Sequence[Operator],
) -> tuple[dict[tuple[int, str], tuple[str, ...]], set[tuple[int, str, str]]]:
    """((cluster, namespace) -> namespaces of its OperatorGroup, (cluster, namespace, name) of
    installed ClusterServiceVersions that run beside an update that waits); one query."""
    spaces = {row.namespace for row in operators if row.kind in _IN_A_GROUP}
    waiting = [row for row in operators if row.health == Health.NEEDS_APPROVAL]
    csvs = {text(details_of(row), "installed_csv") for row in waiting} - {""}
    wanted = Q(kind=_GROUP, namespace__in=spaces)
    if csvs:
        wanted |= Q(kind=_CSV, phase="Succeeded", name__in=csvs)
    groups: dict[tuple[int, str], tuple[str, ...]] = {}
    running: set[tuple[int, str, str]] = set()
    if not spaces:
        return groups, running
    rows = Component.objects.filter(
        wanted, cluster__in={row.cluster_id for row in operators}
    ).annotate(listed=F("details__namespaces"))
    for cluster, kind, namespace, name, listed in rows.order_by("name").values_list(
        "cluster", "kind", "namespace", "name", "listed"
    ):
        if kind == _CSV:
            running.add((cluster, namespace, name))
        else:
            groups.setdefault((cluster, namespace), tuple(texts({"names": listed}, "names")))
    return groups, running


def _icons_and_channels(
    operators: Iterable[Operator],
) -> tuple[dict[int, str], dict[int, str]]:
    """Id of an operator -> digest of the icon of its package, that of its own catalog if it has
    one; and -> default channel of the package in its own catalog. One query."""
    named = [row for row in operators if row.package]
    rows = Package.objects.filter(
        name__in={row.package for row in named},
        catalog__cluster__in={row.cluster_id for row in named},
    ).order_by("pk")
    icons: dict[tuple[Any, ...], str] = {}
    channels: dict[tuple[Any, ...], str] = {}
    for cluster, catalog, name, digest, channel in rows.values_list(
        "catalog__cluster", "catalog__name", "name", "icon", "default_channel"
    ):
        channels.setdefault((cluster, catalog, name), channel)
        if digest:
            icons.setdefault((cluster, catalog, name), digest)
            icons.setdefault((cluster, name), digest)
    return {
        row.pk: icons.get((row.cluster_id, row.catalog, row.package))
        or icons.get((row.cluster_id, row.package), "")
        for row in named
    }, {row.pk: channels.get((row.cluster_id, row.catalog, row.package), "") for row in named}
