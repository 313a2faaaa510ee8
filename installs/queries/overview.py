"""Reads behind the overview: problems of each cluster, work that waits, catalogs."""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain
from operator import attrgetter

from django.db.models import Count, Q, Value

from catalogs.models import Catalog, distinct_catalogs
from catalogs.queries import CatalogState
from installs.diagnosis.aggregated import NAME as AGGREGATED
from installs.diagnosis.aggregated import (
    REFUSED_WHILE_FAILING,
    blocks_completion,
    summarize_impact,
)
from installs.diagnosis.types import read_conditions
from installs.models import (
    FAILING,
    NEEDS_ATTENTION,
    ClusterOperator,
    Component,
    CRDState,
    Health,
    InstallRequest,
    Operator,
    crd_operator,
)
from installs.queries.changes import FailureHistory
from installs.queries.operator_index import OPERATOR_INDEX, ClusterIndex, facts_of
from installs.queries.operators import (
    CauseGroup,
    CauseTarget,
    cause_members,
    cause_title,
    group_by_cause,
)
from installs.state.observation import details_of
from olmweb.kube.fields import read_time, text, texts
from olmweb.models import CLUSTER_STATES, Cluster
from olmweb.web.revisions import PerRevision

_BAD = tuple(str(value) for value in NEEDS_ATTENTION)


@dataclass(frozen=True, slots=True)
class WaitingPlan:
    """An InstallPlan that waits for a person, and the operators that it is about."""

    cluster: str
    namespace: str
    name: str
    operators: tuple[Operator, ...]


@dataclass(frozen=True, slots=True)
class TroubledCRD:
    """A CRD with a finding; `operator` is the name of its operator, empty if unknown."""

    name: str
    cluster: Cluster
    operator: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """Work that waits for a person or is in progress."""

    actions: int
    upgrades: int
    approvals: tuple[WaitingPlan, ...]
    crds: tuple[TroubledCRD, ...]
    requests: tuple[InstallRequest, ...] = ()

    @property
    def any(self) -> bool:
        return any((self.actions, self.upgrades, self.approvals, self.crds, self.requests))


def approvals_of(cluster: str, operators: Sequence[Operator]) -> list[WaitingPlan]:
    """The InstallPlans that wait, each once however many operators it is about."""
    plans: dict[tuple[str, str], list[Operator]] = defaultdict(list)
    for row in operators:
        details = details_of(row)
        if row.health == Health.NEEDS_APPROVAL and details.get("plan"):
            namespace = str(details.get("plan_namespace") or row.namespace)
            plans[namespace, str(details["plan"])].append(row)
    return [
        WaitingPlan(cluster, namespace, name, tuple(rows))
        for (namespace, name), rows in sorted(plans.items())
    ]


@dataclass(frozen=True, slots=True)
class UpdateBlocker:
    """A blocker of an update of the cluster itself, with the cluster's own message."""

    kind: str
    name: str
    reason: str
    message: str


# "Cluster operators etcd, network are not available" or "Some cluster operators are still updating:
# etcd"; cluster-version-operator pkg/cvo/status.go and pkg/payload/task_graph.go.
_NAME = r"[a-z0-9][a-z0-9-]*"
_NAMES = re.compile(
    r"luster operators? (?:(?:are|have)\b[^:\n]{0,100}: )?"
    rf"({_NAME}(?:(?:, and |, | and ){_NAME})*)"
)


@dataclass(frozen=True, slots=True)
class Recovery:
    """The ClusterOperators that the message of Failing names recovered, and the ClusterVersion,
    which says Failing=True since `failing_since`, was not updated yet; `at` is when the last of
    them recovered. Times are None if unknown."""

    operators: tuple[str, ...]
    at: datetime | None
    failing_since: datetime | None


@dataclass(frozen=True, slots=True)
class ClusterUpdate:
    """The state of the ClusterVersion; `desired` is another version while an update runs.
    `failing_operator` is the ClusterOperator in the message `failing`; of several, the only one
    that blocks the completion; else empty. `delayers` are the ClusterOperators that the message
    does not contain and without which no update completes. `recovery` is None unless all in the
    message recovered."""

    version: str
    desired: str
    available: tuple[str, ...]
    blockers: tuple[UpdateBlocker, ...]
    failing: str
    failing_operator: str = ""
    delayers: tuple[ClusterOperator, ...] = ()
    recovery: Recovery | None = None

    @property
    def refusal(self) -> str:
        """What `oc adm upgrade` does while the cluster is failing; empty if it is not."""
        return REFUSED_WHILE_FAILING if self.failing else ""


def _update_of(
    row: Component | None, cluster_operators: Sequence[ClusterOperator]
) -> ClusterUpdate | None:
    """From the ClusterVersion, and from the ClusterOperators that say Upgradeable=False or that its
    message names."""
    if row is None:
        return None
    details = details_of(row)
    conditions = {condition.type: condition for condition in read_conditions(row.conditions)}
    blockers = [
        UpdateBlocker("ClusterOperator", operator.name, condition.reason, condition.message)
        for operator in cluster_operators
        for condition in read_conditions(operator.conditions)
        if condition.type == "Upgradeable" and condition.status == "False"
    ]
    own = conditions.get("Upgradeable")
    if own and own.status == "False" and not blockers:  # it repeats what they say
        blockers.append(UpdateBlocker("ClusterVersion", row.name, own.reason, own.message))
    refused = conditions.get("ReleaseAccepted")
    if refused and refused.status == "False":
        blockers.append(UpdateBlocker("ClusterVersion", row.name, refused.reason, refused.message))
    failing, names = _failure(row)
    named = [operator for operator in cluster_operators if operator.name in names]
    unhealthy = [
        operator for operator in named if blocks_completion(read_conditions(operator.conditions))
    ]
    reasons = unhealthy or named
    return ClusterUpdate(
        version=text(details, "version"),
        desired=text(details, "desired"),
        available=tuple(texts(details, "available")),
        blockers=tuple(blockers),
        failing=failing,
        failing_operator=reasons[0].name if len(reasons) == 1 else "",
        delayers=tuple(
            operator
            for operator in cluster_operators
            if operator not in named and blocks_completion(read_conditions(operator.conditions))
        ),
        recovery=_recovery(named, read_time(conditions["Failing"].last_transition_time))
        if named and not unhealthy
        else None,
    )


def _failure(cluster_version: Component) -> tuple[str, set[str]]:
    """The message of Failing=True, empty if it does not say so, and the names of ClusterOperators
    that it is about. Other words of it may be names too, as network in "no network"."""
    for condition in read_conditions(cluster_version.conditions):
        if (condition.type, condition.status) == ("Failing", "True"):
            lists = _NAMES.findall(condition.message)
            return condition.message, {name for names in lists for name in re.findall(_NAME, names)}
    return "", set()


def _recovery(operators: Sequence[ClusterOperator], failing_since: datetime | None) -> Recovery:
    times = [
        read_time(condition.last_transition_time)
        for operator in operators
        for condition in read_conditions(operator.conditions)
        if condition.type in ("Available", "Degraded")
    ]
    return Recovery(
        operators=tuple(operator.name for operator in operators),
        at=max((time for time in times if time), default=None),
        failing_since=failing_since,
    )


@dataclass(frozen=True, slots=True)
class HealthCounts:
    """How many operators there are of each health."""

    by_health: Mapping[str, int]
    upgrades: int = 0  # operators with another version to take

    @property
    def total(self) -> int:
        return sum(self.by_health.values())

    @property
    def attention(self) -> int:
        return sum(self.by_health.get(value, 0) for value in _BAD)

    @property
    def healthy(self) -> int:
        return self.by_health.get(Health.HEALTHY, 0)

    @property
    def failing(self) -> int:
        return sum(self.by_health.get(value, 0) for value in FAILING)

    @property
    def working(self) -> int:
        return self.by_health.get(Health.INSTALLING, 0) + self.by_health.get(Health.UPGRADING, 0)

    @property
    def segments(self) -> list[tuple[str, str, int]]:
        """(words, CSS class suffix, count) in the order of the donut; zeros left out."""
        count = self.by_health.get
        groups = [
            ("healthy", "healthy", self.healthy),
            ("working", "working", self.working),
            ("degraded", "warning", count(Health.DEGRADED, 0)),
            ("needs approval", "approval", count(Health.NEEDS_APPROVAL, 0)),
            ("failed or blocked", "failed", count(Health.FAILED, 0) + count(Health.BLOCKED, 0)),
            ("unknown", "unknown", count(Health.UNKNOWN, 0)),
        ]
        return [group for group in groups if group[2]]


def counts_of(index: ClusterIndex) -> HealthCounts:
    return HealthCounts(index.by_health, index.upgrades)


@dataclass(frozen=True, slots=True)
class Arc:
    """One part of the donut: where it starts and how long it is, in hundredths of the circle."""

    words: str
    css: str
    count: int
    length: str
    rest: str
    offset: str


def arcs_of(segments: Sequence[tuple[str, str, int]]) -> list[Arc]:
    """(words, CSS class suffix, count) as the arcs of a donut, clockwise from the top."""
    total = sum(count for _, _, count in segments) or 1
    arcs, start = [], 0.0
    for words, css, count in segments:
        length = count * 100 / total
        arcs.append(Arc(words, css, count, f"{length:.2f}", f"{100 - length:.2f}", f"{-start:.2f}"))
        start += length
    return arcs


@dataclass(frozen=True, slots=True)
class BlockingOperator:
    """A ClusterOperator that is not as it should be, or the aggregated one.
    `impact` says what it blocks and what not."""

    row: ClusterOperator
    impact: str


@dataclass(frozen=True, slots=True)
class _ClusterState:
    """The update of a cluster, None where no ClusterVersion is known, and its unhealthy
    ClusterOperators, worst first; the aggregated one is among them."""

    update: ClusterUpdate | None
    cluster_operators: tuple[BlockingOperator, ...]


def _read_states(ids: Collection[int]) -> dict[int, _ClusterState]:
    """Two queries."""
    components = Component.objects.filter(cluster__in=ids, kind="ClusterVersion")
    versions = {row.cluster_id: row for row in components.order_by("-name")}
    named = set[str]().union(*(_failure(row)[1] for row in versions.values()))
    wanted = Q(severity__gt=0) | Q(name__in={AGGREGATED, *named}) | Q(upgradeable="False")
    rows: dict[int, list[ClusterOperator]] = {pk: [] for pk in ids}
    for row in ClusterOperator.objects.filter(wanted, cluster__in=ids).order_by(
        "-severity", "name"
    ):
        rows[row.cluster_id].append(row)
    return {
        pk: _ClusterState(
            _update_of(versions.get(pk), operators),
            tuple(
                BlockingOperator(row, summarize_impact(read_conditions(row.conditions)))
                for row in operators
            ),
        )
        for pk, operators in rows.items()
    }


_STATES = PerRevision(_read_states)


def updates_of(clusters: Sequence[Cluster]) -> dict[int, ClusterUpdate | None]:
    """Cluster id -> its update, None where no ClusterVersion is known; two queries if clusters
    changed."""
    return {pk: state.update for pk, state in _STATES.of(clusters).items()}


@dataclass(frozen=True, slots=True)
class ClusterSummary:
    """A cluster and the numbers of its operators."""

    cluster: Cluster
    counts: HealthCounts

    @property
    def state(self) -> str:
        """One of CLUSTER_STATES."""
        return self.cluster.state(self.counts.attention)


@dataclass(frozen=True, slots=True)
class ClusterRow(ClusterSummary):
    """A row of the table of clusters; `causes` are (number of operators, title), most first."""

    causes: Sequence[tuple[int, str]]
    unhealthy_cluster_operators: int
    problems: list[str]  # kinds that can't be read, in words


@dataclass(frozen=True, slots=True)
class ClusterOverview(ClusterSummary):
    """The content of the overview for one cluster."""

    arcs: list[Arc]
    causes: list[CauseGroup]
    cluster_operators: list[BlockingOperator]
    update: ClusterUpdate | None  # None where no ClusterVersion is known
    problems: list[str]  # kinds that can't be read, in words
    has_cluster_operators: bool  # the cluster serves the kind, or was not read yet

    @property
    def unhealthy_cluster_operators(self) -> int:
        return sum(bool(entry.row.severity) for entry in self.cluster_operators)


# By id of the cluster: (number of operators, title of their cause), most operators first.
Causes = Mapping[int, Sequence[tuple[int, str]]]


def summaries(clusters: Sequence[Cluster]) -> list[ClusterSummary]:
    """One entry a cluster, worst first; one query if clusters changed."""
    indexes = OPERATOR_INDEX.of(clusters)
    return sorted(
        (ClusterSummary(row, counts_of(indexes[row.pk])) for row in clusters), key=by_need
    )


def causes_of(clusters: Collection[Cluster]) -> Causes:
    """The causes of the operators that need attention; one query if clusters changed."""
    causes: dict[int, Sequence[tuple[int, str]]] = {}
    for pk, index in OPERATOR_INDEX.of(clusters).items():
        numbers: Counter[str] = Counter()
        for cause in index.causes:
            title = cause_title(cause.finding, cause.reason, facts_of([cause]))
            numbers[title] += len(cause.rows)
        causes[pk] = sorted(
            ((number, title) for title, number in numbers.items()),
            key=lambda entry: (-entry[0], entry[1]),
        )
    return causes


def by_need(entry: ClusterSummary) -> tuple[int, int, str]:
    """Sorts clusters worst first."""
    return CLUSTER_STATES.index(entry.state), -entry.counts.attention, entry.cluster.name


def cluster_rows(entries: Sequence[ClusterSummary]) -> list[ClusterRow]:
    """The rows of these clusters, in their order."""
    clusters = [entry.cluster for entry in entries]
    causes = causes_of(clusters)
    kinds = kinds_of(clusters)
    troubles = _TROUBLES.of(entry.cluster for entry in entries)
    return [
        ClusterRow(
            cluster=entry.cluster,
            counts=entry.counts,
            causes=causes[entry.cluster.pk],
            unhealthy_cluster_operators=troubles[entry.cluster.pk].cluster_operators,
            problems=unreadable_kinds(kinds[entry.cluster.pk]),
        )
        for entry in entries
    ]


@dataclass(slots=True)
class _Troubles:
    """Of one cluster: the names of its CRDs with a finding and of their operators, in order; the
    number of its ClusterOperators that are not as they should be."""

    crds: list[tuple[str, str]] = field(default_factory=list)
    cluster_operators: int = 0


def _read_troubles(ids: Collection[int]) -> dict[int, _Troubles]:
    """One query."""
    troubles = {pk: _Troubles() for pk in ids}
    crds = CRDState.objects.exclude(finding="").filter(cluster__in=ids).order_by()
    unhealthy = ClusterOperator.objects.filter(cluster__in=ids, severity__gt=0).order_by()
    owner = ("owner_kind", "owner_namespace", "owner_name")
    named = crds.values_list("cluster", "name", *owner, Value(0))
    nothing = (Value(""), Value(""), Value(""), Value(""))
    counted = unhealthy.values_list("cluster", *nothing).annotate(number=Count("pk"))
    for pk, name, *of_owner, number in sorted(named.union(counted, all=True)):
        if name:
            operator = crd_operator(*of_owner)
            troubles[pk].crds.append((name, operator.name if operator else ""))
        else:
            troubles[pk].cluster_operators = number
    return troubles


_TROUBLES = PerRevision(_read_troubles)


def operators_to_approve(clusters: Sequence[Cluster]) -> list[Operator]:
    """Those of these clusters that need approval, with the fields of `waiting`; one query if
    clusters changed."""
    indexes = OPERATOR_INDEX.of(clusters).values()
    return list(chain.from_iterable(index.to_approve for index in indexes))


def shown_operators(clusters: Sequence[Cluster], *, names: int) -> list[Operator]:
    """Of these clusters, by name: the first `names` operators of each cause on each cluster, and
    all that need approval; one query."""
    return cause_members(
        Operator.objects.filter(cluster__in=clusters, health__in=NEEDS_ATTENTION),
        names=names,
        of_each_cluster=True,
        also=Q(health=Health.NEEDS_APPROVAL),
    )


def overview(
    clusters: Sequence[Cluster], operators: Sequence[Operator], *, names: int
) -> list[ClusterOverview]:
    """The overview of each of these clusters, in their order; four queries if clusters changed.

    `operators` are those of `shown_operators` for the same `names`: each cause carries that many.
    """
    indexes, states = OPERATOR_INDEX.of(clusters), _STATES.of(clusters)
    kinds = kinds_of(clusters)
    members: dict[int, list[Operator]] = defaultdict(list)
    for row in operators:
        members[row.cluster_id].append(row)
    return [
        ClusterOverview(
            cluster=cluster,
            counts=(counts := counts_of(indexes[cluster.pk])),
            arcs=arcs_of(counts.segments),
            causes=_causes(cluster, indexes[cluster.pk], members[cluster.pk], names),
            cluster_operators=[
                entry
                for entry in states[cluster.pk].cluster_operators
                if entry.row.severity or entry.row.aggregated
            ],
            update=states[cluster.pk].update,
            problems=unreadable_kinds(kinds[cluster.pk]),
            has_cluster_operators=not is_absent(kinds[cluster.pk], "ClusterOperator"),
        )
        for cluster in clusters
    ]


def _causes(
    cluster: Cluster, index: ClusterIndex, members: Sequence[Operator], names: int
) -> list[CauseGroup]:
    """The causes of one cluster with the kinds of their operators, most operators first."""
    kinds: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for cause in index.causes:
        kinds[cause.finding, cause.reason][cause.kind] += len(cause.rows)
    counts = [(*key, of_cause.total()) for key, of_cause in kinds.items()]
    return [
        replace(
            group,
            targets=tuple(
                CauseTarget(cluster.name, kind, number)
                for kind, number in kinds[group.id, group.reason].most_common()
            ),
        )
        for group in group_by_cause(counts, facts_of(index.causes), members, names=names)
    ]


def waiting(
    entries: Sequence[ClusterSummary],
    operators: Sequence[Operator],
    requests: Sequence[InstallRequest],
    history: FailureHistory,
) -> Waiting:
    """The work of these clusters, with the requests that the reader may decide.

    `operators` are those of `shown_operators` or `operators_to_approve`.
    """
    by_cluster: dict[int, list[Operator]] = defaultdict(list)
    for row in operators:
        by_cluster[row.cluster_id].append(row)
    return Waiting(
        actions=history.open_actions,
        upgrades=sum(entry.counts.upgrades for entry in entries),
        approvals=tuple(
            plan
            for entry in entries
            for plan in approvals_of(entry.cluster.name, by_cluster[entry.cluster.pk])
        ),
        crds=_crds_of([entry.cluster for entry in entries]),
        requests=tuple(requests),
    )


def _crds_of(clusters: Sequence[Cluster]) -> tuple[TroubledCRD, ...]:
    """By cluster and name."""
    troubles = _TROUBLES.of(clusters)
    by_name = sorted(clusters, key=attrgetter("name"))
    return tuple(
        TroubledCRD(name, row, operator)
        for row in by_name
        for name, operator in troubles[row.pk].crds
    )


# Kind -> its `state`, `version` and `error` as in Cluster.kinds.
KindStates = Mapping[str, Mapping[str, str]]


def _read_kinds(ids: Collection[int]) -> dict[int, KindStates]:
    """One query. The number of objects and the time of the pass are left out: the revision of a
    cluster does not cover them."""
    rows = Cluster.objects.filter(pk__in=ids).order_by().values_list("pk", "kinds")
    states: dict[int, KindStates] = {pk: {} for pk in ids}  # a row may be gone since
    return states | {
        pk: {
            kind: {key: text(status, key) for key in ("state", "version", "error")}
            for kind, status in sorted(kinds.items())
        }
        for pk, kinds in rows
    }


_KINDS = PerRevision(_read_kinds)


def kinds_of(clusters: Iterable[Cluster]) -> dict[int, KindStates]:
    """Cluster id -> the states of its kinds; one query if clusters changed."""
    return _KINDS.of(clusters)


def is_absent(kinds: KindStates, kind: str) -> bool:
    """Whether the cluster does not serve the kind."""
    return kinds.get(kind, {}).get("state") == "absent"


def is_served(kinds: KindStates, kind: str) -> bool:
    """Whether the cluster serves the kind, and its objects can be read."""
    return kinds.get(kind, {}).get("state") == "served"


def unreadable_kinds(kinds: KindStates) -> list[str]:
    """A sentence for each kind that a cluster does not let us read; absent kinds are normal."""
    sentences = []
    for kind, status in kinds.items():
        if status["state"] == "forbidden":
            sentences.append(
                f"{kind}s can't be read: the account of OLM Web may not list them. "
                "Apply the ClusterRole that ships with OLM Web."
            )
        elif status["state"] == "failed":
            reason = status["error"].strip().rstrip(".")
            sentences.append(
                f"{kind}s could not be read the last time" + (f": {reason}." if reason else ".")
            )
    return sentences


def installable_kinds(cluster: Cluster) -> list[str]:
    """Kinds of operators that a cluster serves; empty before the first sync."""
    kinds = kinds_of([cluster])[cluster.pk]
    return [
        kind
        for kind in ("PlatformOperator", "ClusterExtension", "Subscription")
        if is_served(kinds, kind)
    ]


@dataclass(frozen=True, slots=True)
class CatalogSummary:
    """The catalogs of the clusters shown, each counted once whatever the ways in which it is there;
    `outdated` have content, but of an earlier time in each of the ways; `failed` have none because
    a read failed; `troubled` are the ways that fail or are stale, on clusters that answer."""

    serving: int
    outdated: int
    failed: int
    troubled: list[CatalogState]
    new: int
    unreachable: int


def catalogs_revision(rows: Sequence[CatalogState]) -> str:
    """Differs when the content, the state or the error of any catalog changed."""
    return ";".join(
        f"{row.pk}:{row.revision}:{row.state}:{row.stale}:{row.error_text}" for row in rows
    )


def _is_served(entries: Sequence[CatalogState]) -> bool:
    return any(row.state == Catalog.State.SERVING and not row.stale for row in entries)


def _has_content(entries: Sequence[CatalogState]) -> bool:
    return any(row.synced_at is not None for row in entries)


def catalog_summary(rows: Sequence[CatalogState], clusters: Sequence[Cluster]) -> CatalogSummary:
    """Of these clusters; no query. Catalogs read from files belong to no cluster and count
    everywhere."""
    ids = {None, *(cluster.pk for cluster in clusters)}
    shown = [row for row in rows if row.cluster_id in ids]
    silent = {cluster.pk for cluster in clusters if cluster.unreachable}
    catalogs = distinct_catalogs([row for row in shown if row.cluster_id not in silent])
    states = Catalog.State
    return CatalogSummary(
        serving=sum(map(_is_served, catalogs)),
        outdated=sum(
            not _is_served(entries)
            and any(row.stale and row.synced_at is not None for row in entries)
            for entries in catalogs
        ),
        failed=sum(
            not _has_content(entries) and any(row.state == states.FAILED for row in entries)
            for entries in catalogs
        ),
        troubled=[row for entries in catalogs for row in entries if row.stale],
        new=sum(all(row.state == states.NEW for row in entries) for entries in catalogs),
        unreachable=len(distinct_catalogs([row for row in shown if row.cluster_id in silent])),
    )
