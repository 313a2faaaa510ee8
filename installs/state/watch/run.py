"""Follows one cluster: full passes where needed, and sessions of watches in between.

Everything can be repeated: killing a worker anywhere loses nothing.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import structlog
from django.utils import timezone

from installs.state.full_sync import record_failure, record_run, sync_cluster
from installs.state.watch import positions
from installs.state.watch.session import End, WatchSession
from olmweb.clusters import client_for
from olmweb.kube.client import Discovery, KubeClient
from olmweb.kube.errors import Abandoned, KubeError
from olmweb.models import Cluster, SyncRun
from olmweb.runtime.worker import stop_requested

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class WatchReport:
    """`rows`: number written or deleted; `requests`: number sent to the cluster."""

    end: End
    rows: int
    requests: int
    seconds: float


def watch_cluster(
    cluster: Cluster,
    *,
    seconds: float,
    still_ours: Callable[[], bool] = lambda: True,
    stop: Callable[[], bool] = lambda: False,
) -> WatchReport:
    """Follows the cluster for `seconds`, or until `stop()` or not `still_ours()`.

    `stop` is called a few times a second, `still_ours` every two seconds. Raises nothing for
    failures of the cluster, which are stored in its Cluster and ResourceWatch rows.
    """
    began, started = time.monotonic(), timezone.now()
    until = began + seconds
    written, end, is_first = 0, End.AGAIN, True
    client: KubeClient | None = None
    try:
        client = client_for(cluster, abandon=stop_requested)
        while end is End.AGAIN and time.monotonic() < until and not stop():
            cluster.refresh_from_db()
            recovered = cluster.unreachable_since is not None
            stored = positions.stored_discovery(cluster) if is_first else None
            plan = _prepare(cluster, client, stored, still_ours)
            if plan is None:
                end = End.UNREACHABLE if still_ours() else End.LOST
                break
            session = WatchSession(
                cluster,
                client,
                plan,
                until=until,
                still_ours=still_ours,
                stop=stop,
                recovered=recovered,
                confirm=plan.discovery is stored,
            )
            is_first = False
            try:
                end = session.run()
            finally:
                written += session.rows_written
    except Abandoned:
        end = End.TIME
    except KubeError as error:
        end = End.UNREACHABLE
        record_failure(cluster, error, started, client.requests if client else 0)
    finally:
        if client is not None:
            client.close()
    requests = client.requests if client else 0
    if written:
        seconds = round((timezone.now() - started).total_seconds(), 3)
        counts = {"rows_written": written, "requests": requests, "seconds": seconds}
        record_run(cluster, SyncRun.Outcome.CHANGED, started, counts)
    return WatchReport(end, written, requests, time.monotonic() - began)


def _prepare(
    cluster: Cluster,
    client: KubeClient,
    stored: Discovery | None,
    still_ours: Callable[[], bool],
) -> positions.SessionPlan | None:
    """The plan of the next session, after a full pass if that is needed; None if the pass failed.

    Of the `stored` discovery, if given, unless a pass is needed. Raises KubeError if the cluster
    does not answer.
    """
    plan = positions.make_plan(stored or client.discover(), positions.watch_rows_of(cluster))
    if positions.needs_pass(cluster, plan) or positions.was_rewound(client, plan, plan.highest()):
        report = sync_cluster(cluster, client, still_ours=still_ours)
        if report.outcome == SyncRun.Outcome.FAILED:
            return None
        discovery = client.discover() if stored else plan.discovery
        plan = positions.make_plan(discovery, positions.watch_rows_of(cluster))
    elif positions.mark_reachable(cluster):
        log.info("cluster reached again", cluster=cluster.name)
    return plan
