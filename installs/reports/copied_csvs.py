"""What copied ClusterServiceVersions cost a cluster: counted when a person asks, never stored.

OLM v0 copies the ClusterServiceVersion of an operator into every namespace that its OperatorGroup
targets. Copies carry the label `olm.copiedFrom` (the namespace of the original) and nobody acts on
them; they weigh in etcd and in every cache, and a controller that fights over one rewrites it
without end. A report reads metadata only (and one whole copy of each operator, for its size),
watches for a minute, and keeps sums. `CopyReport.result`, every count an int:

    originals          real ClusterServiceVersions of the cluster
    copies             copied ones
    bytes              what the copies weigh: an estimate, as `operators[].bytes` are; null when
                       none could be measured
    orphans            copies whose original is no longer in its namespace (counted in `copies`)
    operators_total    operators (name and source namespace) that have copies
    operators          at most ROWS of them, most copies first:
        name             of the ClusterServiceVersion, e.g. etcdoperator.v0.9.4
        namespace        of the original
        copies
        bytes_each       size of one copy, as JSON, as the API server keeps custom resources
        bytes            copies * bytes_each; null when nothing could be measured
        measured         false: bytes_each is the mean of those that were measured
        orphan           the original is gone
        all_namespaces   its OperatorGroup targets all namespaces; null when that is not known
        updates          MODIFIED events of its copies while we watched
    namespaces_total   namespaces that hold copies
    namespaces         at most ROWS of them, most copies first: {"namespace", "copies"}
    watch              {"seconds": float, how long we watched; "added", "modified", "deleted":
                       events of copies meanwhile; "error": sentence, why it ended early or ""}.
                       A healthy cluster at rest has 0 modified.
    setting            {"state": "on" (OLM copies), "off" (OLMConfig `cluster` has
                       spec.features.disableCopiedCSVs), "absent" (this OLM has no OLMConfig) or
                       "unreadable"; "error": sentence or "";
                       "copies", "bytes": what disabling saves: the copies of operators that
                       target all namespaces, the only ones that the setting is about}
    complete           false when the cluster has more than PAGES pages and the rest is not counted
    requests           API requests that the report cost
    seconds            float, how long it took

Knows the cluster only through olmweb.kube, and no page. `summarise` is pure.
"""

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import msgspec
from django.contrib.auth.models import AnonymousUser, User
from django.db import transaction
from django.utils import timezone

from installs.models import CopyReport
from olmweb.clusters import client_for
from olmweb.errors import OlmwebError
from olmweb.kube.client import KubeClient
from olmweb.kube.errors import KubeError, NotFound
from olmweb.kube.resources import CLUSTER_SERVICE_VERSIONS as CSVS
from olmweb.kube.resources import Resource, Served
from olmweb.kube.transport import Call
from olmweb.kube.watch import CHANGES, MetadataWatch
from olmweb.models import Cluster
from olmweb.tasks import enqueue

ROWS = 500
PAGES = 400  # of 500 objects: 200,000 copies
MEASURED = 200
WATCH_SECONDS = 60
SILENCE = 15  # seconds that a server may take to end a watch whose time is over
TASK = "installs.count_copies"
TASK_LIMIT = 600  # seconds
OPEN = (CopyReport.State.PENDING, CopyReport.State.RUNNING)
COPIED = "olm.copiedFrom"
_JSON = (("Accept", "application/json"),)
CONFIGS = Resource("operators.coreos.com", ("v1",), "olmconfigs", "OLMConfig")

Key = tuple[str, str]  # an operator: name of its ClusterServiceVersion, namespace of the original


class _Labels(msgspec.Struct):
    source: str = msgspec.field(name=COPIED, default="")


class _Annotations(msgspec.Struct):
    # OLM writes the targets of the OperatorGroup here, "" for all namespaces; copies lack it.
    targets: str | None = msgspec.field(name="olm.targetNamespaces", default=None)


class _Meta(msgspec.Struct):
    name: str
    namespace: str = ""
    labels: _Labels = msgspec.field(default_factory=_Labels)
    annotations: _Annotations = msgspec.field(default_factory=_Annotations)

    @property
    def key(self) -> Key:
        return self.name, self.labels.source


@dataclass(slots=True)
class Watched:
    """Events of copies by type, and how often the copies of each operator were updated."""

    seconds: float = 0.0
    types: Counter[str] = field(default_factory=Counter)
    updates: Counter[Key] = field(default_factory=Counter)
    error: str = ""


@dataclass(slots=True)
class Reading:
    """What was read. `places` has the namespace of one copy of each operator; `originals` maps the
    real ones to whether they target all namespaces (None: not said)."""

    copies: Counter[Key] = field(default_factory=Counter)
    namespaces: Counter[str] = field(default_factory=Counter)
    places: dict[Key, str] = field(default_factory=dict)
    originals: dict[Key, bool | None] = field(default_factory=dict)
    sizes: dict[Key, int] = field(default_factory=dict)
    watched: Watched = field(default_factory=Watched)
    setting: str = "unreadable"
    setting_error: str = ""
    complete: bool = True


def request_report(cluster: Cluster, user: User | AnonymousUser) -> CopyReport:
    """The report of this cluster that is being made, or a new one that a worker will make.

    Asked twice, the second call returns the first one's report. Raises OlmwebError (403) for
    somebody who is not signed in: a report costs the cluster requests.
    """
    if not isinstance(user, User):
        raise OlmwebError(
            "Sign in to have copied ClusterServiceVersions counted.", code="not-allowed", status=403
        )
    with transaction.atomic():
        # Locked, so that two people who ask at once get one report.
        Cluster.objects.select_for_update().get(pk=cluster.pk)
        report = CopyReport.objects.filter(cluster=cluster, state__in=OPEN).first()
        if report and timezone.now() - report.created_at > timedelta(seconds=2 * TASK_LIMIT):
            fail(report, "The worker that made this report is gone.", "Ask for it again.")
            report = None
        report = report or CopyReport.objects.create(cluster=cluster, user=user)
        # Also for one that waits already: its message may be lost, and a second one does no harm.
        enqueue(TASK, report.pk)
    return report


def make_report(report: CopyReport) -> None:
    """Reads the cluster and finishes the report, done or failed. Takes a minute or more."""
    report.state = CopyReport.State.RUNNING
    report.save(update_fields=["state"])
    began = time.monotonic()
    try:
        with client_for(report.cluster) as client:
            reading = read(client)
            result = summarise(reading)
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


def read(client: KubeClient) -> Reading:
    """Everything that a report needs. Raises KubeError when the lists can't be read."""
    reading = Reading()
    _read_copies(client, reading)
    # After the copies: an original that is younger than this list can't be missed by it.
    version = _read_originals(client, reading)
    reading.watched = _watch(client, version)
    _read_sizes(client, reading)
    _read_setting(client, reading)
    return reading


def summarise(reading: Reading) -> dict[str, Any]:
    """The report's result but for `requests` and `seconds`. Pure."""
    sizes = reading.sizes
    mean = round(sum(sizes.values()) / len(sizes)) if sizes else None
    size_of = {key: sizes.get(key, mean) for key in reading.copies}

    def weight(keys: list[Key]) -> int | None:
        return (
            None if mean is None else sum(reading.copies[key] * (size_of[key] or 0) for key in keys)
        )

    everywhere = [key for key in reading.copies if reading.originals.get(key)]
    orphans = [key for key in reading.copies if key not in reading.originals]
    types = reading.watched.types
    return {
        "originals": len(reading.originals),
        "copies": reading.copies.total(),
        "bytes": weight(list(reading.copies)),
        "orphans": sum(reading.copies[key] for key in orphans),
        "operators_total": len(reading.copies),
        "operators": [
            {
                "name": key[0],
                "namespace": key[1],
                "copies": count,
                "bytes_each": size_of[key],
                "bytes": weight([key]),
                "measured": key in sizes,
                "orphan": key not in reading.originals,
                "all_namespaces": reading.originals.get(key),
                "updates": reading.watched.updates[key],
            }
            for key, count in _largest(reading.copies)
        ],
        "namespaces_total": len(reading.namespaces),
        "namespaces": [
            {"namespace": name, "copies": count} for name, count in _largest(reading.namespaces)
        ],
        "watch": {
            "seconds": round(reading.watched.seconds, 1),
            "added": types["ADDED"],
            "modified": types["MODIFIED"],
            "deleted": types["DELETED"],
            "error": reading.watched.error,
        },
        "setting": {
            "state": reading.setting,
            "error": reading.setting_error,
            "copies": sum(reading.copies[key] for key in everywhere),
            "bytes": weight(everywhere),
        },
        "complete": reading.complete,
    }


def _largest(counts: Mapping[Any, int]) -> list[tuple[Any, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:ROWS]


def _read_copies(client: KubeClient, reading: Reading) -> None:
    pages = client.list_metadata(CSVS, CSVS.versions[0], _Meta, label_selector=COPIED)
    for number, page in enumerate(pages, start=1):
        if page.restart:
            reading.copies.clear()
            reading.namespaces.clear()
            reading.places.clear()
        reading.copies.update(copy.key for copy in page.items)
        reading.namespaces.update(copy.namespace for copy in page.items)
        for copy in page.items:
            reading.places.setdefault(copy.key, copy.namespace)
        if number == PAGES and page.continue_token:
            reading.complete = False
            return


def _read_originals(client: KubeClient, reading: Reading) -> str:
    """Returns the version of the list, from which a watch goes on."""
    version = ""
    pages = client.list_metadata(CSVS, CSVS.versions[0], _Meta, label_selector=f"!{COPIED}")
    for page in pages:
        version = page.resource_version
        for csv in page.items:
            targets = csv.annotations.targets
            all_namespaces = None if targets is None else targets == ""
            reading.originals[csv.name, csv.namespace] = all_namespaces
    return version


def _watch(client: KubeClient, version: str) -> Watched:
    watched = Watched()
    began = time.monotonic()
    try:
        watch = MetadataWatch(
            client,
            Served(CSVS, CSVS.versions[0]),
            _Meta,
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
        watched.error = error.message  # what was counted so far still says something
    watched.seconds = time.monotonic() - began
    return watched


def _read_sizes(client: KubeClient, reading: Reading) -> None:
    """Measures one copy of each operator, at most MEASURED of them; one that can't be read stays
    unmeasured."""
    for key, _ in reading.copies.most_common(MEASURED):
        path = CSVS.path(CSVS.versions[0], reading.places[key], key[0])
        try:
            body = client.transport.send(Call("GET", path, headers=_JSON))
        except NotFound:
            continue
        except KubeError:
            return  # it would fail 200 times
        reading.sizes[key] = len(body)


def _read_setting(client: KubeClient, reading: Reading) -> None:
    try:
        pages = list(client.list_pages(CONFIGS, CONFIGS.versions[0]))
    except NotFound:
        reading.setting = "absent"
        return
    except KubeError as error:
        reading.setting_error = error.message
        return
    reading.setting = "on"
    for config in (config for page in pages for config in page.items):
        if _at(config, "metadata", "name") == "cluster" and (
            _at(config, "spec", "features", "disableCopiedCSVs") is True
        ):
            reading.setting = "off"


def _at(value: Any, *path: str) -> Any:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value
