"""Reads behind the activity pages: actions, sync runs, install requests and bulk installs."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db.models import Count, F, Max, Model, Q, QuerySet, Value
from django.db.models.functions import Coalesce
from django.utils import timezone

from catalogs.install_methods import InstallMethod
from installs.models import NEEDS_ATTENTION, Action, ActionBatch, InstallRequest, Operator
from installs.queries import narrow, search
from installs.state.observation import details_of
from olmweb.kube.resources import INSTALL_PLANS
from olmweb.models import SyncRun
from olmweb.web.tables import Column, Table

ACTION_STATES = tuple(str(value) for value in Action.State.values)
OUTCOMES = tuple(str(value) for value in SyncRun.Outcome.values)
REQUEST_STATES = tuple(str(value) for value in InstallRequest.State.values)
ACTIONS = Table(
    "actions",
    "Actions",
    "installs:activity",
    (
        Column(
            "action",
            "Action",
            fixed=True,
            keys=("verb", "name"),
            exported=("id", "verb", "kind", "name"),
        ),
        Column("namespace", "Namespace", initial=False),
        Column("state", "State"),
        Column("outcome", "Outcome"),
        Column("user", "User", keys=("username",), exported=("user", "as_user")),
        Column("cluster", "Cluster", keys=("cluster__name",)),
        Column("requested", "Requested", keys=("created_at",)),
        Column("duration", "Duration", number=True, exported=("seconds",)),
    ),
    sorted_by="-requested",
    ties=("created_at", "pk"),
)
REQUESTS = Table(
    "requests",
    "Requests",
    "installs:requests",
    (
        Column(
            "request",
            "Request",
            fixed=True,
            keys=("package", "version"),
            exported=("id", "name", "version", "path"),
        ),
        Column("state", "State"),
        Column("reason", "Reason", exported=("reason", "answer")),
        Column("user", "User", keys=("username",)),
        Column("cluster", "Cluster", keys=("cluster__name",)),
        Column("requested", "Requested", keys=("created_at",)),
        Column("decided", "Decided", keys=("decision_at",), exported=("decided", "decided_by")),
    ),
    sorted_by="-requested",
    ties=("created_at", "pk"),
)
LATER_MOST = 20  # later actions that the page of an action lists
_ENDED = tuple(str(state) for state in Action.State if state not in Action.OPEN)


def actions_matching(
    *, cluster: str = "", state: str = "", user: str = "", q: str = ""
) -> QuerySet[Action]:
    """Actions with their cluster and user; `username` and `duration` to sort by."""
    rows = Action.objects.select_related("cluster", "user").defer("stored_steps")
    rows = rows.annotate(
        username=Coalesce("user__username", Value("")),
        duration=Coalesce(F("finished_at") - F("created_at"), Value(timedelta(0))),
    )
    rows = narrow(rows, cluster__name=cluster, state=state)
    if user:
        rows = rows.filter(Q(user__username=user) | Q(as_user=user))
    return search(rows, q, "name", "package")


def syncs_matching(*, cluster: str = "", outcome: str = "", q: str = "") -> QuerySet[SyncRun]:
    """Sync runs, newest first."""
    rows: QuerySet[SyncRun] = SyncRun.objects.select_related("cluster")
    if cluster:
        rows = rows.filter(Q(cluster__name=cluster) | Q(kind="cluster", target=cluster))
    rows = search(narrow(rows, outcome=outcome), q, "target", "error_text")
    return rows.order_by("-started_at", "-pk")


def object_of(action: Action) -> Operator | None:
    """The operator row of the action's object, if the sync has seen it; one query."""
    return (
        Operator.objects.select_related("cluster")
        .filter(
            cluster=action.cluster_id,
            kind=action.path,
            namespace=action.namespace,
            name=action.name,
        )
        .first()
    )


def later_actions(action: Action) -> list[Action]:
    """The actions that continue this one, oldest first: the approvals of InstallPlans for its
    package in its namespace, and at last the removal of the operator, of the newest LATER_MOST; one
    query, none for an action that nothing can continue."""
    continued = action.path in (InstallMethod.SUBSCRIPTION, INSTALL_PLANS.kind)
    if not (continued and action.package) or action.verb == Action.Verb.REMOVE:
        return []
    rows = Action.objects.filter(
        cluster=action.cluster_id,
        namespace=action.namespace,
        package=action.package,
        verb__in=(Action.Verb.APPROVE, Action.Verb.REMOVE),
        pk__gt=action.pk,
    )
    newest = rows.defer("stored_steps").order_by("-pk")[:LATER_MOST]
    later = []
    for row in reversed(newest):
        later.append(row)
        if row.verb == Action.Verb.REMOVE and row.state in (*Action.OPEN, Action.State.SUCCEEDED):
            break
    return later


def recorded_routes(actions: QuerySet[Action]) -> QuerySet[Action]:
    """Those of the actions for a package in a namespace that decide which route its upgrade
    follows, newest first: a removal ends it."""
    decisive = Q(route__isnull=False) | Q(verb=Action.Verb.REMOVE)
    states = (*Action.OPEN, Action.State.SUCCEEDED)
    return actions.filter(decisive, state__in=states).exclude(package="").order_by("-pk")


def operators_of(action: Action, later: Sequence[Action] = ()) -> list[Operator]:
    """The operators that the action is about: that of its object, or the Subscriptions whose
    versions its InstallPlan, or that of one of the `later` approvals, contains; one query."""
    if action.verb != Action.Verb.APPROVE:
        operator = object_of(action)
        return [operator] if operator else []
    rows = Operator.objects.select_related("cluster").filter(
        cluster=action.cluster_id, kind="Subscription", namespace=action.namespace
    )
    bundles = {name for row in (action, *later) for name in row.target.split(",")} - {""}
    return [
        row
        for row in rows.order_by("name")
        if bundles & {details_of(row).get("current_csv"), details_of(row).get("installed_csv")}
    ]


def _revision(model: type[Model], **totals: Any) -> str:
    """Differs when a row was added or one of the aggregates changed; one query."""
    values = model._default_manager.aggregate(newest=Max("pk"), **totals)
    return ":".join(map(str, values.values()))


def actions_revision() -> str:
    """Differs when any action was made or changed; one query."""
    return _revision(
        Action,
        sent=Max("sent_at"),
        finished=Max("finished_at"),
        pending=Count("pk", filter=Q(state=Action.State.PENDING)),
        applied=Count("pk", filter=Q(state=Action.State.APPLIED)),
    )


def syncs_revision() -> str:
    """Differs when any sync run began or ended; one query."""
    return _revision(SyncRun, finished=Max("finished_at"))


def requests_matching(
    *, state: str = "", cluster: str = "", user: str = "", q: str = ""
) -> QuerySet[InstallRequest]:
    """Requests, newest first, with `username` and `decision_at` to sort by; waiting ones have the
    time of the request as the latter."""
    rows = InstallRequest.objects.select_related("cluster", "user", "decided_by").annotate(
        username=Coalesce("user__username", Value("")),
        decision_at=Coalesce("decided_at", "created_at"),
    )
    rows = narrow(rows, state=state, cluster__name=cluster, user__username=user)
    return search(rows, q, "package", "reason").order_by("-created_at", "-pk")


def requests_revision() -> str:
    """Differs when any request was made or decided; one query."""
    waiting = Count("pk", filter=Q(state=InstallRequest.State.WAITING))
    return _revision(InstallRequest, decided=Max("decided_at"), waiting=waiting)


def installed_of(request: InstallRequest) -> list[Operator]:
    """The operators of the same package on the same cluster; one query."""
    rows = Operator.objects.filter(cluster=request.cluster_id)
    same = Q(package=request.package) | Q(kind=request.path, name=request.name)
    return list(rows.filter(same).order_by("kind", "namespace", "name")[:20])


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a batch is. `counts`: state -> actions, `waiting` of them not begun; rows in the
    order in which they are sent."""

    batch: ActionBatch
    rows: tuple[Action, ...]
    counts: dict[str, int]
    waiting: int

    @property
    def total(self) -> int:
        return len(self.rows)

    @property
    def done(self) -> int:
        return sum(self.counts.get(state, 0) for state in _ENDED)

    @property
    def open(self) -> int:
        return self.total - self.done

    @property
    def under_way(self) -> int:
        return self.open - self.waiting

    def ended_within(self, period: timedelta) -> bool:
        """Whether the last of its actions ended less than this time ago."""
        times = [row.finished_at for row in self.rows if row.finished_at]
        return bool(times) and timezone.now() - max(times) < period

    @property
    def ends(self) -> list[tuple[str, int]]:
        """(state, how many) of those that have ended, in the order of Action.State."""
        return [(state, self.counts[state]) for state in _ENDED if state in self.counts]

    @property
    def migrated(self) -> tuple[int, int]:
        """Of a migration: how many operators it migrated, and how many it only removed, as their
        packages had Subscriptions already."""
        succeeded = Counter(row.verb for row in self.rows if row.state == Action.State.SUCCEEDED)
        return succeeded[Action.Verb.INSTALL], succeeded[Action.Verb.REMOVE]

    def needing_attention(self) -> QuerySet[Operator]:
        """The operators of the packages of the batch, whoever installed them, that need
        attention."""
        packages = {row.package for row in self.rows} - {""}
        rows = Operator.objects.filter(cluster=self.batch.cluster_id, package__in=packages)
        rows = rows.filter(health__in=NEEDS_ATTENTION).select_related("cluster")
        rows = rows.only("cluster__name", "kind", "namespace", "name")
        return rows.order_by("name", "kind", "namespace")


def with_progress(batches: QuerySet[ActionBatch]) -> QuerySet[ActionBatch]:
    """The batches with the counts `total`, `done` and `waiting` of their actions, as Progress has
    them."""
    is_waiting = Q(actions__state=Action.State.PENDING, actions__begun_at=None)
    return batches.annotate(
        total=Count("actions"),
        done=Count("actions", filter=Q(actions__state__in=_ENDED)),
        waiting=Count("actions", filter=is_waiting),
    )


def progress_of(batch: ActionBatch) -> Progress:
    """One query."""
    rows = Action.objects.filter(batch=batch).order_by("id").defer("stored_steps", "dry_run")
    actions = tuple(rows)
    return Progress(
        batch,
        actions,
        dict(Counter(row.state for row in actions)),
        sum(row.state == Action.State.PENDING and row.begun_at is None for row in actions),
    )
