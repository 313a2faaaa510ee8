"""Keeps the rows of a cluster with what happens in it, by watches that go on where they stood.

    plan     what to watch, and from where on
    streams  a thread a feed: reads and decodes
    engine   the cluster's own thread: batches, writes, retries
    course   how one feed is asked again
    batch    changes gathered for one transaction
    rows     Stream and Cluster rows
    jobs     requests beside the streams

The list stays the truth (installs.state.full_sync): killing a watch anywhere loses nothing.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import structlog
from django.utils import timezone

from installs.state.full_sync import record_failure, sync_cluster
from installs.state.watch import plan, rows
from installs.state.watch.engine import End, Session
from olmweb.clusters import client_for
from olmweb.kube.client import KubeClient
from olmweb.kube.errors import Abandoned, KubeError
from olmweb.models import Cluster, SyncRun
from olmweb.runtime import stopping

__all__ = ["End", "WatchReport", "watch_cluster"]

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class WatchReport:
    """`rows`: written or deleted; `requests`: sent to the cluster; `end`: why it is over."""

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

    `stop` is asked a few times a second, `still_ours` before every write. Never raises for what
    the cluster does: that ends up in its Cluster and Stream rows.
    """
    began, started = time.monotonic(), timezone.now()
    until = began + seconds
    written, end = 0, End.AGAIN
    client: KubeClient | None = None
    try:
        client = client_for(cluster, abandon=stopping.asked)
        while end is End.AGAIN and time.monotonic() < until and not stop():
            cluster.refresh_from_db()
            found = _prepare(cluster, client, still_ours)
            if found is None:
                end = End.UNREACHABLE if still_ours() else End.LOST
                break
            session = Session(cluster, client, found, until=until, still_ours=still_ours, stop=stop)
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
        rows.record(cluster, started, written=written, requests=requests)
    return WatchReport(end, written, requests, time.monotonic() - began)


def _prepare(
    cluster: Cluster, client: KubeClient, still_ours: Callable[[], bool]
) -> plan.Plan | None:
    """The plan of the next session, after a full pass where one is needed; None if that failed.

    Raises KubeError when the cluster does not answer.
    """
    found = plan.make(client.discover(), rows.streams_of(cluster))
    if plan.needs_pass(cluster, found) or plan.went_back(client, found, found.highest()):
        report = sync_cluster(cluster, client, still_ours=still_ours)
        if report.outcome == SyncRun.Outcome.FAILED:
            return None
        found = plan.make(found.discovery, rows.streams_of(cluster))
    elif rows.reached(cluster):
        log.info("cluster reached again", cluster=cluster.name)
    return found
