"""Which changes of health are notified through the webhook, and the content of a notification.

Off while OLMWEB_WEBHOOK_URL is empty. `record_changes` writes a row per change in the transaction
that made the change, so none is lost and none is sent that was rolled back. The rows are sent by
installs.notifications.send in the shapes of installs.notifications.formats.

Notified are the states in which operators rest: Failed, Blocked, Degraded, NeedsApproval and
Healthy. Installing, Upgrading and Unknown are transitional: leaving one counts as a change only if
it ends in another state than was last notified, so a smooth upgrade (Healthy, Upgrading, Healthy)
and a successful install are silent, and Failed, Installing, Failed is notified once. A new reason
within the same health is not notified. An operator observed for the first time in trouble is
notified only if it was created within NEW_WITHIN and its cluster had been read before: the first
pass over a cluster or kind is not news. An operator that is deleted after trouble was notified gets
the health `Deleted`, as its alert would never end otherwise.
"""

from collections.abc import Collection, Iterable, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from django.conf import settings
from django.db.models import Exists, Max, OuterRef, Q, QuerySet, Subquery
from django.utils import timezone

from installs.diagnosis.knowledge import finding_for
from installs.diagnosis.remedies import plain_remedy
from installs.models import NEEDS_ATTENTION, Health, Notification, Operator, Transition
from installs.notifications.formats import DELETED, Alert, ChangeBody, FindingBody
from olmweb.models import Cluster, configured_clusters

HEALTH, OBJECT = "Health", "Object"
AT_REST = (*NEEDS_ATTENTION, Health.HEALTHY)
NEW_WITHIN = timedelta(hours=1)
MESSAGE_LIMIT = 1000
REASON_LIMIT = 200  # as a label; Kubernetes' own reasons are words
SEVERITY = {
    Health.FAILED: "critical",
    Health.BLOCKED: "warning",
    Health.DEGRADED: "warning",
    Health.NEEDS_APPROVAL: "info",
}


class OperatorKey(NamedTuple):
    """The identity of an operator in history and notifications."""

    cluster_id: int
    kind: str
    namespace: str
    name: str


def record_changes(transitions: Iterable[Transition], operators: Collection[Operator]) -> int:
    """Writes a row for each of these saved transitions to be notified; returns their number.

    `operators` are the current rows of their operators. Must be called in the transaction that
    saves the transitions. Without a webhook it does nothing, and it may be repeated.
    """
    if not settings.WEBHOOK_URL:
        return 0
    rows = {operator_key(row): row for row in operators}
    changes = [
        transition
        for transition in transitions
        if transition.type == HEALTH
        and transition.to_status in AT_REST
        and operator_key(transition) in rows
    ]
    if not changes:
        return 0
    clusters = Cluster.objects.in_bulk({change.cluster_id for change in changes})
    last = _last_bodies(changes)
    new = []
    for change in sorted(changes, key=lambda change: change.pk):
        key = operator_key(change)
        cluster, before = clusters[change.cluster_id], last.get(key)
        if _is_reportable(change, rows[key], cluster, before):
            last[key] = _body(change, rows[key], cluster, before)
            new.append(Notification(transition=change, body=last[key]))
    return _save(new)


def record_deletions() -> int:
    """Writes a row for each operator that was deleted after trouble was notified.

    A deleted operator has no transition of its health. Returns the number of rows.
    """
    same = {part: OuterRef(f"transition__{part}") for part in OperatorKey._fields}
    deletion = Transition.objects.filter(
        **same,
        type=OBJECT,
        to_status="deleted",
        id__gt=OuterRef("transition_id"),
        notification=None,
    ).order_by("-id")
    ended = standing().filter(~_operator_exists())
    rows = dict(
        ended.annotate(deletion_id=Subquery(deletion.values("pk")[:1]))
        .filter(deletion_id__isnull=False)
        .values_list("deletion_id", "body")
    )
    deletions = Transition.objects.in_bulk(rows)
    return _save([_deletion(deletions[pk], body) for pk, body in sorted(rows.items())])


def send_again(rows: QuerySet[Notification]) -> int:
    """Queues rows again that were sent or given up; returns their number.

    Leaves out rows that are superseded by a later one of the same operator.
    """
    chosen = rows.filter(~_superseded()).exclude(state=Notification.State.PENDING)
    ids = list(chosen.values_list("pk", flat=True))
    return Notification.objects.filter(pk__in=ids).update(
        state=Notification.State.PENDING, attempts=0, error="", next_at=timezone.now()
    )


def standing() -> QuerySet[Notification]:
    """The last row of each operator, if it notified trouble."""
    return Notification.objects.filter(
        ~_superseded(), transition__type=HEALTH, transition__to_status__in=NEEDS_ATTENTION
    )


def ongoing() -> QuerySet[Notification]:
    """The rows of `standing` whose operator exists and whose cluster is configured."""
    return standing().filter(_operator_exists(), configured_clusters("transition__cluster__"))


def operator_key(row: Transition | Operator) -> OperatorKey:
    return OperatorKey(row.cluster_id, row.kind, row.namespace, row.name)


def _superseded() -> Exists:
    same = {f"transition__{part}": OuterRef(f"transition__{part}") for part in OperatorKey._fields}
    return Exists(Notification.objects.filter(**same, id__gt=OuterRef("id")))


def _operator_exists() -> Exists:
    same = {part: OuterRef(f"transition__{part}") for part in OperatorKey._fields}
    return Exists(Operator.objects.filter(**same))


def _is_reportable(
    change: Transition, row: Operator, cluster: Cluster, before: ChangeBody | None
) -> bool:
    if not change.from_status:
        # Observed for the first time: only trouble of new operators is notified.
        is_young = row.created_at is not None and change.at - row.created_at < NEW_WITHIN
        was_read = cluster.synced_at is not None
        return was_read and is_young and change.to_status != Health.HEALTHY
    if change.from_status in AT_REST:
        return change.from_status != change.to_status
    # It leaves a transitional state: compared with the last notification, healthy without one.
    last_health = before["to"] if before else Health.HEALTHY
    return change.to_status != (Health.HEALTHY if last_health == DELETED else last_health)


def _body(
    change: Transition, row: Operator, cluster: Cluster, before: ChangeBody | None
) -> ChangeBody:
    since = (row.since or change.at).isoformat()
    starts, ends = _alert(change, cluster, since), before["starts"] if before else None
    if starts and ends and starts["labels"] == ends["labels"]:
        starts, ends = ends, None  # the same alert goes on
    was = change.from_status
    if was not in AT_REST and before:
        was = before["to"]
    return ChangeBody(
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
    """The alert of an operator in trouble; None for a healthy one."""
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
    # Alertmanager treats an empty label as absent.
    return Alert(labels={key: value for key, value in labels.items() if value}, since=since)


def _deletion(transition: Transition, last: ChangeBody) -> Notification:
    at = transition.at.isoformat()
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
    return Notification(transition=transition, body=body)


def _finding(row: Operator) -> FindingBody | None:
    names = {
        "name": row.name,
        "namespace": row.namespace,
        "kind": row.kind,
        "package": row.package,
    }
    finding = finding_for(row.finding, row.facts, names, reason=row.reason)
    if finding is None:
        return None
    return FindingBody(
        id=finding.id, title=finding.title, cause=finding.cause, remedy=plain_remedy(finding.remedy)
    )


def _last_bodies(changes: Sequence[Transition]) -> dict[OperatorKey, ChangeBody]:
    """The last notification of each operator, with one query."""
    parts: tuple[set[Any], ...] = tuple(map(set, zip(*map(operator_key, changes), strict=True)))
    wanted = Q(
        **{
            f"transition__{part}__in": values
            for part, values in zip(OperatorKey._fields, parts, strict=True)
        }
    )
    columns = [f"transition__{part}" for part in OperatorKey._fields]
    newest = Notification.objects.filter(wanted).order_by().values(*columns)
    rows = Notification.objects.filter(pk__in=newest.annotate(last=Max("id")).values("last"))
    return {OperatorKey(*key): body for *key, body in rows.values_list(*columns, "body")}


def _save(rows: Sequence[Notification]) -> int:
    ids = [row.transition_id for row in rows]
    stored = set(
        Notification.objects.filter(transition_id__in=ids).values_list("transition_id", flat=True)
    )
    new = [row for row in rows if row.transition_id not in stored]
    Notification.objects.bulk_create(new, batch_size=500, ignore_conflicts=True)
    return len(new)
