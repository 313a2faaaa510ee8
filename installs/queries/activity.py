"""Reads behind the activity pages: actions, sync runs, install requests and bulk installs."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Max, Model, Q, QuerySet

from installs.models import Action, ActionBatch, InstallRequest, Operator
from installs.queries import narrow, search
from installs.state.observation import details_of
from olmweb.models import SyncRun
from olmweb.web.pagination import KeysetPage, paginate

ACTION_STATES = tuple(str(value) for value in Action.State.values)
OUTCOMES = tuple(str(value) for value in SyncRun.Outcome.values)
REQUEST_STATES = tuple(str(value) for value in InstallRequest.State.values)
_ENDED = tuple(str(state) for state in Action.State if state not in Action.OPEN)


def action_page(
    *, cluster: str = "", state: str = "", user: str = "", q: str = "", cursor: str = ""
) -> KeysetPage[Action]:
    """One page of actions, newest first; two queries. Raises BadCursor."""
    rows = Action.objects.select_related("cluster", "user").defer("stored_steps")
    rows = narrow(rows, cluster__name=cluster, state=state)
    if user:
        rows = rows.filter(Q(user__username=user) | Q(as_user=user))
    return paginate(search(rows, q, "name", "package"), ("-created_at", "-pk"), cursor=cursor)


def sync_page(
    *, cluster: str = "", outcome: str = "", q: str = "", cursor: str = ""
) -> KeysetPage[SyncRun]:
    """One page of sync runs, newest first; two queries. Raises BadCursor."""
    rows: QuerySet[SyncRun] = SyncRun.objects.select_related("cluster")
    if cluster:
        rows = rows.filter(Q(cluster__name=cluster) | Q(kind="cluster", target=cluster))
    rows = search(narrow(rows, outcome=outcome), q, "target", "error_text")
    return paginate(rows, ("-started_at", "-pk"), cursor=cursor)


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


def operators_of(action: Action) -> list[Operator]:
    """The operators that the action is about: that of its object, or the Subscriptions whose
    versions its InstallPlan contains; one query."""
    if action.verb != Action.Verb.APPROVE:
        operator = object_of(action)
        return [operator] if operator else []
    rows = Operator.objects.select_related("cluster").filter(
        cluster=action.cluster_id, kind="Subscription", namespace=action.namespace
    )
    bundles = set(action.target.split(",")) - {""}
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


def request_page(
    *, state: str = "", cluster: str = "", user: str = "", q: str = "", cursor: str = ""
) -> KeysetPage[InstallRequest]:
    """One page of requests, newest first; two queries. Raises BadCursor."""
    rows = InstallRequest.objects.select_related("cluster", "user", "decided_by")
    rows = narrow(rows, state=state, cluster__name=cluster, user__username=user)
    return paginate(search(rows, q, "package", "reason"), ("-created_at", "-pk"), cursor=cursor)


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

    @property
    def ends(self) -> list[tuple[str, int]]:
        """(state, how many) of those that have ended, in the order of Action.State."""
        return [(state, self.counts[state]) for state in _ENDED if state in self.counts]


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
