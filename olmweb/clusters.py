"""The clusters that settings name: their rows, their clients, when to ask them again.

The Django side of olmweb.kube: the only place that turns a Cluster row into a connection.
"""

import re
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from functools import partial

from django.conf import settings

from olmweb.errors import Missing, OlmwebError
from olmweb.kube.client import KubeClient
from olmweb.kube.errors import KubeError, Refused, Unauthorized
from olmweb.kube.session import open_client
from olmweb.models import LOCAL, Cluster
from olmweb.runtime import request_counts

NOT_CONFIGURED = "not-configured"
BACKOFF_LIMIT = timedelta(seconds=20)  # a cluster that is back is seen within half a minute
WATCHED_AT_ONCE = 16  # clusters, by an embedded worker; more than these take turns

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@:-]{0,99}")


def client_for(
    cluster: Cluster,
    *,
    timeout: tuple[float, float] = (5, 30),
    abandon: Callable[[], bool] = lambda: False,
) -> KubeClient:
    """A client of this cluster, for a `with` statement. No request is made. Raises ConfigError.

    `timeout` is (connect, read) in seconds; shorter where a person waits for the answer. What it
    sends is counted when it is closed, or by `tell_counts`. `abandon` as of KubeClient.
    """
    return open_client(
        cluster.context,
        settings.KUBECONFIG,
        name=cluster.name,
        timeout=timeout,
        abandon=abandon,
        on_counts=partial(request_counts.add, cluster.name),
    )


def get_cluster(name: str, rows: Iterable[Cluster] | None = None) -> Cluster:
    """The cluster of that name, out of `rows` when they are read already. Raises Missing."""
    if rows is None:
        cluster = Cluster.objects.filter(name=name).first()
    else:
        cluster = next((row for row in rows if row.name == name), None)
    if cluster is None:
        names = ", ".join(Cluster.objects.order_by("name").values_list("name", flat=True))
        raise Missing(
            f"There is no cluster {name[:100]}.",
            code="unknown-cluster",
            hint=f"Known clusters: {names or 'none'}.",
        )
    return cluster


def configured() -> list[Cluster]:
    """Rows of the clusters in OLMWEB_CLUSTERS, made or corrected where needed, in its order.

    An entry is `name=context`, `name=in-cluster`, `in-cluster`, or a context that serves as its own
    name. A row whose cluster is no longer named stays, marked so: its history is still of use.
    Raises OlmwebError for an entry that can't be used.
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
        if name not in wanted and row.error_code != NOT_CONFIGURED:
            _mark_forgotten(row)
    return [rows[name] for name in wanted]


def parse_entries(entries: list[str]) -> dict[str, str]:
    """Cluster name -> context of each entry. Raises OlmwebError naming the entry that is wrong."""
    wanted: dict[str, str] = {}
    for entry in entries:
        name, _, context = entry.partition("=")
        name, context = name.strip(), context.strip() or name.strip()
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
    """Whether to ask this cluster again.

    A reachable one always; one that failed after as long again as it had been failing, at least a
    state poll and at most BACKOFF_LIMIT: each wait doubles without a counter being kept.
    """
    if cluster.unreachable_since is None or cluster.checked_at is None:
        return True
    failing_for = cluster.checked_at - cluster.unreachable_since
    # A little less than the poll, or a tick that comes a moment early would skip every other one.
    shortest = timedelta(seconds=settings.STATE_POLL * 0.9)
    return now - cluster.checked_at >= min(max(failing_for, shortest), BACKOFF_LIMIT)


def as_olmweb_error(error: KubeError) -> OlmwebError:
    """The same sentence as the error that pages and the API show.

    What the cluster refuses keeps its status (403, 409, 422...), except 401: our credentials are
    wrong, not the visitor's. Everything else is a 502, the cluster's fault.
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


def _mark_forgotten(row: Cluster) -> None:
    row.reachable = False
    row.error_code = NOT_CONFIGURED
    row.error_text = f"Cluster {row.name} is no longer named in OLMWEB_CLUSTERS."
    row.error_hint = "Name it again to go on reading it, or delete it in the admin pages."
    row.revision += 1
    row.save(update_fields=["reachable", "error_code", "error_text", "error_hint", "revision"])
