"""Reads what a cluster serves and what is in the way of installs, for the predictions. No rules.

Nine requests at most where the API server tells all groups at once (from 1.27 on), six more on
OpenShift for kinds of its own; and one for each CRD that an installer made, where their objects may
be counted. It is asked every few minutes and not at every change: what a CRD
adds is known from the CRDs, which are watched.
"""

from datetime import timedelta

import msgspec
import structlog
from django.db.models import Q
from django.utils import timezone

from catalogs.verdicts.facts import PLATFORM_NAMESPACE
from installs.facts.gates import read_gates
from installs.models import CRDState, Surface
from olmweb.clusters import client_for
from olmweb.kube.client import KubeClient
from olmweb.kube.discovery import GVK, served_kinds
from olmweb.kube.errors import Forbidden, KubeError, NotFound, Unreachable
from olmweb.kube.resources import (
    API_SERVICES,
    CLUSTER_EXTENSIONS,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    NAMESPACES,
    PLATFORM_OPERATORS,
    ROLES,
    SHIPPED_CLUSTER_WIDE,
    SUBSCRIPTIONS,
    Resource,
)
from olmweb.models import Cluster

log = structlog.get_logger(__name__)
READ_AGAIN = timedelta(minutes=5)
MOST_COUNTED = 200  # CRDs
REFUSALS = 3
PATIENCE = timedelta(seconds=60)  # how long predictions wait for a first reading at most
CSV = "ClusterServiceVersion"


class _Labels(msgspec.Struct):
    managed_by: str = msgspec.field(name="app.kubernetes.io/managed-by", default="")
    owner_kind: str = msgspec.field(name="olm.operatorframework.io/owner-kind", default="")
    owner_name: str = msgspec.field(name="olm.operatorframework.io/owner-name", default="")
    v0_kind: str = msgspec.field(name="olm.owner.kind", default="")
    v0_namespace: str = msgspec.field(name="olm.owner.namespace", default="")
    v0_name: str = msgspec.field(name="olm.owner", default="")

    @property
    def of_olm_v0(self) -> bool:
        """Mirrors IsAPIServiceAdoptable of operator-lifecycle-manager
        pkg/controller/install/apiservice.go: without all three it is nobody's."""
        return self.v0_kind == CSV and bool(self.v0_namespace and self.v0_name)


class _Notes(msgspec.Struct):
    release: str = msgspec.field(name="meta.helm.sh/release-name", default="")
    namespace: str = msgspec.field(name="meta.helm.sh/release-namespace", default="")


class _Meta(msgspec.Struct):
    name: str = ""
    labels: _Labels | None = None
    annotations: _Notes | None = None

    @property
    def owner(self) -> str:
        """The Helm release that owns it, as NAMESPACE/NAME; empty where Helm would see none. What
        operator-controller made is ClusterExtension/NAME: not all of it is Helm's.

        Mirrors checkOwnership of helm.sh/helm pkg/action/validate.go.
        """
        notes = self.annotations
        if self.labels is not None and self.labels.owner_kind == CLUSTER_EXTENSIONS.kind:
            return f"{CLUSTER_EXTENSIONS.kind}/{self.labels.owner_name}"
        helm = self.labels is not None and self.labels.managed_by == "Helm"
        return f"{notes.namespace}/{notes.release}" if helm and notes and notes.release else ""


def is_due(cluster: Cluster) -> bool:
    """Whether to read the cluster's surface again; one query."""
    fresh = Surface.objects.filter(cluster=cluster, read_at__gt=timezone.now() - READ_AGAIN)
    return cluster.reachable is True and not fresh.exists()


def await_first(cluster: Cluster) -> None:
    """Notes that the cluster's first reading is asked for, unless one was before."""
    told = {"awaited_since": timezone.now(), "read_at": None}
    Surface.objects.get_or_create(cluster=cluster, defaults=told)


def give_up_first(cluster: Cluster) -> bool:
    """Notes that the first reading failed: nobody waits for it. False where nobody did."""
    waiting = Surface.objects.filter(cluster=cluster, awaited_since__isnull=False)
    return waiting.update(awaited_since=None) > 0


def awaited() -> Q:
    """Of clusters: those whose first reading may still come. What owns what is already there is
    known from it alone, so that verdicts without it would be others a moment later."""
    since = timezone.now() - PATIENCE
    return Q(surface=None, reachable=True) | Q(surface__awaited_since__gt=since)


def read_surface(cluster: Cluster, client: KubeClient | None = None) -> bool:
    """Brings the Surface row to what the cluster says; whether anything of it is new.

    Raises KubeError when it can't be asked. What it does not tell now keeps its last answer.
    """
    opened = client or client_for(cluster)
    try:
        found = served_kinds(opened)
        namespaces = _owners(opened, NAMESPACES)
        platform = found is None or any(group == PLATFORM_OPERATORS.group for group, *_ in found)
        roles = _owners(opened, ROLES, PLATFORM_NAMESPACE) if platform else None
        extensions = found is None or any(group == CLUSTER_EXTENSIONS.group for group, *_ in found)
        shared = _shared(opened, found) if platform or extensions else None
        gates = read_gates(opened) if extensions else None
        v0 = found is None or any(
            (group, kind) == (SUBSCRIPTIONS.group, CSV) for group, _, kind in found
        )
        foreign = _foreign_apis(opened) if v0 else None
        instances = _instances(opened, cluster) if v0 else {}
    finally:
        if client is None:
            opened.close()
    before = Surface.objects.filter(cluster=cluster).first() or Surface(cluster=cluster)
    told = {
        "kinds": before.kinds if found is None else sorted("/".join(each) for each in found),
        "namespaces": None if namespaces is None else sorted(namespaces),
        "releases": {name: owner for name, owner in (namespaces or {}).items() if owner},
        "roles": roles,
        "shared": shared,
        "foreign_apis": foreign,
        "instances": instances,
        "gates": gates,
    }
    changed = any(getattr(before, name) != value for name, value in told.items())
    changed = changed or before.awaited_since is not None
    ended = {"awaited_since": None, "read_at": timezone.now()}
    Surface.objects.update_or_create(cluster=cluster, defaults={**told, **ended})
    return changed


def _foreign_apis(client: KubeClient) -> list[str] | None:
    """APIServices that no ClusterServiceVersion made; None when we may not list them."""
    found: set[str] = set()
    try:
        for page in client.list_metadata(API_SERVICES, "v1", _Meta):
            found = set() if page.restart else found
            found |= {one.name for one in page.items if not (one.labels and one.labels.of_olm_v0)}
    except (Forbidden, NotFound) as error:
        log.info("not read", cluster=client.name, kind=API_SERVICES.kind, error=error.message)
        return None
    return sorted(found)


def _instances(client: KubeClient, cluster: Cluster) -> dict[str, int]:
    """How many objects there are of each CRD that an installer made, in a request each. Where a few
    may not be listed in a row we are not meant to, and the rest is not asked for."""
    found: dict[str, int] = {}
    refused, failed = 0, ""
    crds = CRDState.objects.filter(cluster=cluster).exclude(owner_name="").order_by("name")
    for one in crds.only("name", "group", "served_kind", "served")[:MOST_COUNTED]:
        if refused == REFUSALS:
            break
        if not one.served:
            continue
        version = one.served[-1]
        resource = Resource(one.group, (version,), one.name.partition(".")[0], one.served_kind)
        try:
            found[one.name] = client.count_objects(resource, version)
            refused = 0
        except Forbidden as error:
            refused, failed = refused + 1, error.message
        except NotFound:
            continue  # its row is older than the answer
        except KubeError as error:
            failed = error.message
            if isinstance(error, Unreachable):
                break
    if failed:
        log.info("not all objects counted", cluster=client.name, error=failed)
    return found


def _shared(client: KubeClient, served: frozenset[GVK] | None) -> dict[str, dict[str, str]]:
    """By kind, what a bundle may bring that has one name in the whole cluster; CRDs are watched.
    Kinds that we may not list are left out, and those of which it is not known that they are
    served."""
    asked = [(each, each.versions[0]) for each in (CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS)]
    for each in SHIPPED_CLUSTER_WIDE:
        known = [one for one in each.versions if (each.group, one, each.kind) in (served or ())]
        asked += [(each, version) for version in known[:1]]
    found = {each.kind: _owners(client, each, version=version) for each, version in asked}
    return {kind: owners for kind, owners in found.items() if owners is not None}


def _owners(
    client: KubeClient, resource: Resource, namespace: str = "", version: str = "v1"
) -> dict[str, str] | None:
    """Name -> owner; None when we can't list them: the rules then say nothing of them."""
    found: dict[str, str] = {}
    try:
        for page in client.list_metadata(resource, version, _Meta, namespace=namespace):
            found = {} if page.restart else found
            found |= {each.name: each.owner for each in page.items}
    except (Forbidden, NotFound) as error:
        log.info("not read", cluster=client.name, kind=resource.kind, error=error.message)
        return None
    return found
