"""Celery tasks of the installs app: thin, safe to run twice, half-way or late."""

from typing import Any

import structlog
from celery.concurrency.thread import TaskPool as ThreadPool
from celery.signals import worker_ready
from django.conf import settings
from django.contrib.auth.models import User
from django.utils import timezone
from kombu.exceptions import OperationalError as BrokerError

from installs import retention
from installs.actions import bulk, buttons, crd_check, follow
from installs.facts import crd_schemas, evaluate, inventory
from installs.models import CopyReport, CrdCheck, ObjectYaml
from installs.notifications import receivers, send
from installs.reports import copied_csvs, object_yaml
from installs.state import full_sync
from installs.state.watch import scheduling
from installs.state.watch.run import watch_cluster as watch
from installs.state.watch.session import End
from olmweb.clusters import client_for, configured
from olmweb.errors import DATABASE_AWAY, OlmwebError
from olmweb.eventlog.record import publish
from olmweb.kube.errors import KubeError
from olmweb.models import Cluster
from olmweb.runtime import reports
from olmweb.runtime.leases import LEASE_SECONDS, LeaseLost, is_ours, renewed_lease
from olmweb.runtime.worker import stop_requested
from olmweb.tasks import task

log = structlog.get_logger(__name__)

SYNC_LIMIT = 300
WATCH_SECONDS = 285
PREDICT_LIMIT = 600
# A task that waited this long in the queue is worth nothing: newer ones wait behind it.
EXPIRES = max(30, 3 * settings.STATE_POLL)
RESUME_SECONDS = 30  # the period of resume_actions
PUBLISH_SECONDS = 10  # the period of publish_events


def _log_crash(work: str, error: Exception, **context: Any) -> None:
    """Logs the error that ended `work`; in one line while the database is away, when every task
    fails and is started again later."""
    if isinstance(error, DATABASE_AWAY):
        log.warning("database away", work=work, error=str(error).strip(), **context)
    else:
        event = f"{work} crashed"
        log.error(event, exc_info=error, **context)


@worker_ready.connect
def register_watcher(sender: Any, **_: Any) -> None:
    """A worker of the watch queue takes its share of the clusters; the embedded server has all."""
    watches = "watch" in sender.app.amqp.queues.consume_from
    if watches and type(sender.pool) is ThreadPool:  # other pools watch in other processes
        scheduling.Registration(sender.pool.limit, watch_cluster.delay).start()


@task(name="installs.sync_clusters", queue="actions", time_limit=60, expires=EXPIRES)
def sync_clusters() -> None:
    """Starts a watch of every configured cluster that is due and that nobody watches.

    In the queue of actions because there it never waits long: all workers of the watch queue may
    be busy for minutes, which is when it is needed.
    """
    try:
        clusters = configured()
    except OlmwebError as error:
        log.error("clusters setting is wrong", error=error.message, hint=error.hint)
        return
    for cluster in scheduling.waiting(clusters, timezone.now()):
        scheduling.enqueue(cluster.pk, watch_cluster.delay_on_commit)


@task(name="installs.watch_cluster", queue="watch", time_limit=WATCH_SECONDS + 45, expires=EXPIRES)
def watch_cluster(cluster_id: int) -> None:
    """Watches a cluster for one time slice, unless another worker does, and queues it again.

    A cluster that can't be reached is queued again by sync_clusters, with growing intervals.
    """
    scheduling.dequeued(cluster_id)
    cluster = Cluster.objects.filter(pk=cluster_id).first()
    if cluster is None or cluster.removed:  # a pass would clear the mark of a removed cluster
        log.info("cluster is gone", cluster_id=cluster_id)
        return
    with renewed_lease(scheduling.cluster_lease(cluster_id), scheduling.WATCH_LEASE) as held:
        if held is None:
            return
        started = timezone.now()
        time_slice = scheduling.TimeSlice()
        try:
            report = watch(
                cluster,
                seconds=WATCH_SECONDS,
                still_ours=lambda: is_ours(held, scheduling.WATCH_LEASE),
                stop=time_slice.is_over,
            )
        except Exception as error:
            _log_crash("cluster watch", error, cluster=cluster.name)
            if not isinstance(error, DATABASE_AWAY):
                full_sync.record_crash(cluster, error, started)
            return
    if report.end is End.TIME and not stop_requested():
        scheduling.enqueue(cluster_id, watch_cluster.delay)


@task(name="installs.sync_cluster", queue="sync", time_limit=SYNC_LIMIT, expires=EXPIRES)
def sync_cluster(cluster_id: int) -> None:
    """One full pass over one cluster, whether or not it is being watched."""
    cluster = Cluster.objects.filter(pk=cluster_id).first()
    if cluster is None or cluster.removed:  # a pass would clear the mark of a removed cluster
        log.info("cluster is gone", cluster_id=cluster_id)
        return
    with renewed_lease(scheduling.pass_lease(cluster_id)) as held:
        if held is None:
            return
        started = timezone.now()
        try:
            full_sync.sync_cluster(cluster, still_ours=lambda: is_ours(held, LEASE_SECONDS))
        except Exception as error:
            _log_crash("cluster sync", error, cluster=cluster.name)
            if not isinstance(error, DATABASE_AWAY):
                full_sync.record_crash(cluster, error, started)


@task(name="installs.predict", time_limit=PREDICT_LIMIT, expires=60)
def predict() -> None:
    """Evaluates verdicts whose catalog, cluster or rules changed; requests due inventories."""
    for cluster in inventory.due_clusters():
        inventory.await_first(cluster)
        read_inventory.delay(cluster.pk)
    with renewed_lease("predictions") as held:
        if held is None:
            return
        waiting = Cluster.objects.filter(inventory.awaited())
        before = waiting.count()
        try:
            written = evaluate.refresh_all(lambda: is_ours(held, LEASE_SECONDS))
            if waiting.count() != before:  # its own request for a pass found this one under way
                written += evaluate.refresh_all(lambda: is_ours(held, LEASE_SECONDS))
        except LeaseLost:
            log.warning("another worker took the predictions over")
            return
        except Exception as error:
            _log_crash("predictions", error)  # made again at the next tick
            return
        if written:
            log.info("predictions made", rows=written)


@task(name="installs.read_inventory", time_limit=120, expires=60)
def read_inventory(cluster_id: int) -> None:
    """Reads which kinds, namespaces and schemas a cluster has, unless another worker does."""
    cluster = Cluster.objects.filter(pk=cluster_id).first()
    with renewed_lease(f"inventory:{cluster_id}") as held:
        if cluster is None or held is None or not inventory.is_due(cluster):
            return
        changed = False
        try:
            with client_for(cluster) as client:
                changed = inventory.read_inventory(cluster, client)
                crd_schemas.refresh_schemas(cluster, client)
        except KubeError as error:
            log.info("surface not read", cluster=cluster.name, code=error.code, error=error.message)
        except Exception as error:
            _log_crash("reading a surface", error, cluster=cluster.name)
        if inventory.give_up_first(cluster) or changed:
            predict.delay()  # at once, as verdicts waited for the reading or its facts changed
        if changed and Cluster.objects.filter(pk=cluster_id, assessed="").exists():
            sync_cluster.delay(cluster_id)  # findings depend on a fact that changed


@task(name=buttons.TASK, queue="actions", time_limit=60, expires=60)
def review_access(user_id: int, cluster_id: int, rights: list[list[str]]) -> None:
    """Sends access reviews about a user to a cluster, for the buttons of pages."""
    user = User.objects.filter(pk=user_id).first()
    cluster = Cluster.objects.filter(pk=cluster_id).first()
    if user is None or cluster is None:
        return
    try:
        buttons.review_access(user, cluster, buttons.read_rights(rights))
    except KubeError as error:
        log.info("rights not read", cluster=cluster.name, code=error.code, error=error.message)


@task(name=object_yaml.TASK, queue="actions", time_limit=60, expires=object_yaml.PATIENCE)
def read_object(row_id: int) -> None:
    """Reads one object as the user who requested its YAML, unless another worker has."""
    rows = ObjectYaml.objects.select_related("user", "cluster")
    row = rows.filter(pk=row_id, finished_at=None).first()
    if row is None:
        return
    try:
        object_yaml.read_object(row)
    except Exception as error:
        log.exception("reading an object crashed", cluster=row.cluster.name, kind=row.kind)
        text = f"{row.kind} {row.name} could not be read ({type(error).__name__})."
        object_yaml.fail(row, text, "The log of the worker has the details.")


@task(name="installs.prune", time_limit=600, expires=3600)
def prune() -> None:
    """Deletes rows that are older than their retention period."""
    deleted = retention.prune(timezone.now())
    if any(deleted.values()):
        log.info("history pruned", **deleted)


@task(name="installs.publish_events", queue="actions", time_limit=60, expires=PUBLISH_SECONDS)
def publish_events() -> None:
    """Numbers events whose writer ended between its commit and their publication."""
    publish()


@task(name="installs.run_action", queue="actions", time_limit=400)
def run_action(action_id: int) -> None:
    """Sends one action and follows it; enqueues itself until there is an outcome."""
    try:
        again = follow.run(action_id)
    except Exception as error:
        # Nothing is lost: resume_actions starts it again.
        _log_crash("action", error, action=action_id)
        return
    try:
        if again is not None:
            run_action.apply_async((action_id,), countdown=again)
            return
        for next_id in bulk.next_after(action_id):
            run_action.delay(next_id)
    except (BrokerError, OSError) as error:
        log.warning("action not enqueued", action=action_id, error=str(error))


@task(name="installs.resume_actions", queue="actions", time_limit=60, expires=RESUME_SECONDS)
def resume_actions() -> None:
    """Picks up open actions whose worker is gone, or whose task never reached a worker.

    Messages that no worker takes until the next run of this expire, so that they do not pile up.
    """
    for action_id in follow.waiting():
        run_action.apply_async((action_id,), expires=RESUME_SECONDS)


def count_copies(report_id: int) -> None:
    """Makes a report of copied ClusterServiceVersions under its lease, unless it is done."""
    waiting = CopyReport.objects.filter(pk=report_id, state__in=copied_csvs.OPEN)
    report = waiting.select_related("cluster").first()
    if report is None:
        return
    try:
        copied_csvs.make_report(report)
    except Exception as error:
        log.exception("report of copies crashed", report=report_id)
        text = f"The report could not be made ({type(error).__name__})."
        copied_csvs.fail(report, text, "The log of the worker says more; ask for it again.")


def check_crds(row_id: int) -> None:
    """Reads the CRDs and objects of a check under its lease, unless that is done."""
    rows = CrdCheck.objects.select_related("user", "cluster")
    row = rows.filter(pk=row_id, finished_at=None).first()
    if row is None:
        return
    try:
        crd_check.read_check(row)
    except Exception as error:
        log.exception("check of CRDs crashed", check=row_id)
        text = f"The objects could not be checked ({type(error).__name__})."
        crd_check.fail(row, text, "The log of the worker has the details.")


reports.register(reports.Kind("copies", copied_csvs.unfinished, copied_csvs.served, count_copies))
reports.register(reports.Kind("crds", crd_check.unfinished, crd_check.served, check_crds))


@task(name="installs.notify", time_limit=send.TASK_LIMIT, expires=60)
def notify() -> None:
    """Sends pending changes of health to the webhook of the settings, and events to receivers."""
    for send_due in (send.send_pending, receivers.deliver_all):
        try:
            send_due()
        except Exception as error:
            _log_crash("notifications", error)  # the rows wait for the next run
