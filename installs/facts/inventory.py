"""Reads from a cluster what is not watched: kinds, owners of objects, gates, numbers of objects.

At most 15 requests if the API server has aggregated discovery (1.27 and later), six more for
OpenShift's own kinds, and one for each CRD of an installer whose objects may be counted. Runs every
few minutes and not at every change: CRDs, which add kinds, are watched.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import msgspec
import structlog
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from catalogs.verdicts.facts import PLATFORM_NAMESPACE
from installs.diagnosis.catalog_pods import CATALOGD, catalogd_line
from installs.models import Action, ClusterInventory, Component, CRDState
from installs.state.pods import pods_that_wait, selector_text
from olmweb.accounts.roles import AnyUser, impersonation_for
from olmweb.clusters import client_for, require_configured
from olmweb.kube.client import Impersonation, KubeClient
from olmweb.kube.discovery import GVK, served_kinds
from olmweb.kube.errors import Forbidden, KubeError, NotFound, Unauthorized, Unreachable
from olmweb.kube.fields import dig, items, number, text, texts
from olmweb.kube.resources import (
    API_SERVICES,
    CLUSTER_EXTENSIONS,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    DEPLOYMENTS,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    PLATFORM_OPERATORS,
    ROLES,
    SHIPPED_CLUSTER_WIDE,
    SUBSCRIPTIONS,
    VALIDATING_WEBHOOKS,
    Resource,
)
from olmweb.models import Cluster

log = structlog.get_logger(__name__)
READ_AGAIN = timedelta(minutes=5)
MOST_COUNTED = 200  # CRDs
REFUSALS = 3
PATIENCE = timedelta(seconds=60)  # maximum time that verdicts wait for a first reading
CSV = "ClusterServiceVersion"
# What OLM v0 labels with the ClusterServiceVersion that it made it for, and deletes only while it
# runs and the labels agree (operator-lifecycle-manager pkg/lib/ownerutil).
OF_CSVS = (
    VALIDATING_WEBHOOKS,
    MUTATING_WEBHOOKS,
    API_SERVICES,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
)


class _OwnerLabels(msgspec.Struct):
    managed_by: str = msgspec.field(name="app.kubernetes.io/managed-by", default="")
    owner_kind: str = msgspec.field(name="olm.operatorframework.io/owner-kind", default="")
    owner_name: str = msgspec.field(name="olm.operatorframework.io/owner-name", default="")
    v0_kind: str = msgspec.field(name="olm.owner.kind", default="")
    v0_namespace: str = msgspec.field(name="olm.owner.namespace", default="")
    v0_name: str = msgspec.field(name="olm.owner", default="")

    @property
    def of_olm_v0(self) -> bool:
        """Mirrors IsAPIServiceAdoptable of operator-lifecycle-manager
        pkg/controller/install/apiservice.go: all three labels are required."""
        return self.v0_kind == CSV and bool(self.v0_namespace and self.v0_name)


class _Notes(msgspec.Struct):
    release: str = msgspec.field(name="meta.helm.sh/release-name", default="")
    namespace: str = msgspec.field(name="meta.helm.sh/release-namespace", default="")


class _OwnedMeta(msgspec.Struct):
    name: str = ""
    labels: _OwnerLabels | None = None
    annotations: _Notes | None = None

    @property
    def csv(self) -> str:
        """NAMESPACE/NAME of the ClusterServiceVersion that owns the object; empty without one."""
        labels = self.labels
        return f"{labels.v0_namespace}/{labels.v0_name}" if labels and labels.of_olm_v0 else ""

    @property
    def owner(self) -> str:
        """The Helm release that owns the object, as NAMESPACE/NAME; empty without a release.
        ClusterExtension/NAME for objects of operator-controller, not all of which are Helm's.

        Mirrors checkOwnership of helm.sh/helm pkg/action/validate.go.
        """
        notes = self.annotations
        if self.labels is not None and self.labels.owner_kind == CLUSTER_EXTENSIONS.kind:
            return f"{CLUSTER_EXTENSIONS.kind}/{self.labels.owner_name}"
        helm = self.labels is not None and self.labels.managed_by == "Helm"
        return f"{notes.namespace}/{notes.release}" if helm and notes and notes.release else ""


def due_clusters() -> QuerySet[Cluster]:
    """The reachable clusters to read: after READ_AGAIN, and after a removal."""
    removals = Action.objects.filter(
        cluster=OuterRef("cluster"),
        verb__in=(Action.Verb.REMOVE, Action.Verb.CLEAN_UP),
        finished_at__gt=OuterRef("read_at"),
    )
    recent = ClusterInventory.objects.filter(
        ~Exists(removals), cluster=OuterRef("pk"), read_at__gt=timezone.now() - READ_AGAIN
    )
    return Cluster.objects.filter(~Exists(recent), reachable=True)


def is_due(cluster: Cluster) -> bool:
    """Whether it is one of `due_clusters`. One query."""
    return due_clusters().filter(pk=cluster.pk).exists()


def await_first(cluster: Cluster) -> None:
    """Records that the first reading of the cluster is requested, unless it was before."""
    defaults = {"awaited_since": timezone.now(), "read_at": None}
    ClusterInventory.objects.get_or_create(cluster=cluster, defaults=defaults)


def give_up_first(cluster: Cluster) -> bool:
    """Records that the first reading failed. False if no verdict waited for it."""
    waiting = ClusterInventory.objects.filter(cluster=cluster, awaited_since__isnull=False)
    return waiting.update(awaited_since=None) > 0


def awaited() -> Q:
    """Selects clusters whose first reading is still expected. Only the reading has the owners of
    existing objects, so verdicts without it would change a moment later."""
    since = timezone.now() - PATIENCE
    return Q(inventory=None, reachable=True) | Q(inventory__awaited_since__gt=since)


def read_inventory(cluster: Cluster, client: KubeClient | None = None) -> bool:
    """Reads the cluster and updates its ClusterInventory; returns whether a value changed.

    The findings of ClusterExtensions name what is wrong with catalogd: when that changes, the next
    sync derives the columns of all rows again. Raises KubeError if the cluster can't be read. Keeps
    the stored kinds without a discovery result.
    """
    with nullcontext(client) if client else client_for(cluster) as opened:
        kinds = served_kinds(opened)
        # Without a result any kind may be served.
        groups = None if kinds is None else {group for group, *_ in kinds}
        platform = groups is None or PLATFORM_OPERATORS.group in groups
        v1 = groups is None or CLUSTER_EXTENSIONS.group in groups
        v0 = kinds is None or (SUBSCRIPTIONS.group, CSV) in {
            (group, kind) for group, _, kind in kinds
        }
        namespaces = _owners(opened, NAMESPACES)
        values: dict[str, Any] = {
            "namespaces": None if namespaces is None else sorted(namespaces),
            "releases": {name: owner for name, owner in (namespaces or {}).items() if owner},
            "roles": _owners(opened, ROLES, PLATFORM_NAMESPACE) if platform else None,
            "shared": _shared(opened, kinds) if platform or v1 else None,
            "gates": read_gates(opened) if v1 else None,
            "catalogd": read_catalogd(opened) if v1 else None,
            "foreign_apis": _foreign_apis(opened) if v0 else None,
            "instances": _instances(opened, cluster) if v0 else {},
            "orphans": _orphans(opened, cluster) if v0 else None,
        }
    before = ClusterInventory.objects.filter(cluster=cluster).first() or ClusterInventory()
    values["kinds"] = before.kinds if kinds is None else sorted("/".join(kind) for kind in kinds)
    changed = any(getattr(before, name) != value for name, value in values.items())
    values |= {"awaited_since": None, "read_at": timezone.now()}
    ClusterInventory.objects.update_or_create(cluster=cluster, defaults=values)
    if catalogd_line(before.catalogd or {}) != catalogd_line(values["catalogd"] or {}):
        Cluster.objects.filter(pk=cluster.pk).update(assessed="")
    return changed or before.awaited_since is not None


def _foreign_apis(client: KubeClient) -> list[str] | None:
    """APIServices without a ClusterServiceVersion as owner; None if they may not be listed.

    A cluster that does not serve the kind has none.
    """
    names: set[str] = set()
    try:
        for page in client.list_metadata(API_SERVICES, "v1", _OwnedMeta):
            names = set() if page.restart else names
            names |= {
                service.name
                for service in page.items
                if not (service.labels and service.labels.of_olm_v0)
            }
    except NotFound:
        return []
    except Forbidden as error:
        log.info("not read", cluster=client.name, kind=API_SERVICES.kind, error=error.message)
        return None
    return sorted(names)


def _orphans(client: KubeClient, cluster: Cluster) -> dict[str, dict[str, str]]:
    """The objects of OF_CSVS whose ClusterServiceVersion is not stored. Omits kinds that may not be
    listed."""
    rows = Component.objects.filter(cluster=cluster, kind=CSV)
    present = {f"{namespace}/{name}" for namespace, name in rows.values_list("namespace", "name")}
    orphans: dict[str, dict[str, str]] = {}
    for resource in OF_CSVS:
        try:
            pages = client.list_metadata(
                resource, "v1", _OwnedMeta, label_selector="olm.owner,olm.owner.kind"
            )
            owners: dict[str, str] = {}
            for page in pages:
                owners = {} if page.restart else owners
                owners |= {item.name: item.csv for item in page.items if item.csv}
        except (Forbidden, NotFound) as error:
            log.info("not read", cluster=client.name, kind=resource.kind, error=error.message)
            continue
        orphans[resource.kind] = {
            name: csv for name, csv in sorted(owners.items()) if csv not in present
        }
    return {kind: objects for kind, objects in orphans.items() if objects}


def _instances(client: KubeClient, cluster: Cluster) -> dict[str, int]:
    """The number of objects of each CRD of an installer, one request per CRD. Stops after REFUSALS
    forbidden requests in a row."""
    counts: dict[str, int] = {}
    refused, failed = 0, ""
    crds = CRDState.objects.filter(cluster=cluster).exclude(owner_name="").order_by("name")
    for crd in crds.only("name", "group", "served_kind", "served")[:MOST_COUNTED]:
        if refused == REFUSALS:
            break
        if not crd.served:
            continue
        try:
            counts[crd.name] = _count(client, crd)
            refused = 0
        except Forbidden as error:
            refused, failed = refused + 1, error.message
        except NotFound:
            continue  # the CRD was deleted after its row was written
        except KubeError as error:
            failed = error.message
            if isinstance(error, Unreachable):
                break
    if failed:
        log.info("not all objects counted", cluster=client.name, error=failed)
    return counts


def _shared(client: KubeClient, served: frozenset[GVK] | None) -> dict[str, dict[str, str]]:
    """Kind -> name -> owner of the cluster-scoped objects that a bundle may contain, without CRDs,
    which are watched. Omits kinds that may not be listed or are not known to be served."""
    resources = [
        (resource, resource.versions[0]) for resource in (CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS)
    ]
    for resource in SHIPPED_CLUSTER_WIDE:
        served_versions = [
            version
            for version in resource.versions
            if (resource.group, version, resource.kind) in (served or ())
        ]
        resources += [(resource, version) for version in served_versions[:1]]
    owners_by_kind = {
        resource.kind: _owners(client, resource, version=version) for resource, version in resources
    }
    return {kind: owners for kind, owners in owners_by_kind.items() if owners is not None}


def _owners(
    client: KubeClient, resource: Resource, namespace: str = "", version: str = "v1"
) -> dict[str, str] | None:
    """Name -> owner; None if the objects can't be listed: no rule then applies to them."""
    owners: dict[str, str] = {}
    try:
        for page in client.list_metadata(resource, version, _OwnedMeta, namespace=namespace):
            owners = {} if page.restart else owners
            owners |= {item.name: item.owner for item in page.items}
    except (Forbidden, NotFound) as error:
        log.info("not read", cluster=client.name, kind=resource.kind, error=error.message)
        return None
    return owners


# -- feature gates ---------------------------------------------------------------------------------

# In every release, whatever its namespace: olmv1-system, openshift-operator-controller.
NAME = "operator-controller-controller-manager"
FLAG = "--feature-gates"
ON = frozenset(("1", "t", "T", "TRUE", "true", "True"))  # of Go's strconv.ParseBool


def read_gates(client: KubeClient) -> dict[str, bool] | None:
    """Gate -> whether it is on, for the gates that the arguments name. None if the Deployment is
    missing, ambiguous or may not be read. Raises KubeError."""
    named = _deployments_named(client, NAME)
    return gates_of(named[0]) if named and len(named) == 1 else None


def _deployments_named(client: KubeClient, name: str) -> list[dict[str, Any]] | None:
    """The Deployments of this name in all namespaces; None if they may not be listed."""
    try:
        pages = list(client.list_pages(DEPLOYMENTS, "v1", field_selector=f"metadata.name={name}"))
    except (Forbidden, NotFound) as error:
        log.info("deployment not read", cluster=client.name, name=name, error=error.message)
        return None
    deployments = [deployment for page in pages for deployment in page.items]
    return [item for item in deployments if text(item, "metadata", "name") == name]


def gates_of(deployment: dict[str, Any]) -> dict[str, bool]:
    """The gates in the arguments of the containers; the last value of a repeated gate."""
    gates: dict[str, bool] = {}
    for container in items(dig(deployment, "spec", "template", "spec"), "containers"):
        words = iter((*texts(container, "command"), *texts(container, "args")))
        for word in words:
            flag, equals, value = word.partition("=")
            if flag != FLAG:
                continue
            for pair in (value if equals else next(words, "")).split(","):
                name, separator, on = pair.partition("=")
                if separator:
                    gates[name.strip()] = on.strip() in ON
    return gates


# -- catalogd --------------------------------------------------------------------------------------


def read_catalogd(client: KubeClient) -> dict[str, Any] | None:
    """The Deployment that serves ClusterCatalogs: `namespace`, `replicas`, `available`, and while
    it is not available its pods as installs.state.pods stores them. Empty if there is not exactly
    one, None if it may not be read. Raises KubeError."""
    named = _deployments_named(client, CATALOGD)
    if named is None or len(named) != 1:
        return None if named is None else {}
    namespace = text(named[0], "metadata", "namespace", limit=63)
    catalogd: dict[str, Any] = {
        "namespace": namespace,
        "replicas": number(named[0], "spec", "replicas", default=1),
        "available": number(named[0], "status", "availableReplicas"),
    }
    selector = selector_text(dig(named[0], "spec", "selector"))
    if selector and catalogd["available"] < max(catalogd["replicas"], 1):
        try:
            catalogd |= pods_that_wait(client, namespace, selector)
        except (Forbidden, NotFound) as error:
            log.info("pods not read", cluster=client.name, error=error.message)
    return catalogd


# -- objects that a removal deletes ----------------------------------------------------------------

MOST = 40  # kinds that are counted
TIMEOUT = (5.0, 5.0)


@dataclass(frozen=True, slots=True)
class Counted:
    """The objects of a definition, `name` as PLURAL.GROUP; `count` None with the reason `why`."""

    name: str
    kind: str
    count: int | None = None
    why: str = ""


def count_instances(
    cluster: Cluster, definitions: Sequence[CRDState], user: AnyUser
) -> list[Counted]:
    """Counts the objects that a removal deletes, in requests as the person who removes.

    One request per definition, in their order. Returns errors of the cluster; raises OlmwebError
    (409) for a removed one. The numbers are not stored: verdicts depend on the counts that OLM
    Web's own account may read.
    """
    require_configured(cluster)
    identity = impersonation_for(user)
    counted: list[Counted] = []
    silent = ""  # why the cluster did not answer: no further requests
    with client_for(cluster, timeout=TIMEOUT) as client:
        for number, definition in enumerate(definitions):
            count, why = None, silent
            if not why and number >= MOST:
                why = f"Only the first {MOST} kinds are counted."
            elif not why and not definition.served:
                why = "No version of it is served."
            elif not why:
                try:
                    count = _count(client, definition, identity)
                except NotFound:
                    why = (
                        "The cluster does not serve this kind (not yet or no longer), so its "
                        "objects can't be counted."
                    )
                except KubeError as error:
                    why = error.message
                    silent = why if isinstance(error, Unreachable | Unauthorized) else ""
            counted.append(Counted(definition.name, definition.served_kind, count, why))
    return counted


def _count(client: KubeClient, crd: CRDState, identity: Impersonation | None = None) -> int:
    version = crd.served[-1]
    resource = Resource(crd.group, (version,), crd.name.partition(".")[0], crd.served_kind)
    return client.count_objects(resource, version, as_user=identity)
