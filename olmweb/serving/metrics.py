"""The metrics of /metrics: gauges over rows, a fixed number of queries per scrape.

Where OLM has a metric of the same meaning, ours has its name after `olmweb_` and its label names
(csv_succeeded, csv_abnormal, catalogsource_ready; subscription has the labels of
subscription_sync_total), and `cluster` before them. A metric with a series per object has at most
SERIES of them; `olmweb_series_limited` says which ones are cut. Models of the apps are looked up by
name: this module sits below them.
"""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, get_args

import redis
from django.apps import apps
from django.conf import settings
from django.db.models import Count, Max, Min, OuterRef, Q, Subquery
from django.db.models.functions import Coalesce
from django.utils import timezone
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from olmweb.clusters import request_totals
from olmweb.models import LOCAL, ChangeEvent, Cluster, ResourceWatch, SyncRun, configured_clusters
from olmweb.runtime import beat, counters
from olmweb.runtime.leases import is_held
from olmweb.tasks import Queue

FAILURES_OF = timedelta(hours=1)
QUEUES: tuple[str, ...] = get_args(Queue)
BROKER_TIMEOUT = 2  # seconds; a probe or a scrape must answer before its own timeout
BROKER_ERRORS = (redis.RedisError, OSError, ValueError)  # ValueError: REDIS_URL is no address
DELIVERY_RESULTS = ("sent", "failed", "given-up")
SERIES = 5000  # of one metric that has one for each object
REASON_LIMIT = 100  # characters of a reason used as a label; Kubernetes' own reasons are words


def _rows(model: str) -> Any:
    return apps.get_model(model)._default_manager.order_by()


def _gauge(name: str, about: str, labels: Iterable[str]) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"olmweb_{name}", about, labels=list(labels))


def _counter(name: str, about: str, labels: Iterable[str]) -> CounterMetricFamily:
    return CounterMetricFamily(f"olmweb_{name}", about, labels=list(labels))


def _word(value: Any) -> str:
    """A value from a cluster as a label; values of other types than text become empty."""
    return value[:REASON_LIMIT] if isinstance(value, str) else ""


def _cut(rows: Any, metric: Metric, limited: GaugeMetricFamily) -> Iterable[Any]:
    """At most SERIES of these rows, the first by id: the same ones at every scrape."""
    first = list(rows.order_by("id")[: SERIES + 1])
    limited.add_metric([metric.name], 1 if len(first) > SERIES else 0)
    return first[:SERIES]


def _age(moment: datetime | None, now: datetime) -> float | None:
    return None if moment is None else max(0.0, (now - moment).total_seconds())


def broker() -> redis.Redis:
    """A client of the broker, to be used as a context manager. Requests raise BROKER_ERRORS."""
    return redis.Redis.from_url(
        settings.REDIS_URL, socket_timeout=BROKER_TIMEOUT, socket_connect_timeout=BROKER_TIMEOUT
    )


def _queue_lengths() -> dict[str, int]:
    """Number of tasks in each queue of the broker; empty when it can't be reached."""
    try:
        with broker() as client, client.pipeline(transaction=False) as requests:
            for queue in QUEUES:
                requests.llen(queue)
            return dict(zip(QUEUES, requests.execute(), strict=True))
    except BROKER_ERRORS:
        return {}


class StateCollector(Collector):
    """Reads the rows at each scrape; stores nothing between scrapes."""

    def collect(self) -> Iterable[Metric]:
        now = timezone.now()
        limited = _gauge(
            "series_limited", f"1 when only the first {SERIES} objects are told.", ["metric"]
        )
        build = _gauge("build_info", "1 for the version of OLM Web.", ["version"])
        build.add_metric([settings.VERSION], 1)
        yield build
        yield from self._clusters(now)
        yield from self._feeds(now)
        yield from self._requests()
        yield from self._operators(limited)
        yield from self._olm(limited)
        yield from self._catalogs(now)
        yield from self._syncs(now)
        yield from self._actions(now)
        yield from self._finished_actions()
        yield from self._notifications()
        yield from self._receivers(now)
        yield from self._processes()
        yield limited

    def _clusters(self, now: datetime) -> Iterable[Metric]:
        reachable = _gauge("cluster_reachable", "1 when the last attempt reached it.", ["cluster"])
        age = _gauge(
            "cluster_sync_age_seconds", "Since the last complete pass over a cluster.", ["cluster"]
        )
        for cluster in Cluster.objects.filter(configured_clusters()):
            if cluster.answers is not None:
                reachable.add_metric([cluster.name], int(cluster.answers))
            seconds = _age(cluster.synced_at, now)
            if seconds is not None:
                age.add_metric([cluster.name], seconds)
        conditions = _gauge(
            "clusteroperators",
            "ClusterOperators whose condition is True.",
            ["cluster", "condition"],
        )
        columns = ("available", "progressing", "degraded", "upgradeable")
        counts = {column: Count("id", filter=Q(**{column: "True"})) for column in columns}
        rows = _rows("installs.ClusterOperator").values("cluster__name")
        for row in rows.annotate(**{f"is_{name}": count for name, count in counts.items()}):
            for column in columns:
                labels = [row["cluster__name"], column.capitalize()]
                conditions.add_metric(labels, row[f"is_{column}"])
        yield from (reachable, age, conditions)

    def _feeds(self, now: datetime) -> Iterable[Metric]:
        labels = ["cluster", "feed"]
        age = _gauge("feed_age_seconds", "Since the cluster last told anything of a feed.", labels)
        state = _gauge(
            "feed_state", "1 for the state that the reading of a feed is in.", [*labels, "state"]
        )
        lists = _counter("feed_lists", "Full lists of a feed.", labels)
        watches = _counter("feed_watches", "Watch requests of a feed.", labels)
        rows = ResourceWatch.objects.filter(configured_clusters("cluster__")).order_by()
        for row in rows.select_related("cluster"):
            values = [row.cluster.name, row.resource]
            times = [moment for moment in (row.last_event_at, row.listed_at) if moment]
            seconds = _age(max(times, default=None), now)
            if seconds is not None:
                age.add_metric(values, seconds)
            state.add_metric([*values, row.state], 1)
            lists.add_metric(values, row.lists)
            watches.add_metric(values, row.watches)
        yield from (age, state, lists, watches)

    def _requests(self) -> Iterable[Metric]:
        count = _counter(
            "api_requests",
            "Requests to an API server, counted when its connection is closed: at the latest "
            "after a turn of a watch. The code is none where no answer came.",
            ["cluster", "verb", "code"],
        )
        for series, number in sorted(request_totals().items()):
            count.add_metric(series, number)
        yield count

    def _operators(self, limited: GaugeMetricFamily) -> Iterable[Metric]:
        operators = _rows("installs.Operator").filter(configured_clusters("cluster__"))
        count = _gauge(
            "operators",
            "Installed operators; finding is empty where there is none.",
            ["cluster", "kind", "health", "finding"],
        )
        findings = _gauge("findings", "Operators with this finding.", ["cluster", "finding"])
        with_finding: Counter[tuple[str, str]] = Counter()
        labels = ("cluster__name", "kind", "health", "finding")
        for *values, number in operators.values_list(*labels).annotate(Count("id")):
            count.add_metric(values, number)
            if values[3]:
                with_finding[values[0], values[3]] += number
        for pair, number in with_finding.items():
            findings.add_metric(pair, number)
        abnormal = _gauge(
            "operator_abnormal",
            "1 for each operator that is not healthy; phase is its health.",
            ["cluster", "kind", "namespace", "name", "version", "phase", "reason"],
        )
        rows = operators.exclude(health="Healthy").values_list(
            "cluster__name", "kind", "namespace", "name", "version", "health", "reason"
        )
        for *values, reason in _cut(rows, abnormal, limited):
            abnormal.add_metric([*values, _word(reason)], 1)
        yield from (count, findings, abnormal)

    def _olm(self, limited: GaugeMetricFamily) -> Iterable[Metric]:
        """The metrics that OLM v0's own controllers have of one cluster, for all clusters."""
        labels = ["cluster", "namespace", "name"]
        columns = ("cluster__name", "namespace", "name")
        objects = _gauge("objects", "Objects that operators are made of.", ["cluster", "kind"])
        components = _rows("installs.Component")
        for *values, number in components.values_list("cluster__name", "kind").annotate(
            Count("id")
        ):
            objects.add_metric(values, number)
        succeeded = _gauge(
            "csv_succeeded",
            "1 for a ClusterServiceVersion that has succeeded, else 0.",
            [*labels, "version"],
        )
        abnormal = _gauge(
            "csv_abnormal",
            "1 for a ClusterServiceVersion that has not succeeded.",
            [*labels, "version", "phase", "reason"],
        )
        rows = components.filter(kind="ClusterServiceVersion").values_list(
            *columns, "details__version", "phase", "details__reason"
        )
        for *values, version, phase, reason in _cut(rows, succeeded, limited):
            values = [*values, _word(version)]
            succeeded.add_metric(values, 1 if phase == "Succeeded" else 0)
            if phase != "Succeeded":
                abnormal.add_metric([*values, phase, _word(reason)], 1)
        subscription = _gauge(
            "subscription",
            "1 for each Subscription.",
            [*labels, "installed", "channel", "package", "approval_strategy"],
        )
        rows = (
            _rows("installs.Operator")
            .filter(kind="Subscription")
            .values_list(
                *columns, "details__installed_csv", "channel", "package", "details__approval"
            )
        )
        for *values, installed, channel, package, approval in _cut(rows, subscription, limited):
            values = [*values, _word(installed), channel, package, _word(approval)]
            subscription.add_metric(values, 1)
        ready = _gauge("catalogsource_ready", "1 for a CatalogSource that is ready.", labels)
        rows = components.filter(kind="CatalogSource").values_list(*columns, "details__state")
        for *values, state in _cut(rows, ready, limited):
            ready.add_metric(values, 1 if state == "READY" else 0)
        yield from (objects, succeeded, abnormal, subscription, ready)

    def _actions(self, now: datetime) -> Iterable[Metric]:
        """Open actions: pending ones are not sent yet, applied ones are followed."""
        labels = ["cluster", "state"]
        count = _gauge("actions", "Open actions.", labels)
        age = _gauge(
            "action_age_seconds",
            "Since the oldest open action was recorded, or begun by its bulk install, or sent.",
            labels,
        )
        waiting = Q(state="pending", batch__isnull=False, begun_at=None)  # for others of its batch
        since = Coalesce("sent_at", "begun_at", "created_at")
        rows = _rows("installs.Action").filter(state__in=("pending", "applied"))
        for cluster, state, number, oldest in rows.values_list("cluster__name", "state").annotate(
            number=Count("id"), oldest=Min(since, filter=~waiting)
        ):
            count.add_metric([cluster, state], number)
            age.add_metric([cluster, state], _age(oldest, now) or 0)
        yield from (count, age)

    def _finished_actions(self) -> Iterable[Metric]:
        labels = ["verb", "method"]
        count = _counter("actions_finished", "Actions that ended, by result.", [*labels, "result"])
        for values, number in counters.totals(counters.ACTIONS).items():
            count.add_metric(values, number)
        duration = HistogramMetricFamily(
            "olmweb_action_duration_seconds",
            "From the record of an action to its end.",
            labels=labels,
        )
        stored = counters.histogram(counters.ACTION_SECONDS, counters.ACTION_BOUNDS)
        for values, (buckets, seconds) in stored.items():
            duration.add_metric(values, buckets, seconds)
        yield from (count, duration)

    def _receivers(self, now: datetime) -> Iterable[Metric]:
        """A run moves the position of a receiver over events that it does not select, too: what
        follows it waits for the receiver or for the next run."""
        failing = _gauge("receiver_failing", "1 while requests to a receiver fail.", ["receiver"])
        age = _gauge(
            "receiver_pending_age_seconds",
            "Age of the oldest event that an enabled receiver has not got; 0 without one.",
            ["receiver"],
        )
        deliveries = _counter(
            "receiver_deliveries", "Requests to receivers of events.", ["receiver", "result"]
        )
        events = ChangeEvent.objects.filter(position__gt=OuterRef("position"))
        waiting = Q(deliveries__state__in=("pending", "failing"))
        receivers = _rows("installs.WebhookReceiver").filter(enabled=True).order_by("name")
        rows = receivers.annotate(
            next_at_log=Subquery(events.order_by("position").values("at")[:1]),
            oldest=Min("deliveries__created_at", filter=waiting),
        )  # fmt: skip
        # From zero, so that the first failure is an increase.
        counts = {(row.name, result): 0 for row in rows for result in DELIVERY_RESULTS}
        for row in rows:
            failing.add_metric([row.name], 1 if row.error else 0)
            times = [moment for moment in (row.next_at_log, row.oldest) if moment]
            age.add_metric([row.name], _age(min(times, default=now), now) or 0)
        for values, number in (counts | counters.totals(counters.DELIVERIES)).items():
            deliveries.add_metric(values, number)
        yield from (failing, age, deliveries)

    def _processes(self) -> Iterable[Metric]:
        """Whether workers and beat do their part; no samples where they are in this process."""
        length = _gauge("queue_length", "Tasks that wait for a worker.", ["queue"])
        scheduling = _gauge("beat_scheduling", "1 while a beat holds the lease to schedule.", [])
        if not settings.EMBEDDED:
            for queue, number in _queue_lengths().items():
                length.add_metric([queue], number)
            scheduling.add_metric([], int(is_held(beat.LEASE)))
        yield from (length, scheduling)

    def _notifications(self) -> Iterable[Metric]:
        count = _gauge("notifications", "Changes of health for the webhook.", ["state"])
        counts = dict(_rows("installs.Notification").values_list("state").annotate(Count("id")))
        for state in ("pending", "sent", "given-up"):
            count.add_metric([state], counts.get(state, 0))
        yield count

    def _catalogs(self, now: datetime) -> Iterable[Metric]:
        labels = ["cluster", "namespace", "name"]
        ready = _gauge("catalog_ready", "1 when its content is served and not stale.", labels)
        age = _gauge("catalog_sync_age_seconds", "Since its content was last confirmed.", labels)
        counts = {
            "package_count": _gauge("catalog_packages", "Packages of a catalog.", labels),
            "bundle_count": _gauge("catalog_bundles", "Bundles of a catalog.", labels),
            "problem_count": _gauge("catalog_problems", "Faults of a catalog's content.", labels),
        }
        catalogs = _rows("catalogs.Catalog").filter(configured_clusters("cluster__"))
        for catalog in catalogs.select_related("cluster").order_by("id"):
            cluster = catalog.cluster.name if catalog.cluster else LOCAL
            values = [cluster, catalog.namespace, catalog.slug]
            ready.add_metric(values, 1 if catalog.state == "serving" and not catalog.stale else 0)
            seconds = _age(catalog.synced_at, now)
            if seconds is not None:
                age.add_metric(values, seconds)
            for field, gauge in counts.items():
                gauge.add_metric(values, getattr(catalog, field))
        yield from (ready, age, *counts.values())

    def _syncs(self, now: datetime) -> Iterable[Metric]:
        failed = _gauge(
            "sync_failed_runs", "Syncs that failed within the last hour.", ["kind", "target"]
        )
        last = _gauge(
            "sync_last_run_timestamp_seconds", "When a sync was last begun.", ["kind", "target"]
        )
        recent = Q(outcome=SyncRun.Outcome.FAILED, started_at__gte=now - FAILURES_OF)
        for kind, target, number, begun in (
            SyncRun.objects.order_by()
            .values_list("kind", "target")
            .annotate(number=Count("id", filter=recent), begun=Max("started_at"))
        ):
            failed.add_metric([kind, target], number)
            last.add_metric([kind, target], begun.timestamp())
        yield from (failed, last)
