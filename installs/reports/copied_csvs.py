"""The cost of copied ClusterServiceVersions for a cluster, counted on request.

OLM v0 copies the ClusterServiceVersion of an operator into every namespace that its OperatorGroup
targets. Copies have the label `olm.copiedFrom` (the namespace of the original) and no function;
they take space in etcd and in every cache, and controllers in conflict over one rewrite it
endlessly. A report reads metadata (and one whole copy of each operator, for its size), watches for
a minute, and stores sums. `CopyReport.result`, all counts are integers:

    originals          real ClusterServiceVersions of the cluster
    copies             copied ones
    bytes              estimated size of the copies, like `operators[].bytes`; null if none could
                       be measured
    orphans            copies whose original is no longer in its namespace (counted in `copies`)
    operators_total    operators (name and source namespace) that have copies
    operators          at most ROWS of them, most copies first:
        name             of the ClusterServiceVersion, e.g. etcdoperator.v0.9.4
        namespace        of the original
        copies
        bytes_each       size of one copy as JSON, as the API server stores custom resources
        bytes            copies * bytes_each; null if nothing could be measured
        measured         false: bytes_each is the mean of the measured ones
        orphan           the original does not exist
        all_namespaces   its OperatorGroup targets all namespaces; null if unknown
        updates          MODIFIED events of its copies during the watch
    namespaces_total   namespaces that hold copies
    namespaces         at most ROWS of them, most copies first: {"namespace", "copies"}
    watch              {"seconds": float, duration; "added", "modified", "deleted": events of
                       copies; "error": sentence, why it ended early, or ""}.
                       A healthy cluster at rest has 0 modified.
    setting            {"state": "on" (OLM copies), "off" (OLMConfig `cluster` has
                       spec.features.disableCopiedCSVs), "absent" (this OLM has no OLMConfig) or
                       "unreadable"; "error": sentence or "";
                       "copies", "bytes": what disabling saves: the copies of operators that
                       target all namespaces, the only ones that the setting affects}
    complete           false if the cluster has more than PAGES pages, the rest is not counted
    requests           number of API requests
    seconds            float, duration

`summarise` is pure.
"""

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import msgspec
from django.contrib.auth.models import AnonymousUser, User
from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from installs.models import CopyReport
from olmweb.clusters import client_for, require_configured
from olmweb.errors import OlmwebError
from olmweb.kube.client import KubeClient
from olmweb.kube.errors import KubeError, NotFound
from olmweb.kube.fields import dig
from olmweb.kube.resources import CLUSTER_SERVICE_VERSIONS as CSVS
from olmweb.kube.resources import Resource, Served
from olmweb.kube.transport import Call
from olmweb.kube.watch import CHANGES, MetadataWatch
from olmweb.models import Cluster
from olmweb.runtime.reports import ATTEMPTS, Job, run_report

ROWS = 500
PAGES = 400  # of 500 objects: 200,000 copies
MEASURED = 200
WATCH_SECONDS = 60
SILENCE = 15  # seconds that a server may take to end a watch whose time is over
TASK_LIMIT = 600  # seconds
OPEN = (CopyReport.State.PENDING, CopyReport.State.RUNNING)
COPIED = "olm.copiedFrom"
_JSON = (("Accept", "application/json"),)
CONFIGS = Resource("operators.coreos.com", ("v1",), "olmconfigs", "OLMConfig")

Key = tuple[str, str]  # an operator: name of its ClusterServiceVersion, namespace of the original


class _CopyLabels(msgspec.Struct):
    source: str = msgspec.field(name=COPIED, default="")


class _CopyAnnotations(msgspec.Struct):
    # OLM writes the targets of the OperatorGroup here, "" for all namespaces; copies lack it.
    targets: str | None = msgspec.field(name="olm.targetNamespaces", default=None)


class _CsvMeta(msgspec.Struct):
    name: str
    namespace: str = ""
    labels: _CopyLabels = msgspec.field(default_factory=_CopyLabels)
    annotations: _CopyAnnotations = msgspec.field(default_factory=_CopyAnnotations)

    @property
    def key(self) -> Key:
        return self.name, self.labels.source


@dataclass(slots=True)
class CopyEvents:
    """Events of copies by type, and how often the copies of each operator were updated."""

    seconds: float = 0.0
    types: Counter[str] = field(default_factory=Counter)
    updates: Counter[Key] = field(default_factory=Counter)
    error: str = ""


@dataclass(slots=True)
class CopyCounts:
    """What was read. `sample_namespaces` has the namespace of a copy of each operator; `originals`
    maps originals to whether they target all namespaces (None: unknown)."""

    copies: Counter[Key] = field(default_factory=Counter)
    namespaces: Counter[str] = field(default_factory=Counter)
    sample_namespaces: dict[Key, str] = field(default_factory=dict)
    originals: dict[Key, bool | None] = field(default_factory=dict)
    sizes: dict[Key, int] = field(default_factory=dict)
    watched: CopyEvents = field(default_factory=CopyEvents)
    setting: str = "unreadable"
    setting_error: str = ""
    complete: bool = True


def request_report(cluster: Cluster, user: User | AnonymousUser) -> CopyReport:
    """The open report of this cluster, or a new one for a worker.

    Raises OlmwebError (403) for anonymous users, as a report costs the cluster requests, and (409)
    for a removed cluster.
    """
    require_configured(cluster)
    if not isinstance(user, User):
        raise OlmwebError(
            "Sign in to have copied ClusterServiceVersions counted.", code="not-allowed", status=403
        )
    with transaction.atomic():
        # Locked, so that two concurrent requests get one report.
        Cluster.objects.select_for_update(no_key=True).get(pk=cluster.pk)
        report = CopyReport.objects.filter(cluster=cluster, state__in=OPEN).first()
        if report and timezone.now() - report.created_at > timedelta(seconds=2 * TASK_LIMIT):
            fail(report, "The worker that made this report was stopped.", "Request it again.")
            report = None
        report = report or CopyReport.objects.create(cluster=cluster, user=user)
        # Also for a pending report: its message may be lost, and a second one does no harm.
        run_report.delay_on_commit()
    return report


def unfinished() -> list[Job]:
    """The reports that wait or run."""
    rows = CopyReport.objects.filter(state__in=OPEN)
    values = rows.values_list("pk", "user__username", "created_at")
    return [Job("copies", key, person or "", at) for key, person, at in values]


def served() -> dict[str, datetime]:
    """When the last report of each person began."""
    rows = CopyReport.objects.exclude(started_at=None).order_by()
    values = rows.values_list("user__username").annotate(Max("started_at"))
    return {person or "": began for person, began in values}


def make_report(report: CopyReport) -> None:
    """Reads the cluster and completes the report as done or failed. Takes a minute or more.

    Given up after ATTEMPTS, of which the workers died.
    """
    if report.attempts >= ATTEMPTS:
        text = f"The report ended {ATTEMPTS} times without a result."
        fail(report, text, "The workers of the queue reports may lack memory; look at their logs.")
        return
    report.state, report.started_at = CopyReport.State.RUNNING, timezone.now()
    report.attempts += 1
    report.save(update_fields=["state", "started_at", "attempts"])
    began = time.monotonic()
    try:
        with client_for(report.cluster) as client:
            counts = read(client)
            result = summarise(counts)
            result["requests"] = client.requests
    except NotFound:
        fail(
            report,
            f"Cluster {report.cluster.name} serves no ClusterServiceVersions, so there are no "
            "copies.",
            "OLM v0 is not installed there.",
        )
        return
    except KubeError as error:
        fail(report, error.message, error.hint)
        return
    result["seconds"] = round(time.monotonic() - began, 1)
    report.result = result
    report.state = CopyReport.State.DONE
    report.finished_at = timezone.now()
    report.save(update_fields=["result", "state", "finished_at"])


def fail(report: CopyReport, text: str, hint: str) -> None:
    report.state = CopyReport.State.FAILED
    report.error_text, report.error_hint = text, hint
    report.finished_at = timezone.now()
    report.save(update_fields=["state", "error_text", "error_hint", "finished_at"])


def read(client: KubeClient) -> CopyCounts:
    """Reads everything for a report. Raises KubeError if the lists can't be read."""
    counts = CopyCounts()
    _read_copies(client, counts)
    # After the copies, so that it contains the originals of all of them.
    version = _read_originals(client, counts)
    counts.watched = _watch(client, version)
    _read_sizes(client, counts)
    _read_setting(client, counts)
    return counts


def summarise(counts: CopyCounts) -> dict[str, Any]:
    """The report's result but for `requests` and `seconds`. Pure."""
    sizes = counts.sizes
    mean = round(sum(sizes.values()) / len(sizes)) if sizes else None
    size_of = {key: sizes.get(key, mean) for key in counts.copies}

    def weight(keys: list[Key]) -> int | None:
        return (
            None if mean is None else sum(counts.copies[key] * (size_of[key] or 0) for key in keys)
        )

    everywhere = [key for key in counts.copies if counts.originals.get(key)]
    orphans = [key for key in counts.copies if key not in counts.originals]
    types = counts.watched.types
    return {
        "originals": len(counts.originals),
        "copies": counts.copies.total(),
        "bytes": weight(list(counts.copies)),
        "orphans": sum(counts.copies[key] for key in orphans),
        "operators_total": len(counts.copies),
        "operators": [
            {
                "name": key[0],
                "namespace": key[1],
                "copies": count,
                "bytes_each": size_of[key],
                "bytes": weight([key]),
                "measured": key in sizes,
                "orphan": key not in counts.originals,
                "all_namespaces": counts.originals.get(key),
                "updates": counts.watched.updates[key],
            }
            for key, count in _largest(counts.copies)
        ],
        "namespaces_total": len(counts.namespaces),
        "namespaces": [
            {"namespace": name, "copies": count} for name, count in _largest(counts.namespaces)
        ],
        "watch": {
            "seconds": round(counts.watched.seconds, 1),
            "added": types["ADDED"],
            "modified": types["MODIFIED"],
            "deleted": types["DELETED"],
            "error": counts.watched.error,
        },
        "setting": {
            "state": counts.setting,
            "error": counts.setting_error,
            "copies": sum(counts.copies[key] for key in everywhere),
            "bytes": weight(everywhere),
        },
        "complete": counts.complete,
    }


def _largest(counts: Mapping[Any, int]) -> list[tuple[Any, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:ROWS]


def _read_copies(client: KubeClient, counts: CopyCounts) -> None:
    pages = client.list_metadata(CSVS, CSVS.versions[0], _CsvMeta, label_selector=COPIED)
    for number, page in enumerate(pages, start=1):
        if page.restart:
            counts.copies.clear()
            counts.namespaces.clear()
            counts.sample_namespaces.clear()
        counts.copies.update(copy.key for copy in page.items)
        counts.namespaces.update(copy.namespace for copy in page.items)
        for copy in page.items:
            counts.sample_namespaces.setdefault(copy.key, copy.namespace)
        if number == PAGES and page.continue_token:
            counts.complete = False
            return


def _read_originals(client: KubeClient, counts: CopyCounts) -> str:
    """Returns the resourceVersion of the list, from which a watch continues."""
    version = ""
    pages = client.list_metadata(CSVS, CSVS.versions[0], _CsvMeta, label_selector=f"!{COPIED}")
    for page in pages:
        version = page.resource_version
        for csv in page.items:
            targets = csv.annotations.targets
            all_namespaces = None if targets is None else targets == ""
            counts.originals[csv.name, csv.namespace] = all_namespaces
    return version


def _watch(client: KubeClient, version: str) -> CopyEvents:
    watched = CopyEvents()
    began = time.monotonic()
    try:
        watch = MetadataWatch(
            client,
            Served(CSVS, CSVS.versions[0]),
            _CsvMeta,
            version,
            seconds=WATCH_SECONDS,
            silence=WATCH_SECONDS + SILENCE,
            label_selector=COPIED,
        )
        for event in watch:
            if event.type not in CHANGES:
                continue
            watched.types[event.type] += 1
            if event.type == "MODIFIED":
                watched.updates[event.object.key] += 1
            if time.monotonic() - began > WATCH_SECONDS:
                break
    except KubeError as error:
        watched.error = error.message  # what was counted so far is kept
    watched.seconds = time.monotonic() - began
    return watched


def _read_sizes(client: KubeClient, counts: CopyCounts) -> None:
    """Measures one copy of at most MEASURED operators; copies that can't be read are skipped."""
    for key, _ in counts.copies.most_common(MEASURED):
        path = CSVS.path(CSVS.versions[0], counts.sample_namespaces[key], key[0])
        try:
            body = client.transport.send(Call("GET", path, headers=_JSON))
        except NotFound:
            continue
        except KubeError:
            return  # it would fail 200 times
        counts.sizes[key] = len(body)


def _read_setting(client: KubeClient, counts: CopyCounts) -> None:
    try:
        pages = list(client.list_pages(CONFIGS, CONFIGS.versions[0]))
    except NotFound:
        counts.setting = "absent"
        return
    except KubeError as error:
        counts.setting_error = error.message
        return
    counts.setting = "on"
    for config in (config for page in pages for config in page.items):
        is_off = dig(config, "spec", "features", "disableCopiedCSVs") is True
        if is_off and dig(config, "metadata", "name") == "cluster":
            counts.setting = "off"
