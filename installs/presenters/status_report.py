"""The status report: the state of clusters for print and as Markdown, from stored rows.

On a page a single cluster is shown in full, and several as a table in pages with the causes of all;
the Markdown has every cluster in full.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby

from django.core.paginator import Page
from django.template.defaultfilters import pluralize

from catalogs.revisions.text import plain
from installs.models import Health, InstallRequest, Transition
from installs.presenters.diagnosis import remedy_steps
from installs.queries.changes import DIRECTIONS, changes_of_week, counted, failure_history
from installs.queries.operators import CauseGroup, cause_remedies, finding_of
from installs.queries.overview import (
    ClusterOverview,
    ClusterRow,
    Waiting,
    by_need,
    causes_of,
    cluster_rows,
    operators_to_approve,
    overview,
    shown_operators,
    summaries,
    waiting,
)
from installs.readiness import Readiness, ReadinessRow, readiness
from installs.readiness.request import verdict
from olmweb.models import Cluster
from olmweb.web.pagination import PAGE_SIZE, paginate

OPERATORS_NAMED = 12  # of each cause
BLOCKERS_SHOWN = 50  # of each cluster
CHANGES_SHOWN = 50
COMMON_CAUSES = 20  # of several clusters together


@dataclass(frozen=True, slots=True)
class ReportedCause:
    """A cause with its first remedy step, which is empty if none is known."""

    group: CauseGroup
    first_step: str = ""
    is_command: bool = False

    @property
    def operators(self) -> str:
        names = ", ".join(operator.name for operator in self.group.operators)
        more = self.group.count - len(self.group.operators)
        return f"{names} and {more} more" if more > 0 else names


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """One cluster of the report."""

    overview: ClusterOverview
    readiness: Readiness
    causes: tuple[ReportedCause, ...]

    @property
    def cluster(self) -> Cluster:
        return self.overview.cluster

    @property
    def health(self) -> list[tuple[str, int]]:
        """(word, number of operators) of each health that occurs, worst first."""
        counts = self.overview.counts.by_health
        return [(str(label), counts[value]) for value, label in Health.choices if counts.get(value)]

    @property
    def verdict(self) -> str:
        return verdict(self.readiness)

    @property
    def blockers(self) -> Sequence[ReadinessRow]:
        return self.readiness.rows[:BLOCKERS_SHOWN]

    @property
    def blocker_groups(self) -> list[tuple[str, str, list[ReadinessRow]]]:
        """(title, weight, rows) of the blockers, which are sorted by weight and kind."""
        groups = groupby(self.blockers, key=lambda row: (row.title, row.weight))
        return [(*group, list(rows)) for group, rows in groups]

    @property
    def more_blockers(self) -> int:
        return max(0, len(self.readiness.rows) - BLOCKERS_SHOWN)


@dataclass(frozen=True, slots=True)
class StatusReport:
    """`week` is how many operators went each way of DIRECTIONS in seven days, in words; `changes`
    are the newest of these changes."""

    generated_at: datetime
    clusters: tuple[ClusterStatus, ...]
    waiting: Waiting
    week: tuple[str, ...]
    changes: tuple[Transition, ...]
    more_changes: int


@dataclass(frozen=True, slots=True)
class CommonCause:
    """A cause of operators that need attention, and on how many clusters they are."""

    title: str
    operators: int
    clusters: int


@dataclass(frozen=True, slots=True)
class ClustersReport:
    """The report of several clusters, with a page of them, worst first. `causes` have most
    operators first; the rest is that of StatusReport."""

    generated_at: datetime
    page: Page[ClusterRow]
    operators: int
    attention: int
    causes: tuple[CommonCause, ...]
    more_causes: int
    waiting: Waiting
    week: tuple[str, ...]
    changes: tuple[Transition, ...]
    more_changes: int


def clusters_report(
    clusters: Sequence[Cluster],
    requests: Sequence[InstallRequest],
    now: datetime,
    number: int,
    notices: list[str],
) -> ClustersReport:
    """The page `number`; a query, and seven more if clusters changed, however many there are."""
    entries = summaries(clusters)
    table = paginate(entries, number, PAGE_SIZE, notices)
    table.object_list = cluster_rows(list(table))
    operators: Counter[str] = Counter()
    on: Counter[str] = Counter()
    for of_cluster in causes_of(clusters).values():
        for count, title in of_cluster:
            operators[title] += count
            on[title] += 1
    counts, changes = changes_of_week(clusters)
    return ClustersReport(
        generated_at=now.astimezone(UTC),
        page=table,
        operators=sum(entry.counts.total for entry in entries),
        attention=sum(entry.counts.attention for entry in entries),
        causes=tuple(
            CommonCause(title, count, on[title])
            for title, count in operators.most_common(COMMON_CAUSES)
        ),
        more_causes=max(0, len(operators) - COMMON_CAUSES),
        waiting=waiting(
            entries, operators_to_approve(clusters), requests, failure_history(clusters)
        ),
        week=tuple(counted(name, counts[name]) for name in DIRECTIONS),
        changes=changes[:PAGE_SIZE],
        more_changes=max(0, len(changes) - PAGE_SIZE),
    )


def status_report(
    clusters: Sequence[Cluster], requests: Sequence[InstallRequest], now: datetime
) -> StatusReport:
    """Seven queries, and seven more if clusters changed, however many there are. `requests` are
    those that the reader may decide."""
    operators = shown_operators(clusters, names=OPERATORS_NAMED)
    entries = sorted(overview(clusters, operators, names=OPERATORS_NAMED), key=by_need)
    reports = {report.cluster: report for report in readiness(clusters)}
    counts, changes = changes_of_week(clusters)
    return StatusReport(
        generated_at=now.astimezone(UTC),
        clusters=tuple(
            ClusterStatus(
                entry, reports[entry.cluster.name], tuple(map(_reported_cause, entry.causes))
            )
            for entry in entries
        ),
        waiting=waiting(entries, operators, requests, failure_history(clusters)),
        week=tuple(counted(name, counts[name]) for name in DIRECTIONS),
        changes=changes[:CHANGES_SHOWN],
        more_changes=max(0, len(changes) - CHANGES_SHOWN),
    )


def _reported_cause(group: CauseGroup) -> ReportedCause:
    remedies = cause_remedies((row.name, finding_of(row), None) for row in group.operators)
    first = [steps[0] for remedy in remedies if (steps := remedy_steps(remedy.steps))]
    if not first:
        return ReportedCause(group)
    lines = dict.fromkeys(step.text for step in first if step.command == first[0].command)
    return ReportedCause(group, "\n".join(lines), first[0].command)


def as_markdown(report: StatusReport, *, acts: bool) -> Iterator[str]:
    """The report in pieces; names and messages can't become markup. `acts`: for a reader who may
    change clusters."""
    yield f"# Status report\n\nGenerated at {_time(report.generated_at)}.\n"
    for status in report.clusters:
        yield from _cluster_markdown(status)
    yield f"\n## Needs {'your ' if acts else ''}action\n\n"
    yield from _waiting_markdown(report.waiting)
    yield "\n## Changes of the last 7 days\n\n"
    yield "".join(f"- {words}\n" for words in report.week)
    if report.changes:
        yield "\n| Time | Cluster | Operator | From | To | Reason |\n|---|---|---|---|---|---|\n"
    for change in report.changes:
        operator = f"{change.kind} {change.namespace} {change.name}"
        cells = (
            _time(change.at), change.cluster.name, operator,
            change.from_status, change.to_status, change.to_reason,
        )  # fmt: skip
        yield f"| {' | '.join(plain(cell) or '-' for cell in cells)} |\n"
    if report.more_changes:
        yield f"\nand {report.more_changes} more.\n"


def _cluster_markdown(status: ClusterStatus) -> Iterator[str]:
    cluster, update, counts = status.cluster, status.overview.update, status.overview.counts
    yield f"\n## Cluster {plain(cluster.name)}\n\n"
    yield f"- Version: {plain(cluster.version) or 'not known'}\n"
    if cluster.stale:
        state = "removed" if cluster.removed else "unreachable" if cluster.unreachable else "stale"
        reason = f". {plain(cluster.error_text)}" if cluster.error_text else ""
        yield f"- Sync status: {state}{reason}\n"
    yield f"- Last sync: {_time(cluster.synced_at) if cluster.synced_at else 'none yet'}\n"
    yield f"- Operators: {counts.total}, {counts.attention} need attention\n"
    yield "".join(f"  - {count} {plain(word)}\n" for word, count in status.health)
    if update and update.failing:
        yield f"- Cluster update: {plain(update.failing)}\n"
    yield f"- Next minor version: {plain(status.verdict)}\n"
    if status.causes:
        yield "\n### Causes\n"
    for cause in status.causes:
        title, count = plain(cause.group.title), cause.group.count
        yield f"\n- **{title}** ({count}): {plain(cause.operators)}\n"
        if cause.first_step:
            lines = "; ".join(map(plain, cause.first_step.splitlines()))
            yield f"  - First step: {lines}\n"
    if status.blockers:
        yield "\n### Upgrade blockers\n"
    for row in status.blockers:
        where = f"{row.namespace}/" if row.namespace else ""
        yield f"\n- **{plain(row.title)}** ({row.weight}): {row.kind} {plain(where + row.name)}: "
        yield f"{plain(row.sentence)}\n"
        yield "".join(f"  - Resolution: {plain(remedy)}\n" for remedy in row.ways)
    if status.more_blockers:
        yield f"\nand {status.more_blockers} more.\n"


def _waiting_markdown(work: Waiting) -> Iterator[str]:
    for plan in work.approvals:
        names = ", ".join(operator.name for operator in plan.operators)
        yield f"- Approve InstallPlan {plain(plan.namespace)}/{plain(plan.name)} on "
        yield f"{plain(plan.cluster)}: {plain(names)}\n"
    for request in work.requests:
        yield f"- Decide the installation request for {plain(request.package)} "
        yield f"{plain(request.version)} on {plain(request.cluster.name)}\n"
    for crd in work.crds:
        yield f"- CRD with stale storedVersions: {plain(crd.name)} on {plain(crd.cluster.name)}\n"
    if work.upgrades:
        yield f"- {work.upgrades} upgrade{pluralize(work.upgrades)} available\n"
    if work.actions:
        yield f"- {work.actions} action{pluralize(work.actions)} in progress\n"
    if not work.any:
        yield "Nothing.\n"


def _time(value: datetime) -> str:
    return f"{value.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
