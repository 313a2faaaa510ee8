"""A full pass over a cluster: lists all watched resources, writes the differences, diagnoses.

Level-triggered: a pass may be repeated, skipped or killed without loss. Lists are read before the
transaction begins, so no row is locked during requests.
"""

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

import structlog
from django.db import transaction
from django.db.models import F
from django.utils import timezone

from installs.state.listing import Snapshot, list_resources
from installs.state.pods import refresh_pods
from installs.state.resources import BY_NAME
from installs.state.write import WriteResult, write_snapshot
from olmweb.clusters import client_for
from olmweb.eventlog.record import record_unreachable
from olmweb.kube.client import KubeClient
from olmweb.kube.errors import Internal, KubeError
from olmweb.models import Cluster, SyncRun
from olmweb.runtime.leases import LeaseLost, still_held

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class SyncReport:
    """The result of a pass. `kinds`: kind -> counts of objects, written and deleted rows."""

    outcome: str  # a value of SyncRun.Outcome
    kinds: dict[str, dict[str, int]] = field(default_factory=dict)
    requests: int = 0
    seconds: float = 0.0
    error: str = ""

    def as_json(self, cluster: str) -> dict[str, Any]:
        values = asdict(self) | {"seconds": round(self.seconds, 3), "error": self.error or None}
        return {"cluster": cluster, **values}


def sync_cluster(
    cluster: Cluster,
    client: KubeClient | None = None,
    *,
    still_ours: Callable[[], bool] = lambda: True,
) -> SyncReport:
    """Lists the resources of the cluster and makes the rows equal to them.

    Raises nothing for failures of the cluster: the rows stay, and the error is stored in the
    Cluster row and a SyncRun. If `still_ours` returns False before the write, because the lease
    went to another worker, nothing is written. An unchanged pass writes only the Cluster row.
    """
    cluster.refresh_from_db()
    started, clock = timezone.now(), time.monotonic()
    opened = client
    try:
        with nullcontext(client) if client else client_for(cluster) as opened:
            return _pass(cluster, opened, still_ours, started, clock)
    except KubeError as error:
        return record_failure(cluster, error, started, opened.requests if opened else 0)


def _pass(
    cluster: Cluster,
    client: KubeClient,
    still_ours: Callable[[], bool],
    started: datetime,
    clock: float,
) -> SyncReport:
    """Raises a KubeError if no list could be read."""
    snapshot = list_resources(client)
    refusal = snapshot.refusal()
    if refusal is not None:
        raise refusal
    was_failing = bool(cluster.error_code)
    try:
        if not still_ours():
            raise LeaseLost
        written = write_snapshot(cluster, snapshot)
        pods = _pods(cluster, client)
    except LeaseLost:
        return SyncReport(
            SyncRun.Outcome.FAILED.value,
            requests=client.requests,
            seconds=time.monotonic() - clock,
            error=f"Another worker took over cluster {cluster.name}; nothing was written.",
        )
    changed = written.changed or pods.changed
    report = SyncReport(
        (SyncRun.Outcome.CHANGED if changed else SyncRun.Outcome.UNCHANGED).value,
        kinds=_counts(cluster, snapshot, written),
        requests=client.requests,
        seconds=time.monotonic() - clock,
    )
    if changed or was_failing:
        _record(cluster, report, started, written)
        log.info("cluster synced", cluster=cluster.name, rows=written.total + pods.total)
    return report


def _pods(cluster: Cluster, client: KubeClient) -> WriteResult:
    """Refreshes pods; an error of these requests does not fail the pass."""
    try:
        return refresh_pods(cluster, client)
    except KubeError as error:
        log.info("pods not read", cluster=cluster.name, code=error.code)
        return WriteResult()


def _counts(
    cluster: Cluster, snapshot: Snapshot, written: WriteResult
) -> dict[str, dict[str, int]]:
    kinds = dict.fromkeys(BY_NAME[name].kind for name in snapshot.lists)
    return {
        kind: {
            "objects": cluster.kinds[kind]["objects"],
            "written": written.written[kind],
            "deleted": written.deleted[kind],
        }
        for kind in kinds
    }


def record_crash(cluster: Cluster, error: Exception, started: datetime) -> SyncReport:
    """Stores that a pass ended with an unexpected exception, in the Cluster row and a SyncRun.

    Called by tasks and commands, which log the exception themselves.
    """
    internal = Internal(
        f"The sync of cluster {cluster.name} failed inside OLM Web ({type(error).__name__}).",
        hint="The worker's log has the details; the rows shown are those of the last good pass.",
    )
    return record_failure(cluster, internal, started, 0)


def record_failure(
    cluster: Cluster, error: KubeError, started: datetime, requests: int
) -> SyncReport:
    """Stores that the cluster can't be reached or read, in its row and a SyncRun. A fault inside
    OLM Web does not tell whether it answers: an outage neither begins nor ends with it (see
    `Cluster.answers`). It is tried again as rarely.

    A repeated failure only updates the Cluster row. Stores nothing when another worker took over
    the cluster.
    """
    now = timezone.now()
    seconds = (now - started).total_seconds()
    report = SyncReport(
        SyncRun.Outcome.FAILED.value, requests=requests, seconds=seconds, error=error.message
    )
    with transaction.atomic():
        # Of the row, as a watch marks it as reachable without reading it again.
        held = Cluster.objects.select_for_update(no_key=True).filter(still_held(), pk=cluster.pk)
        row = held.first()
        if row is None:
            log.info("failure of a lost cluster not stored", cluster=cluster.name)
            return report
        reachable = row.reachable if isinstance(error, Internal) else False
        outage_begins = reachable is False and row.reachable is not False
        since = None if outage_begins else row.unreachable_since
        stored = (row.reachable, row.error_code, row.error_text)
        differs = stored != (reachable, error.code, error.message)
        Cluster.objects.filter(pk=row.pk).update(
            reachable=reachable,
            error_code=error.code,
            error_text=error.message,
            error_hint=error.hint,
            unreachable_since=since or now,
            checked_at=now,
            revision=F("revision") + int(differs),  # in the database, as others increment it too
        )
        cluster.refresh_from_db()
        if outage_begins:
            record_unreachable(cluster, now)
    if differs:
        _record(cluster, report, started, WriteResult(), error)
        log.warning(
            "cluster not synced",
            cluster=cluster.name,
            code=error.code,
            error=error.message,
            hint=error.hint,
        )
    return report


def _record(
    cluster: Cluster,
    report: SyncReport,
    started: datetime,
    rows: WriteResult,
    error: KubeError | None = None,
) -> None:
    counts = {
        "rows_written": rows.written.total(),
        "rows_deleted": rows.deleted.total(),
        "requests": report.requests,
        "seconds": round(report.seconds, 3),
    }
    record_run(cluster, report.outcome, started, counts, error)


def record_run(
    cluster: Cluster,
    outcome: str,
    started: datetime,
    counts: dict[str, Any],
    error: KubeError | None = None,
) -> None:
    """Stores a SyncRun that ends now."""
    SyncRun.objects.create(
        kind=SyncRun.Kind.CLUSTER,
        target=cluster.name,
        cluster=cluster,
        started_at=started,
        finished_at=timezone.now(),
        outcome=outcome,
        counts=counts,
        error_code=error.code if error else "",
        error_text=error.message if error else "",
        error_hint=error.hint if error else "",
    )
