"""The configured clusters: their rows, their clients, retries, counts of requests.

The Django side of olmweb.kube: the only place that turns a Cluster row into a connection.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple

from django.conf import settings
from django.db.models import Case, F, When

from olmweb.errors import Missing, OlmwebError
from olmweb.kube.client import KubeClient
from olmweb.kube.errors import KubeError, Refused, Unauthorized
from olmweb.kube.session import open_client
from olmweb.models import LOCAL, NOT_CONFIGURED, REMOVED_TEXT, Cluster
from olmweb.runtime import counters

BACKOFF_LIMIT = timedelta(seconds=20)  # a cluster that recovers is read again within half a minute
WATCHED_AT_ONCE = 16  # clusters, by an embedded worker; more are watched by turns

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@:-]{0,99}")


def client_for(
    cluster: Cluster,
    *,
    timeout: tuple[float, float] = (5, 30),
    abandon: Callable[[], bool] = lambda: False,
) -> KubeClient:
    """A client of this cluster, for a `with` statement. No request is made. Raises ConfigError.

    `timeout` is (connect, read) in seconds; shorter where a person waits for the answer. Its
    requests are counted when it is closed, or by `publish_request_counts`. `abandon` as in
    KubeClient.
    """
    return open_client(
        cluster.context,
        settings.KUBECONFIG,
        name=cluster.name,
        timeout=timeout,
        abandon=abandon,
        on_counts=partial(count_requests, cluster.name),
    )


class RequestCount(NamedTuple):
    """A series of requests to a cluster's API server; `status` is "none" without an answer."""

    cluster: str
    verb: str
    status: str


_COUNTER = "api-requests"


def count_requests(cluster: str, counts: Mapping[tuple[str, str], int]) -> None:
    """Adds the requests that one client has sent, by (verb, status), to the counts for /metrics."""
    counters.add(_COUNTER, {(cluster, *key): number for key, number in counts.items()})


def request_totals() -> dict[RequestCount, int]:
    """All counts; empty while the cache is unreachable."""
    return {RequestCount(*labels): count for labels, count in counters.totals(_COUNTER).items()}


def get_cluster(name: str, rows: Iterable[Cluster] | None = None) -> Cluster:
    """The cluster of that name, from `rows` when they are given. Raises Missing, also for a
    configured cluster before its first sync, which has no row."""
    known = Cluster.objects.filter(name=name) if rows is None else rows
    cluster = next((row for row in known if row.name == name), None)
    if cluster is None:
        if name in _configured_names():
            raise Missing(
                f"Cluster {name} is configured and was not synced yet.",
                code="not-synced",
                hint="It is shown after its first sync. If this stays, "
                + (
                    "the log of OLM Web says more."
                    if settings.EMBEDDED
                    else "check that a worker, the watcher and beat run."
                ),
            )
        names = ", ".join(Cluster.objects.order_by("name").values_list("name", flat=True))
        raise Missing(
            f"There is no cluster {name[:100]}.",
            code="unknown-cluster",
            hint=f"Known clusters: {names or 'none'}.",
        )
    return cluster


def _configured_names() -> Iterable[str]:
    """None of an invalid setting, which the overview explains."""
    try:
        return parse_entries(settings.CLUSTERS)
    except OlmwebError:
        return ()


def require_configured(cluster: Cluster) -> None:
    """Raises OlmwebError (409) for a removed cluster, to which nothing is sent."""
    if cluster.removed:
        raise removed_error(cluster)


def removed_error(cluster: Cluster) -> OlmwebError:
    """The refusal (409) of a removed cluster."""
    return OlmwebError(
        REMOVED_TEXT.format(cluster.name),
        code=NOT_CONFIGURED,
        status=409,
        hint="Name it there again to send something to it.",
    )


def configured() -> list[Cluster]:
    """Rows of the clusters in OLMWEB_CLUSTERS, in its order; creates and updates them as needed.

    An entry is `name=context`, `name=in-cluster`, `in-cluster`, a context that is its own name, or
    `name=` for the current context.
    The row of a cluster that is no longer configured stays for its history, marked as removed until
    it is configured again. Raises OlmwebError for an invalid entry.
    """
    wanted = parse_entries(settings.CLUSTERS)
    rows = {row.name: row for row in Cluster.objects.all()}
    for name, context in wanted.items():
        row = rows.get(name)
        if row is None:
            rows[name] = Cluster.objects.get_or_create(name=name, defaults={"context": context})[0]
        elif row.context != context:
            row.context = context
            row.save(update_fields=["context"])
    for name, row in rows.items():
        if row.removed == (name in wanted):
            _mark_removed(row, removed=name not in wanted)
    return [rows[name] for name in wanted]


def parse_entries(entries: list[str]) -> dict[str, str]:
    """Cluster name -> context of each entry; empty for the current context (`name=`). Raises
    OlmwebError for an invalid entry."""
    wanted: dict[str, str] = {}
    for entry in entries:
        name, named, context = entry.partition("=")
        name = name.strip()
        context = context.strip() if named else name
        if not _NAME.fullmatch(name) or name == LOCAL:
            raise OlmwebError(
                f'OLMWEB_CLUSTERS has "{entry}", whose cluster name can\'t stand in a URL.',
                code="bad-clusters-setting",
                hint="Write name=context, with a name of letters, digits and . _ @ : - only.",
            )
        if name in wanted:
            raise OlmwebError(
                f'OLMWEB_CLUSTERS names the cluster "{name}" twice.',
                code="bad-clusters-setting",
                hint="Give each cluster a name of its own: name=context.",
            )
        wanted[name] = context
    return wanted


def due(cluster: Cluster, now: datetime) -> bool:
    """Whether to read this cluster again.

    Always while it is reachable. After a failure the wait is as long as the cluster has been
    failing, at least a state poll and at most BACKOFF_LIMIT: it doubles without a counter.
    """
    if cluster.unreachable_since is None or cluster.checked_at is None:
        return True
    failing_for = cluster.checked_at - cluster.unreachable_since
    # A little less than the poll, or a tick that comes a moment early would skip every other one.
    shortest = timedelta(seconds=settings.STATE_POLL * 0.9)
    return now - cluster.checked_at >= min(max(failing_for, shortest), BACKOFF_LIMIT)


def as_olmweb_error(error: KubeError) -> OlmwebError:
    """The error that pages and the API show, with the same sentence.

    A refusal keeps its status (403, 409, 422...), except 401: OLM Web's credentials are wrong, not
    the visitor's. Everything else becomes a 502.
    """
    refused = isinstance(error, Refused) and not isinstance(error, Unauthorized)
    return OlmwebError(
        error.message,
        code=error.code,
        status=error.status if refused else 502,
        retryable=error.retryable,
        hint=error.hint,
        fields={cause.field: cause.message for cause in error.causes if cause.field},
    )


def _mark_removed(row: Cluster, *, removed: bool) -> None:
    """Sets or clears the mark. A cluster that answered counts as one never tried; the outage of one
    that did not lasts until it answers again, so that followers of events hear of its end."""
    code = text = hint = ""
    if removed:
        code = NOT_CONFIGURED
        text = REMOVED_TEXT.format(row.name)
        hint = "Name it there again to sync it; until then its last state is shown."
    # In the database, as a watch that ends updates the row, too.
    Cluster.objects.filter(pk=row.pk).update(
        reachable=Case(When(reachable=False, then=False), default=None),
        error_code=code,
        error_text=text,
        error_hint=hint,
        revision=F("revision") + 1,
    )
    row.refresh_from_db()
