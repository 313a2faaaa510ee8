"""Which changes of health people are told of through the webhook, and what is said.

Off while OLMWEB_WEBHOOK_URL is empty. `remember` writes a row per change in the transaction that
made the change, so none is lost and none is told that was rolled back; installs.notifications.send
sends the rows, installs.notifications.formats has the shapes that receivers get.

Told is where an operator comes to rest: Failed, Blocked, Degraded, NeedsApproval and Healthy.
Installing, Upgrading and Unknown are ways there: coming out of one counts as a change only when it
ends elsewhere than where we last told, so a smooth upgrade (Healthy, Upgrading, Healthy) and an
install that goes well are quiet, and Failed, Installing, Failed is told once. A new reason within
the same health is not told. What is first seen in trouble is told only if it was created within
FRESH of that and its cluster had been read before: the first sight of a cluster, or of a kind that
we newly read, is not news. An operator that is deleted while it was told to be in trouble is told
as `Deleted`, or its alert would never end.

Knows neither HTTP nor how rows come about. What a row's `body` holds is `Told`.
"""

from collections.abc import Collection, Iterable, Sequence
from datetime import timedelta
from typing import Any, TypedDict

from django.conf import settings
from django.db.models import Exists, Max, OuterRef, Q, QuerySet, Subquery
from django.utils import timezone

from installs.diagnosis import finding_for
from installs.models import NEEDS_ATTENTION, Health, Notification, Operator, Transition
from olmweb.clusters import NOT_CONFIGURED
from olmweb.models import Cluster

HEALTH, OBJECT = "Health", "Object"
DELETED = "Deleted"
AT_REST = (*NEEDS_ATTENTION, Health.HEALTHY)
FRESH = timedelta(hours=1)
MESSAGE_LIMIT = 1000
REASON_LIMIT = 200  # as a label; Kubernetes' own reasons are words
SEVERITY = {
    Health.FAILED: "critical",
    Health.BLOCKED: "warning",
    Health.DEGRADED: "warning",
    Health.NEEDS_APPROVAL: "info",
}

Subject = tuple[int, str, str, str]  # cluster id, kind, namespace, name
_SUBJECT = ("cluster_id", "kind", "namespace", "name")


class ToldFinding(TypedDict):
    id: str
    title: str
    cause: str
    remedy: list[str]


class Alert(TypedDict):
    """An alert as Alertmanager knows it: the labels are its identity."""

    labels: dict[str, str]
    since: str


class Told(TypedDict):
    """What happened, as it was then. Times are RFC 3339.

    `was` is what was told before, else the health that it changed from, empty when it is new; `to`
    is a Health or DELETED. `starts` is the alert that begins, `ends` the one that is over.
    """

    cluster: str
    kind: str
    namespace: str
    name: str
    was: str
    to: str
    reason: str
    message: str
    finding: ToldFinding | None
    at: str
    since: str
    starts: Alert | None
    ends: Alert | None


def remember(transitions: Iterable[Transition], operators: Collection[Operator]) -> int:
    """Writes a row for each of these saved transitions that is worth telling; returns how many.

    `operators` are the rows that they are about, as they are now. To be called in the transaction
    that saves them. Does nothing while no webhook is set, and nothing twice.
    """
    if not settings.WEBHOOK_URL:
        return 0
    rows = {subject_of(row): row for row in operators}
    changes = [
        transition
        for transition in transitions
        if transition.type == HEALTH
        and transition.to_status in AT_REST
        and subject_of(transition) in rows
    ]
    if not changes:
        return 0
    clusters = Cluster.objects.in_bulk({change.cluster_id for change in changes})
    last = _last_told(changes)
    new = []
    for change in sorted(changes, key=lambda change: change.pk):
        subject = subject_of(change)
        cluster, before = clusters[change.cluster_id], last.get(subject)
        if _is_news(change, rows[subject], cluster, before):
            last[subject] = _told(change, rows[subject], cluster, before)
            new.append(Notification(transition=change, body=last[subject]))
    return _save(new)


def remember_deleted() -> int:
    """Writes a row for each operator that was deleted while in the trouble last told of.

    A deleted operator has no health, so `remember` never hears of it. Returns how many.
    """
    same = {part: OuterRef(f"transition__{part}") for part in _SUBJECT}
    deletion = Transition.objects.filter(
        **same,
        type=OBJECT,
        to_status="deleted",
        id__gt=OuterRef("transition_id"),
        notification=None,
    ).order_by("-id")
    ended = standing().filter(~_operator_exists())
    rows = dict(
        ended.annotate(gone=Subquery(deletion.values("pk")[:1]))
        .filter(gone__isnull=False)
        .values_list("gone", "body")
    )
    gone = Transition.objects.in_bulk(rows)
    return _save([_told_deleted(gone[pk], body) for pk, body in sorted(rows.items())])


def send_again(rows: QuerySet[Notification]) -> int:
    """Lets those of `rows` that were sent or given up wait to be sent anew; returns how many.

    Not those that a later one of the same operator has overtaken: they would tell what is over.
    """
    chosen = rows.filter(~_overtaken()).exclude(state=Notification.State.PENDING)
    ids = list(chosen.values_list("pk", flat=True))
    return Notification.objects.filter(pk__in=ids).update(
        state=Notification.State.PENDING, attempts=0, error="", next_at=timezone.now()
    )


def standing() -> QuerySet[Notification]:
    """Rows of the trouble that operators are in as far as was told: the last one of each, unless
    that said that it is over."""
    return Notification.objects.filter(
        ~_overtaken(), transition__type=HEALTH, transition__to_status__in=NEEDS_ATTENTION
    )


def going_on() -> QuerySet[Notification]:
    """Those of `standing` that we still see: the operator is there, and its cluster is ours."""
    return (
        standing()
        .filter(_operator_exists())
        .exclude(transition__cluster__error_code=NOT_CONFIGURED)
    )


def subject_of(row: Transition | Operator) -> Subject:
    return (row.cluster_id, row.kind, row.namespace, row.name)


def _overtaken() -> Exists:
    same = {f"transition__{part}": OuterRef(f"transition__{part}") for part in _SUBJECT}
    return Exists(Notification.objects.filter(**same, id__gt=OuterRef("id")))


def _operator_exists() -> Exists:
    same = {part: OuterRef(f"transition__{part}") for part in _SUBJECT}
    return Exists(Operator.objects.filter(**same))


def _is_news(change: Transition, row: Operator, cluster: Cluster, before: Told | None) -> bool:
    if not change.from_status:
        # Seen for the first time: news only if it is in trouble and can't have been so for long.
        is_young = row.created_at is not None and change.at - row.created_at < FRESH
        was_read = cluster.synced_at is not None
        return was_read and is_young and change.to_status != Health.HEALTHY
    if change.from_status in AT_REST:
        return change.from_status != change.to_status
    # It comes out of a state in between: against what was told, and silence means that all is well.
    last_health = before["to"] if before else Health.HEALTHY
    return change.to_status != (Health.HEALTHY if last_health == DELETED else last_health)


def _told(change: Transition, row: Operator, cluster: Cluster, before: Told | None) -> Told:
    since = (row.since or change.at).isoformat()
    starts, ends = _alert(change, cluster, since), before["starts"] if before else None
    if starts and ends and starts["labels"] == ends["labels"]:
        starts, ends = ends, None  # the same alert goes on
    was = change.from_status
    if was not in AT_REST and before:
        was = before["to"]
    return Told(
        cluster=cluster.name,
        kind=change.kind,
        namespace=change.namespace,
        name=change.name,
        was=was,
        to=change.to_status,
        reason=change.to_reason,
        message=row.message[:MESSAGE_LIMIT],
        finding=_finding(row),
        at=change.at.isoformat(),
        since=since,
        starts=starts,
        ends=ends,
    )


def _alert(change: Transition, cluster: Cluster, since: str) -> Alert | None:
    """The alert that trouble raises; None for an operator that is fine."""
    severity = SEVERITY.get(Health(change.to_status))
    if severity is None:
        return None
    labels = {
        "alertname": "OperatorNeedsAttention",
        "cluster": cluster.name,
        "kind": change.kind,
        "namespace": change.namespace,
        "name": change.name,
        "severity": severity,
        "reason": change.to_reason[:REASON_LIMIT],
    }
    # To Alertmanager an empty label is one that is not there.
    return Alert(labels={key: value for key, value in labels.items() if value}, since=since)


def _told_deleted(gone: Transition, last: Told) -> Notification:
    at = gone.at.isoformat()
    body = last | {
        "was": last["to"],
        "to": DELETED,
        "reason": "",
        "message": "",
        "finding": None,
        "at": at,
        "since": at,
        "starts": None,
        "ends": last["starts"],
    }
    return Notification(transition=gone, body=body)


def _finding(row: Operator) -> ToldFinding | None:
    names = {
        "name": row.name,
        "namespace": row.namespace,
        "kind": row.kind,
        "package": row.package,
    }
    finding = finding_for(row.finding, row.facts, names) if row.finding else None
    if finding is None:
        return None
    return ToldFinding(
        id=finding.id, title=finding.title, cause=finding.cause, remedy=list(finding.remedy)
    )


def _last_told(changes: Sequence[Transition]) -> dict[Subject, Told]:
    """What was last told of each subject; two queries in one."""
    parts: tuple[set[Any], ...] = tuple(map(set, zip(*map(subject_of, changes), strict=True)))
    wanted = Q(
        **{f"transition__{part}__in": values for part, values in zip(_SUBJECT, parts, strict=True)}
    )
    columns = [f"transition__{part}" for part in _SUBJECT]
    newest = Notification.objects.filter(wanted).order_by().values(*columns)
    rows = Notification.objects.filter(pk__in=newest.annotate(last=Max("id")).values("last"))
    return {tuple(subject): body for *subject, body in rows.values_list(*columns, "body")}


def _save(rows: Sequence[Notification]) -> int:
    ids = [row.transition_id for row in rows]
    stored = set(
        Notification.objects.filter(transition_id__in=ids).values_list("transition_id", flat=True)
    )
    new = [row for row in rows if row.transition_id not in stored]
    Notification.objects.bulk_create(new, batch_size=500, ignore_conflicts=True)
    return len(new)
