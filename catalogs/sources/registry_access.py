"""Access to image registries by the settings, and by the mirrors of the clusters.

A worker reads the mirror objects of a cluster when it pulls an image and READ_AGAIN is over; rows
keep their rules for everything else.
"""

from datetime import timedelta
from pathlib import Path

import msgspec
import structlog
from django.conf import settings
from django.db.models import Q
from django.utils import timezone

from catalogs.models import RegistryMirrors
from catalogs.sources.oci.client import Pace
from catalogs.sources.oci.mirrors import Registries, Rule, digest_rules, read_file, rules_of
from catalogs.sources.oci.source import RegistryAccess
from olmweb.clusters import client_for
from olmweb.kube.client import KubeClient
from olmweb.kube.errors import KubeError, NotFound
from olmweb.kube.resources import MIRROR_SETS
from olmweb.models import Cluster, configured_clusters

log = structlog.get_logger(__name__)
READ_AGAIN = timedelta(minutes=10)


def registry_access(
    *, cluster: Cluster | None = None, named_by_others: bool = False, pace: Pace | None = None
) -> RegistryAccess:
    """Access by the settings and the stored mirrors: those of `cluster`, or of all clusters.

    `named_by_others` as in RegistryAccess; other images without a cluster use no mirrors for tags,
    because a cluster could give another content to what a person typed. One query. Raises
    SourceError for an unreadable OLMWEB_REGISTRIES_CONF.
    """
    rules = stored_rules(cluster)
    return RegistryAccess(
        settings.INSECURE_REGISTRIES,
        settings.REGISTRY_CREDENTIALS,
        named_by_others=named_by_others,
        pace=pace,
        registries=Registries(
            read_file(Path(settings.REGISTRIES_CONF)) if settings.REGISTRIES_CONF else (),
            rules if cluster is not None or named_by_others else digest_rules(rules),
        ),
    )


def stored_rules(cluster: Cluster | None = None) -> tuple[Rule, ...]:
    """The rules of the cluster, or of all clusters, as they were last read."""
    rows = RegistryMirrors.objects.order_by("cluster__name")
    if cluster is not None:
        rows = rows.filter(cluster=cluster)
    values = rows.values_list("rules", flat=True)
    return tuple(rule for rules in values for rule in msgspec.convert(rules, list[Rule]))


def refresh_mirrors() -> None:
    """Reads the mirrors of each configured cluster that was not read for READ_AGAIN: a request for
    each kind. Kinds that the cluster lacks are normal. What can't be read stays as it was, and is
    logged."""
    limit = timezone.now() - READ_AGAIN
    due = Q(registry_mirrors=None) | Q(registry_mirrors__read_at__lt=limit)
    for cluster in Cluster.objects.filter(due, configured_clusters()):
        values: dict[str, object] = {"read_at": timezone.now(), "error": ""}
        try:
            with client_for(cluster, timeout=(3, 10)) as client:
                values["rules"] = _read(client)
        except KubeError as error:
            values["error"] = error.message
            log.warning("mirrors not read", cluster=cluster.name, error=error.message)
        # Another worker may write the row at the same time.
        RegistryMirrors.objects.update_or_create(cluster=cluster, defaults=values)


def _read(client: KubeClient) -> list[dict[str, object]]:
    objects = []
    for resource in MIRROR_SETS:
        try:
            for page in client.list_pages(resource, resource.versions[0]):
                objects += [{**item, "kind": resource.kind} for item in page.items]
        except NotFound:
            continue
    rules: list[dict[str, object]] = msgspec.to_builtins(rules_of(objects))
    return rules
