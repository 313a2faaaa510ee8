"""What the watch of a cluster writes beside the objects' own rows: Stream and Cluster.

Every function is one transaction at most and may be repeated.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from installs.models import Component
from installs.state.decode.workloads import is_available
from installs.state.watch.backoff import Course
from olmweb.models import Cluster, Stream, SyncRun


def streams_of(cluster: Cluster) -> dict[str, Stream]:
    return {row.feed: row for row in Stream.objects.filter(cluster=cluster)}


class StreamRows:
    """Saves how the feeds stand; a row is written only when it would say something else."""

    def __init__(self, cluster: Cluster, rows: Mapping[str, Stream]) -> None:
        self._cluster = cluster
        self._told = {name: (row.state, row.error) for name, row in rows.items()}

    def due(self, courses: Iterable[Course], *, counts: bool = False) -> list[Course]:
        """Those whose rows would say something else; `counts`: the watch requests too, which alone
        are not worth a write."""
        return [
            one
            for one in courses
            if self._told.get(one.feed.name) != (one.state, one.error) or (counts and one.watches)
        ]

    def save(self, due: Sequence[Course]) -> None:
        """Writes how those feeds stand and counts their watch requests in, all or none of it."""
        with transaction.atomic():
            for one in due:
                fields: dict[str, Any] = {"state": one.state, "error": one.error}
                Stream.objects.filter(cluster=self._cluster, feed=one.feed.name).update(
                    watches=F("watches") + one.watches, **fields
                )
        for one in due:
            self._told[one.feed.name] = (one.state, one.error)
            one.watches = 0


def heard(cluster: Cluster, now: datetime) -> None:
    """The cluster is being followed: only its times are written."""
    Cluster.objects.filter(pk=cluster.pk).update(synced_at=now, checked_at=now)


def reached(cluster: Cluster) -> bool:
    """The cluster answers; returns whether that is news."""
    now = timezone.now()
    news = Cluster.objects.filter(pk=cluster.pk).exclude(
        reachable=True, error_code="", unreachable_since=None
    )
    return bool(
        news.update(
            reachable=True,
            error_code="",
            error_text="",
            error_hint="",
            unreachable_since=None,
            synced_at=now,
            checked_at=now,
            revision=F("revision") + 1,
        )
    )


def deployments_wait(cluster: Cluster) -> bool:
    """Whether a Deployment of an operator has fewer pods available than it wants."""
    rows = Component.objects.filter(cluster=cluster, kind="Deployment")
    return not all(is_available(details) for details in rows.values_list("details", flat=True))


def record(cluster: Cluster, started: datetime, *, written: int, requests: int) -> None:
    """A SyncRun of a watch that wrote something."""
    now = timezone.now()
    SyncRun.objects.create(
        kind=SyncRun.Kind.CLUSTER,
        target=cluster.name,
        cluster=cluster,
        started_at=started,
        finished_at=now,
        outcome=SyncRun.Outcome.CHANGED,
        counts={
            "rows_written": written,
            "requests": requests,
            "seconds": round((now - started).total_seconds(), 3),
        },
    )
