"""Server-sent events: `GET /events/` tells an open page that rows behind it changed.

A page follows topics (TOPICS). While pages are open, one thread of each web process reads a stamp
of every followed topic several times a second; a page at rest costs no query of its own. Stamps are
read, not sent by the writers: so no change is ever missed, also while Redis is away.
"""

import json
import re
import time
from collections.abc import Callable, Iterable
from typing import Any

import structlog
from django.apps import apps
from django.db import DatabaseError, connection
from django.db.models import Max
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from olmweb.errors import BadRequest
from olmweb.models import Cluster, ResourceWatch, SyncRun
from olmweb.web.pages import cluster_stamp

log = structlog.get_logger(__name__)

RETRY_MILLISECONDS = 3000
TOPIC = re.compile(
    r"clusters|cluster-[0-9]{1,18}|catalogs|syncs|watches|actions|requests|reports|objects|minute"
    r"|attention"
)

# What pages show of a catalog, less what comes with one of these columns: every attempt to read it
# sets `checked_at`.
_CATALOG_COLUMNS = (
    *("pk", "source_kind", "source", "access_method", "priority", "availability"),
    *("state", "error_text", "checked_at", "revision", "synced_at"),
)
Stamps = dict[str, object]  # topic -> a value that differs when rows of the topic changed


@require_safe
def events(request: HttpRequest) -> HttpResponse:
    """`text/event-stream` of the topics in `?of=`, repeated. Raises BadRequest for an unknown one.

    Events are `changed` and, as a heartbeat, `synced`; the data of both are {"synced": {cluster
    name: ISO time of its last complete pass}, "of": the topics that changed}. This is the head of
    the response; EventStreams goes on from here.
    """
    topics = request.GET.getlist("of")
    unknown = [topic for topic in topics if not TOPIC.fullmatch(topic)]
    if unknown:
        raise BadRequest(f"No topic is called {unknown[0][:100]!r}.")
    if not topics:
        raise BadRequest("Events are of a topic: name one, as in /events/?of=clusters.")
    response = HttpResponse(f"retry: {RETRY_MILLISECONDS}\n\n", content_type="text/event-stream")
    response["Cache-Control"] = "no-store, no-transform"
    response["X-Accel-Buffering"] = "no"  # nginx
    return response


def _clusters(clusters: Iterable[Cluster]) -> Stamps:
    each = {f"cluster-{cluster.pk}": cluster_stamp(cluster) for cluster in clusters}
    return {**each, "clusters": tuple(each.values())}


def _watches() -> object:
    return list(
        ResourceWatch.objects.values_list("pk", "state", "last_event_at", "lists", "watches")
    )


def _catalogs() -> object:
    """The conditions that a cluster reports of its catalogs are not read, as there may be hundreds:
    they are stored with a new revision of the cluster, which pages of catalogs follow, too."""
    catalogs: Any = apps.get_app_config("catalogs").models_module
    verdicts = catalogs.PredictionRun.objects.aggregate(changed_at=Max("changed_at"))
    rows = catalogs.Catalog.objects.order_by("pk").values_list(*_CATALOG_COLUMNS, named=True)
    stale = [catalogs.is_stale(r.state, r.source_kind, r.source, r.synced_at) for r in rows]
    inspections = catalogs.CatalogInspection.objects.order_by("pk").values_list()
    return list(rows), stale, list(inspections), verdicts


def _syncs() -> object:
    running = SyncRun.objects.filter(outcome=SyncRun.Outcome.RUNNING).values_list("pk", flat=True)
    return list(running), _newest(SyncRun)


def _actions() -> object:
    """An action that ended is no longer among the open ones."""
    model: Any = apps.get_model("installs", "Action")
    rows = model.objects.filter(state__in=model.OPEN).values_list(
        "pk", "state", "begun_at", "sent_at"
    )
    return list(rows), _newest(model)


def _requests() -> object:
    model: Any = apps.get_model("installs", "InstallRequest")
    waiting = model.objects.filter(state=model.State.WAITING).values_list("pk", flat=True)
    return list(waiting), _newest(model)


def _reports() -> object:
    model: Any = apps.get_model("installs", "CopyReport")
    states = (model.State.PENDING, model.State.RUNNING)
    return list(model.objects.filter(state__in=states).values_list("pk", "state")), _newest(model)


def _objects() -> object:
    """Those that a worker has still to read: one that was read is no longer among them."""
    models: list[Any] = [apps.get_model("installs", name) for name in ("ObjectYaml", "CrdCheck")]
    return [
        list(model.objects.filter(finished_at=None).values_list("pk", flat=True))
        for model in models
    ]


def _newest(model: Any) -> int | None:
    newest: int | None = model.objects.order_by().aggregate(newest=Max("pk"))["newest"]
    return newest


_CLUSTER_FIELDS = ("name", "revision", "reachable", "error_code", "synced_at")
ATTENTION = "attention"
# `clusters`, `cluster-ID` and ATTENTION come from the rows that StampFeed reads for the heartbeat.
TOPICS: dict[str, Callable[[], object]] = {
    "catalogs": _catalogs,
    "syncs": _syncs,
    "watches": _watches,
    "actions": _actions,
    "requests": _requests,
    "reports": _reports,
    "objects": _objects,
    "minute": lambda: int(time.time() // 60),
}


class StampFeed:
    """Reads stamps in one thread, with one database connection."""

    def __init__(self) -> None:
        self._stamps: Stamps = {}
        self._failing = False
        self._attention: tuple[int, object] = (0, None)  # the minute in which it was read
        self.synced = "{}"  # JSON: cluster name -> ISO time of its last complete pass
        self.clusters = 0

    def read(self, topics: set[str]) -> set[str] | None:
        """The topics whose stamp differs from that of the last reading; a topic read for the first
        time is not among them. At most three queries a topic; None while the database is away."""
        try:
            clusters = list(Cluster.objects.only(*_CLUSTER_FIELDS))
            stamps = _clusters(clusters)
            stamps |= {topic: TOPICS[topic]() for topic in topics & TOPICS.keys()}
            if ATTENTION in topics:
                stamps[ATTENTION] = self._attention_stamp(stamps["clusters"])
        except DatabaseError as error:
            if not self._failing:
                log.warning("open pages can't be told of changes", error=str(error))
            self._failing = True
            self.close()
            return None
        self._failing = False
        times = {row.name: row.synced_at.isoformat() for row in clusters if row.synced_at}
        self.synced = json.dumps(times)
        self.clusters = len(clusters)
        before, self._stamps = self._stamps, {**self._stamps, **stamps}
        return {topic for topic in before.keys() & stamps.keys() if before[topic] != stamps[topic]}

    def _attention_stamp(self, clusters: object) -> object:
        """Differs at most once a minute, and only if a cluster or the state or content of a catalog
        changed: the numbers in the masthead of every open page depend on both, and change rarely.
        """
        minute = int(time.time() // 60)
        if minute != self._attention[0]:
            catalogs = apps.get_model("catalogs", "Catalog").objects.order_by("pk")
            # Not `checked_at`, which each attempt to read a catalog sets.
            rows = list(catalogs.values_list("pk", "state", "revision"))
            self._attention = minute, (clusters, rows)
        return self._attention[1]

    def close(self) -> None:
        """Ends the connection of this thread."""
        connection.close()
