"""`manage.py sync_cluster NAME`: one full pass over one cluster, now."""

import json
import time
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db.models import Q
from django.utils import timezone

from catalogs.models import Catalog
from installs.facts.evaluate import refresh
from installs.facts.inventory import give_up_first, read_inventory
from installs.state.full_sync import record_crash
from installs.state.full_sync import sync_cluster as sync
from installs.state.watch.scheduling import pass_lease
from olmweb.clusters import configured
from olmweb.errors import OlmwebError
from olmweb.kube.errors import KubeError
from olmweb.models import Cluster, SyncRun
from olmweb.runtime.leases import renewed_lease

WAIT = 30  # seconds for a pass that a worker has under way


class Command(BaseCommand):
    requires_system_checks = ()
    help = "Reads a cluster once and brings the database to what it says."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="name of a cluster in OLMWEB_CLUSTERS")
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *_: Any, **options: Any) -> None:
        cluster = _cluster_named(options["name"])
        report = _sync_with_lease(cluster)
        if not report.error:
            self._refresh_verdicts(cluster)
        if options["json"]:
            self.stdout.write(json.dumps(report.as_json(cluster.name)))
        elif not report.error:
            for kind, counts in report.kinds.items():
                self.stdout.write(
                    f"{kind}: {counts['objects']} objects, "
                    f"{counts['written']} written, {counts['deleted']} deleted"
                )
            self.stdout.write(
                f"{cluster.name}: {report.outcome}, {report.requests} requests, "
                f"{report.seconds:.1f} s"
            )
        if report.outcome == SyncRun.Outcome.FAILED:
            raise CommandError(report.error)

    def _refresh_verdicts(self, cluster: Cluster) -> None:
        """Reads what verdicts need beyond the rows of a sync, and evaluates the catalogs of the
        cluster anew. Verdicts stay unknown where the facts can't be read."""
        try:
            read_inventory(cluster)
        except KubeError as error:
            give_up_first(cluster)
            self.stderr.write(f"{error.message} {error.hint}".rstrip())
        cluster.refresh_from_db()
        for catalog in Catalog.objects.filter(Q(cluster=cluster) | Q(cluster=None), revision__gt=0):
            refresh(catalog, [cluster])


def _cluster_named(name: str) -> Cluster:
    try:
        clusters = {cluster.name: cluster for cluster in configured()}
    except OlmwebError as error:
        raise CommandError(f"{error.message} {error.hint}") from error
    if name not in clusters:
        known = ", ".join(clusters) or "none"
        raise CommandError(f"OLMWEB_CLUSTERS names no cluster {name}; it names: {known}.")
    return clusters[name]


def _sync_with_lease(cluster: Cluster) -> Any:
    deadline = time.monotonic() + WAIT
    while True:
        with renewed_lease(pass_lease(cluster.pk)) as held:
            if held is not None:
                started = timezone.now()
                try:
                    return sync(cluster)
                except Exception as error:
                    record_crash(cluster, error, started)
                    raise
        if time.monotonic() > deadline:
            raise CommandError(
                f"A worker has been syncing cluster {cluster.name} for {WAIT} s; try again later."
            )
        time.sleep(0.5)
