"""Counts what operators in trouble say that the knowledge base does not know."""

import hashlib
from collections import Counter
from collections.abc import Sequence

from django.db.models import F

from installs.diagnosis import fingerprint
from installs.models import NEEDS_ATTENTION, Operator, UnknownMessage
from installs.state.history import Moment
from olmweb.models import Cluster

Saying = tuple[str, str]  # hash of the fingerprint, kind of the object that says it


def saying(row: Operator) -> Saying | None:
    """What the row says that nobody knows; None while it is well or its trouble is known."""
    if row.finding or not row.message or row.health not in NEEDS_ATTENTION:
        return None
    alike = hashlib.sha256(fingerprint(row.message).encode()).hexdigest()
    return alike, row.broken_kind or row.kind


def count(rows: Sequence[Operator], moment: Moment) -> None:
    """Counts once what each of these operators has come to say.

    Rows are shared by all clusters: in one order, and without a statement that could fail, so that
    two passes at once neither wait for each other in a circle nor lose a count.
    """
    by_saying = {told: row for row in rows if (told := saying(row)) is not None}
    if not by_saying:
        return
    counts = Counter(saying(row) for row in rows)
    cluster = Cluster.objects.get(pk=moment.cluster_id).name
    UnknownMessage.objects.bulk_create(
        [
            UnknownMessage(
                fingerprint=told[0],
                kind=told[1],
                reason=row.reason,
                sample=row.message,
                example=", ".join(filter(None, (cluster, row.namespace, row.name)))[:500],
                count=0,
                first_at=moment.now,
                last_at=moment.now,
            )
            for told, row in sorted(by_saying.items(), key=lambda one: one[0])
        ],
        ignore_conflicts=True,
    )
    for told in sorted(by_saying):
        UnknownMessage.objects.filter(fingerprint=told[0], kind=told[1]).update(
            count=F("count") + counts[told], last_at=moment.now
        )
