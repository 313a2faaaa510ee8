"""What /metrics tells: gauges over rows, a fixed number of queries per scrape.

Label names follow OLM's own metrics (namespace, name, version, phase, reason). Models of the apps
are looked up by name: this module sits below them.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.apps import apps
from django.db.models import Count, Max, Q
from django.utils import timezone
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from olmweb.models import LOCAL, Cluster, SyncRun

FAILURES_OF = timedelta(hours=1)
REASON_LIMIT = 100  # characters of a reason used as a label; Kubernetes' own reasons are words


def _rows(model: str) -> Any:
    return apps.get_model(model)._default_manager.order_by()


def _gauge(name: str, about: str, labels: Iterable[str]) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"olmweb_{name}", about, labels=list(labels))


def _age(moment: datetime | None, now: datetime) -> float | None:
    return None if moment is None else max(0.0, (now - moment).total_seconds())


class StateCollector(Collector):
    """Reads the rows when a scrape asks; keeps nothing between scrapes."""

    def collect(self) -> Iterable[GaugeMetricFamily]:
        now = timezone.now()
        yield from self._clusters(now)
        yield from self._operators()
        yield from self._catalogs(now)
        yield from self._syncs(now)

    def _clusters(self, now: datetime) -> Iterable[GaugeMetricFamily]:
        reachable = _gauge("cluster_reachable", "1 when the last attempt reached it.", ["cluster"])
        age = _gauge(
            "cluster_sync_age_seconds", "Since the last complete pass over a cluster.", ["cluster"]
        )
        for cluster in Cluster.objects.all():
            reachable.add_metric([cluster.name], 1 if cluster.reachable else 0)
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
        found = _rows("installs.ClusterOperator").values("cluster__name")
        for row in found.annotate(**{f"is_{name}": count for name, count in counts.items()}):
            for column in columns:
                labels = [row["cluster__name"], column.capitalize()]
                conditions.add_metric(labels, row[f"is_{column}"])
        yield from (reachable, age, conditions)

    def _operators(self) -> Iterable[GaugeMetricFamily]:
        operators = _rows("installs.Operator")
        count = _gauge("operators", "Installed operators.", ["cluster", "kind", "health"])
        for *labels, number in operators.values_list("cluster__name", "kind", "health").annotate(
            Count("id")
        ):
            count.add_metric(labels, number)
        findings = _gauge("findings", "Operators with this finding.", ["cluster", "finding"])
        found = operators.exclude(finding="").values_list("cluster__name", "finding")
        for *labels, number in found.annotate(Count("id")):
            findings.add_metric(labels, number)
        abnormal = _gauge(
            "operator_abnormal",
            "1 for each operator that is not healthy; phase is its health.",
            ["cluster", "kind", "namespace", "name", "version", "phase", "reason"],
        )
        for *labels, reason in operators.exclude(health="Healthy").values_list(
            "cluster__name", "kind", "namespace", "name", "version", "health", "reason"
        ):
            abnormal.add_metric([*labels, reason[:REASON_LIMIT]], 1)
        yield from (count, findings, abnormal)

    def _catalogs(self, now: datetime) -> Iterable[GaugeMetricFamily]:
        labels = ["cluster", "namespace", "name"]
        ready = _gauge("catalog_ready", "1 when its content is served and not stale.", labels)
        age = _gauge("catalog_sync_age_seconds", "Since its content was last confirmed.", labels)
        counts = {
            "package_count": _gauge("catalog_packages", "Packages of a catalog.", labels),
            "bundle_count": _gauge("catalog_bundles", "Bundles of a catalog.", labels),
            "problem_count": _gauge("catalog_problems", "Faults of a catalog's content.", labels),
        }
        for catalog in _rows("catalogs.Catalog").select_related("cluster").order_by("id"):
            cluster = catalog.cluster.name if catalog.cluster else LOCAL
            values = [cluster, catalog.namespace, catalog.slug]
            ready.add_metric(values, 1 if catalog.state == "serving" and not catalog.stale else 0)
            seconds = _age(catalog.synced_at, now)
            if seconds is not None:
                age.add_metric(values, seconds)
            for field, gauge in counts.items():
                gauge.add_metric(values, getattr(catalog, field))
        yield from (ready, age, *counts.values())

    def _syncs(self, now: datetime) -> Iterable[GaugeMetricFamily]:
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
