"""Reads what a cluster serves and which namespaces it has, for the predictions. No rule is here.

Three requests where the API server tells all groups at once (from 1.27 on). It is asked every few
minutes and not at every change: what a CRD adds is known from the CRDs, which are watched.
"""

from collections.abc import Sequence
from datetime import timedelta

import msgspec
import structlog
from django.utils import timezone

from installs.models import Surface
from olmweb.clusters import client_for
from olmweb.kube.client import KubeClient
from olmweb.kube.discovery import served_kinds
from olmweb.kube.errors import Forbidden
from olmweb.kube.metadata import metadata_pages
from olmweb.kube.resources import NAMESPACES
from olmweb.models import Cluster

log = structlog.get_logger(__name__)
READ_AGAIN = timedelta(minutes=5)


class _Meta(msgspec.Struct):
    name: str = ""


def is_due(cluster: Cluster) -> bool:
    """Whether to read the cluster's surface again; one query."""
    fresh = Surface.objects.filter(cluster=cluster, read_at__gt=timezone.now() - READ_AGAIN)
    return cluster.reachable is True and not fresh.exists()


def read_surface(cluster: Cluster, client: KubeClient | None = None) -> bool:
    """Brings the Surface row to what the cluster says; whether anything of it is new.

    Raises KubeError when it can't be asked. What it does not tell now keeps its last answer.
    """
    opened = client or client_for(cluster)
    try:
        found = served_kinds(opened)
        namespaces = _namespaces(opened)
    finally:
        if client is None:
            opened.close()
    before = Surface.objects.filter(cluster=cluster).first() or Surface(cluster=cluster)
    kinds = before.kinds if found is None else sorted("/".join(each) for each in found)
    changed = (before.kinds, before.namespaces) != (kinds, namespaces)
    Surface.objects.update_or_create(
        cluster=cluster,
        defaults={"kinds": kinds, "namespaces": namespaces, "read_at": timezone.now()},
    )
    return changed


def _namespaces(client: KubeClient) -> Sequence[str] | None:
    """None when we may not list them: the rules then say nothing of them."""
    names: set[str] = set()
    try:
        for page in metadata_pages(client, NAMESPACES, "v1", _Meta):
            names = set() if page.restart else names
            names |= {each.name for each in page.items}
    except Forbidden as error:
        log.info("namespaces not read", cluster=client.name, error=error.message)
        return None
    return sorted(names)
