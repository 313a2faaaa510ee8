"""Reads behind the activity pages: what people asked for, what the syncs did."""

from django.db.models import Count, Max, Q, QuerySet

from installs.models import Action, Operator
from installs.queries.keyset import Page, paginate
from olmweb.models import SyncRun

ACTION_STATES = tuple(str(value) for value in Action.State.values)
OUTCOMES = tuple(str(value) for value in SyncRun.Outcome.values)


def action_page(
    *, cluster: str = "", state: str = "", user: str = "", q: str = "", cursor: str = ""
) -> Page[Action]:
    """One page of actions, newest first; two queries. Raises BadRequest (cursor)."""
    rows = Action.objects.select_related("cluster", "user").defer("manifests")
    if cluster:
        rows = rows.filter(cluster__name=cluster)
    if state:
        rows = rows.filter(state=state)
    if user:
        rows = rows.filter(Q(user__username=user) | Q(as_user=user))
    for word in q.split()[:8]:
        rows = rows.filter(Q(name__icontains=word) | Q(package__icontains=word))
    return paginate(rows, ("created_at",), descending=True, cursor=cursor)


def sync_page(
    *, cluster: str = "", outcome: str = "", q: str = "", cursor: str = ""
) -> Page[SyncRun]:
    """One page of sync runs, newest first; two queries. Raises BadRequest (cursor)."""
    rows: QuerySet[SyncRun] = SyncRun.objects.select_related("cluster")
    if cluster:
        rows = rows.filter(Q(cluster__name=cluster) | Q(kind="cluster", target=cluster))
    if outcome:
        rows = rows.filter(outcome=outcome)
    for word in q.split()[:8]:
        rows = rows.filter(Q(target__icontains=word) | Q(error_text__icontains=word))
    return paginate(rows, ("started_at",), descending=True, cursor=cursor)


def find_action(pk: int) -> Action | None:
    """The action with its cluster and user; one query."""
    return Action.objects.select_related("cluster", "user").filter(pk=pk).first()


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


def actions_revision() -> str:
    """What moves when any action was made or changed; one query."""
    totals = Action.objects.aggregate(
        newest=Max("pk"),
        sent=Max("sent_at"),
        finished=Max("finished_at"),
        pending=Count("pk", filter=Q(state=Action.State.PENDING)),
        applied=Count("pk", filter=Q(state=Action.State.APPLIED)),
    )
    return ":".join(str(value) for value in totals.values())


def syncs_revision() -> str:
    """What moves when any sync run began or ended; one query."""
    totals = SyncRun.objects.aggregate(newest=Max("pk"), finished=Max("finished_at"))
    return ":".join(str(value) for value in totals.values())
