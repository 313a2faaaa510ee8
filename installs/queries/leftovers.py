"""Finds what removed operators left on clusters, and the order in which it can be deleted.

CustomResourceDefinitions and OperatorGroups are watched; webhooks, APIServices and ClusterRoles are
read every few minutes (installs.facts.inventory); copied ClusterServiceVersions are known from the
last report of copies. An object is left behind if the operator that its labels name is not stored.
"""

import shlex
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from catalogs.install_methods import InstallMethod
from catalogs.verdicts.facts import PLATFORM_NAMESPACE
from installs.diagnosis.approvals import listing
from installs.models import (
    ClusterInventory,
    Component,
    CopyReport,
    CRDState,
    Operator,
    Transition,
)
from installs.state.dependencies import noted_package
from installs.state.history import OBJECT
from installs.state.listing import FAILED, FORBIDDEN
from olmweb.kube.fields import items, number, text
from olmweb.kube.resources import (
    API_SERVICES,
    CLUSTER_EXTENSIONS,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CLUSTER_SERVICE_VERSIONS,
    CUSTOM_RESOURCE_DEFINITIONS,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    OPERATOR_GROUPS,
    VALIDATING_WEBHOOKS,
)
from olmweb.models import Cluster

CRD, CSV = CUSTOM_RESOURCE_DEFINITIONS.kind, CLUSTER_SERVICE_VERSIONS.kind
GROUP, NAMESPACE = OPERATOR_GROUPS.kind, NAMESPACES.kind
WEBHOOKS = (VALIDATING_WEBHOOKS.kind, MUTATING_WEBHOOKS.kind)
# The kinds in the order of deletion: first what breaks other requests, last what holds the rest.
ORDER = (
    *WEBHOOKS,
    API_SERVICES.kind,
    CRD,
    CLUSTER_ROLE_BINDINGS.kind,
    CLUSTER_ROLES.kind,
    CSV,
    GROUP,
    NAMESPACE,
)
# The kinds that are not watched, as pages name them.
READ = (
    (VALIDATING_WEBHOOKS, "validating webhooks"),
    (MUTATING_WEBHOOKS, "mutating webhooks"),
    (API_SERVICES, "APIServices"),
    (CLUSTER_ROLES, "ClusterRoles"),
    (CLUSTER_ROLE_BINDINGS, "ClusterRoleBindings"),
)
LABEL_LIMIT = 63  # of the name part of a label key
# Namespaces whose OperatorGroup belongs to the platform: it is there for operators to come.
SHARED_NAMESPACES = frozenset({"operators", "openshift-operators", "olm", "default"})
# Where rukpak stores the Helm releases of BundleDeployments: OpenShift's and upstream's.
RUKPAK_NAMESPACES = frozenset({PLATFORM_NAMESPACE, "rukpak-system"})
PLATFORM_PREFIXES = ("openshift-", "kube-")
NO_CONVERSION = '{"spec":{"conversion":{"strategy":"None","webhook":null}}}'


@dataclass(frozen=True, slots=True)
class Leftover:
    """An object of a removed operator. `objects` is the number of the custom resources of a CRD or
    of the copies of a ClusterServiceVersion, None if unknown; `converts`: the CRD names a
    conversion webhook."""

    kind: str
    name: str
    namespace: str = ""
    objects: int | None = None
    converts: bool = False

    @property
    def label(self) -> str:
        """Identifies it among the leftovers of a cluster: `OperatorGroup apps/group`."""
        return f"{self.kind} {f'{self.namespace}/' if self.namespace else ''}{self.name}"


@dataclass(frozen=True, slots=True)
class Remaining:
    """A Subscription in the namespace of a removed one, for which its OperatorGroup and the
    namespace stay. `is_dependency`: OLM v0 generated it for a dependency."""

    name: str
    package: str
    is_dependency: bool


@dataclass(frozen=True, slots=True)
class RemovedOwner:
    """An operator that no longer exists, with its leftovers in the order of deletion.

    `kind` is that of its object. `name` is the package for a Subscription. `read_at`: when
    webhooks, APIServices and ClusterRoles of the cluster were read last; `unserved` are those kinds
    of READ that the cluster did not serve then. `remaining` is empty for other kinds than a
    Subscription. `note` says whose dependency it was, empty if it was none or its removal was not
    observed.
    """

    cluster: str
    kind: str
    namespace: str
    name: str
    leftovers: tuple[Leftover, ...]
    read_at: datetime | None
    unserved: tuple[str, ...] = ()
    remaining: tuple[Remaining, ...] = ()
    note: str = ""

    @property
    def included(self) -> str:
        """The kinds of READ that the leftovers include, in words."""
        return listing([words for _, words in READ if words not in self.unserved])

    @property
    def not_served(self) -> str:
        return listing(self.unserved)

    def names(self, *kinds: str) -> list[str]:
        return [row.name for row in self.leftovers if row.kind in kinds]

    @property
    def all_names(self) -> list[str]:
        return [row.name for row in self.leftovers]

    @property
    def steps(self) -> tuple[str, ...]:
        """The deletion in an order that works."""
        return tuple(_steps(self))


@dataclass(slots=True)
class _Present:
    """The operators of a cluster that exist. `labels` are the names of the labels that OLM v0 puts
    on objects of a package: PACKAGE.NAMESPACE, cut."""

    csvs: set[str] = field(default_factory=set)
    labels: set[str] = field(default_factory=set)
    namespaces: set[str] = field(default_factory=set)
    subscriptions: dict[str, list[Remaining]] = field(default_factory=lambda: defaultdict(list))
    owned_crds: set[str] = field(default_factory=set)
    extensions: set[str] = field(default_factory=set)
    deployments: set[str] = field(default_factory=set)

    def add_package(self, package: str, namespace: str) -> None:
        self.labels.add(package_label(package, namespace))


def package_label(package: str, namespace: str) -> str:
    """The owner that OLM's label names on the objects of the package in this namespace."""
    return f"{package}.{namespace}"[:LABEL_LIMIT].rstrip("-._")


def removed_owners(clusters: Sequence[Cluster]) -> list[RemovedOwner]:
    """The removed operators with leftovers, by cluster, namespace and name; six queries, and two
    more if there are any.

    Omits clusters whose operators were not read completely, as everything would be left behind.
    """
    readable = {cluster.pk: cluster for cluster in clusters if is_read(cluster)}
    components = list(
        Component.objects.filter(
            cluster__in=readable, kind__in=(CSV, "BundleDeployment", GROUP)
        ).values_list(
            "cluster", "kind", "namespace", "name", "details__package", "details__owned_crds"
        )
    )
    present = _present(readable, components)
    by_owner: dict[tuple[int, str, str, str], list[Leftover]] = defaultdict(list)
    inventories = {
        row.cluster_id: row
        for row in ClusterInventory.objects.filter(cluster__in=readable).defer("kinds", "roles")
    }
    crds = CRDState.objects.filter(cluster__in=readable).exclude(owner_name="")
    for crd in crds.defer("conditions", "facts"):
        if owner := _crd_owner(crd, present[crd.cluster_id]):
            inventory = inventories.get(crd.cluster_id)
            counts = inventory.instances if inventory else {}
            converts = bool(text(crd.details, "conversion", "name"))
            row = Leftover(CRD, crd.name, objects=counts.get(crd.name), converts=converts)
            by_owner[crd.cluster_id, *owner].append(row)
    for key, inventory in inventories.items():
        for owner, row in _cluster_scoped(inventory, present[key]):
            by_owner[key, *_package_of(by_owner, key, owner)].append(row)
    for key, owner, row in _copies(readable, present):
        by_owner[key, *_package_of(by_owner, key, owner)].append(row)
    for key, component, namespace, name, *_ in components:
        if component != GROUP or namespace in {*present[key].namespaces, *SHARED_NAMESPACES}:
            continue
        rows = [Leftover(GROUP, name, namespace)]
        if not namespace.startswith(PLATFORM_PREFIXES):
            rows.append(Leftover(NAMESPACE, namespace))
        by_owner[key, *_owner_in(by_owner, key, namespace)].extend(rows)
    unserved = _unserved({key for key, *_ in by_owner})
    notes = _dependency_notes(by_owner)
    return [
        RemovedOwner(
            readable[key].name, kind, namespace, name, tuple(sorted(rows, key=_position)),
            inventories[key].read_at if key in inventories else None,
            unserved.get(key, ()),
            _remaining(present[key], kind, namespace),
            notes.get((key, kind, namespace, name), ""),
        )
        for (key, kind, namespace, name), rows in sorted(
            by_owner.items(), key=lambda item: (readable[item[0][0]].name, *item[0][2:], item[0][1])
        )
    ]  # fmt: skip


def _remaining(present: _Present, kind: str, namespace: str) -> tuple[Remaining, ...]:
    """None in namespaces that are there for operators to come."""
    if kind != InstallMethod.SUBSCRIPTION or namespace in SHARED_NAMESPACES:
        return ()
    return tuple(sorted(present.subscriptions.get(namespace, ()), key=lambda row: row.name))


def _dependency_notes(
    owners: Iterable[tuple[int, str, str, str]],
) -> dict[tuple[int, str, str, str], str]:
    """(cluster id, kind, namespace, package) of a removed Subscription -> the newest note on its
    removal that says whose dependency it was (installs.state.dependencies); one query."""
    subscribed = [owner for owner in owners if owner[1] == InstallMethod.SUBSCRIPTION]
    if not subscribed:
        return {}
    rows = Transition.objects.filter(
        cluster__in={key for key, *_ in subscribed},
        kind=InstallMethod.SUBSCRIPTION,
        namespace__in={namespace for _, _, namespace, _ in subscribed},
        type=OBJECT,
        to_status="deleted",
    ).exclude(message="")
    fields = ("cluster", "kind", "namespace", "message")
    return {
        (key, kind, namespace, noted_package(note)): note
        for key, kind, namespace, note in rows.order_by("at", "pk").values_list(*fields)
    }


def _unserved(clusters: Collection[int]) -> dict[int, tuple[str, ...]]:
    """Cluster id -> the kinds of READ that it does not serve, in words; one query."""
    if not clusters:
        return {}
    rows = ClusterInventory.objects.filter(cluster__in=clusters, kinds__isnull=False)
    unserved = {}
    for cluster, kinds in rows.values_list("cluster", "kinds"):
        served = {(group, kind) for group, _, kind in (name.split("/") for name in kinds or ())}
        unserved[cluster] = tuple(
            words for resource, words in READ if (resource.group, resource.kind) not in served
        )
    return unserved


def removed_owner(cluster: Cluster, kind: str, namespace: str, name: str) -> RemovedOwner | None:
    """One removed operator with its leftovers; None if it has none. Queries as removed_owners."""
    owners = removed_owners([cluster])
    wanted = (kind, namespace, name)
    return next((row for row in owners if (row.kind, row.namespace, row.name) == wanted), None)


def leftovers_of(
    cluster: Cluster, kind: str, namespace: str, name: str, package: str
) -> list[RemovedOwner]:
    """Those of one removed operator, and of its namespace; queries as removed_owners.

    `name` is that of its object; for a Subscription `package` or else `name` is looked for.
    """
    wanted = package or name if kind == InstallMethod.SUBSCRIPTION else name

    def belongs(owner: RemovedOwner) -> bool:
        if owner.kind == NAMESPACE:
            return bool(namespace) and owner.namespace == namespace
        if owner.kind == CSV:
            return owner.namespace == namespace and owner.name.startswith((name, f"{wanted}."))
        return (owner.kind, owner.namespace, owner.name) == (kind, namespace, wanted)

    return [owner for owner in removed_owners([cluster]) if belongs(owner)]


def _position(row: Leftover) -> tuple[int, str, str]:
    return ORDER.index(row.kind) if row.kind in ORDER else len(ORDER), row.kind, row.name


def is_read(cluster: Cluster) -> bool:
    """Whether the operators of the cluster are known: an unreadable kind looks like a removed
    one."""
    kinds = (*InstallMethod, CSV)
    states = [cluster.kinds.get(kind, {}).get("state", "") for kind in kinds]
    return cluster.synced_at is not None and not any(
        state in (FORBIDDEN, FAILED) for state in states
    )


def _present(
    clusters: dict[int, Cluster], components: Iterable[tuple[Any, ...]]
) -> dict[int, _Present]:
    present: dict[int, _Present] = defaultdict(_Present)
    operators = Operator.objects.filter(cluster__in=clusters)
    for key, kind, namespace, name, package, generated_by in operators.values_list(
        "cluster", "kind", "namespace", "name", "package", "details__generated_by"
    ):
        here = present[key]
        if kind == InstallMethod.SUBSCRIPTION:
            here.subscriptions[namespace].append(Remaining(name, package, bool(generated_by)))
        if kind in (InstallMethod.SUBSCRIPTION, CSV):
            here.namespaces.add(namespace)
            here.add_package(package, namespace)
        elif kind == CLUSTER_EXTENSIONS.kind:
            here.extensions.add(name)
        else:
            here.deployments.add(name)
    for key, kind, namespace, name, package, owned in components:
        if kind == GROUP:
            continue
        here = present[key]
        if kind != CSV:
            here.deployments.add(name)
            continue
        here.csvs.add(f"{namespace}/{name}")
        here.namespaces.add(namespace)
        here.owned_crds.update(crd for crd in owned or () if isinstance(crd, str))
        if package:
            here.add_package(package, namespace)
    return present


def _crd_owner(crd: CRDState, present: _Present) -> tuple[str, str, str] | None:
    """Kind, namespace and name of the removed owner; None if it exists."""
    if crd.owner_kind == "Operator":
        if crd.owner_name in present.labels or crd.name in present.owned_crds:
            return None
        package, _, namespace = crd.owner_name.rpartition(".")
        return (InstallMethod.SUBSCRIPTION.value, namespace, package) if package else None
    if crd.owner_kind == CLUSTER_EXTENSIONS.kind:
        gone = crd.owner_name not in present.extensions
        return (InstallMethod.CLUSTER_EXTENSION.value, "", crd.owner_name) if gone else None
    if crd.owner_kind == "BundleDeployment" and crd.owner_name not in present.deployments:
        return InstallMethod.PLATFORM_OPERATOR.value, "", crd.owner_name
    return None


def _cluster_scoped(
    inventory: ClusterInventory, present: _Present
) -> Iterator[tuple[tuple[str, str, str], Leftover]]:
    """The objects that were read with their owners, of owners that do not exist."""
    for kind, objects in (inventory.orphans or {}).items():
        for name, csv in objects.items():
            if csv not in present.csvs:
                namespace, _, csv_name = csv.partition("/")
                yield (CSV, namespace, csv_name), Leftover(kind, name)
    prefix = f"{CLUSTER_EXTENSIONS.kind}/"
    for kind, objects in (inventory.shared or {}).items():
        for name, owner in objects.items():
            extension = owner.removeprefix(prefix)
            if owner.startswith(prefix):
                if extension not in present.extensions:
                    yield (CLUSTER_EXTENSIONS.kind, "", extension), Leftover(kind, name)
                continue
            namespace, _, release = owner.partition("/")
            # The release of a BundleDeployment has its name; that of a PlatformOperator is the same
            # (rukpak internal/controllers/bundledeployment/bundledeployment.go).
            if namespace in RUKPAK_NAMESPACES and release not in present.deployments:
                yield (InstallMethod.PLATFORM_OPERATOR.value, "", release), Leftover(kind, name)


def _copies(
    clusters: dict[int, Cluster], present: dict[int, _Present]
) -> Iterator[tuple[int, tuple[str, str, str], Leftover]]:
    """The copies without an original in the last report of each cluster."""
    reports = CopyReport.objects.filter(cluster__in=clusters, state=CopyReport.State.DONE)
    last = {report.cluster_id: report for report in reports.order_by("created_at", "pk")}
    for key, report in last.items():
        for row in items(report.result, "operators"):
            name, namespace = text(row, "name"), text(row, "namespace")
            if row.get("orphan") is True and f"{namespace}/{name}" not in present[key].csvs:
                copies = Leftover(CSV, name, namespace, objects=number(row, "copies"))
                yield key, (CSV, namespace, name), copies


def _package_of(
    by_owner: dict[tuple[int, str, str, str], list[Leftover]], key: int, owner: tuple[str, str, str]
) -> tuple[str, str, str]:
    """The removed package of a ClusterServiceVersion where its CRDs name it, else the owner."""
    kind, namespace, name = owner
    if kind == CSV:
        for other, where, in_namespace, package in by_owner:
            is_same = other == key and in_namespace == namespace and where != CSV
            if is_same and name.startswith(f"{package}."):
                return where, in_namespace, package
    return owner


def _owner_in(
    by_owner: dict[tuple[int, str, str, str], list[Leftover]], key: int, namespace: str
) -> tuple[str, str, str]:
    """The one removed operator of the namespace; the namespace itself for none or several."""
    owners = [owner for other, *owner in by_owner if other == key and owner[1] == namespace]
    if len(owners) == 1:
        kind, where, name = owners[0]
        return kind, where, name
    return NAMESPACE, namespace, namespace


def _steps(owner: RemovedOwner) -> Iterator[str]:
    for kind, why in (
        (WEBHOOKS[0], "Delete its validating webhooks: without their Service the API server "
                      "refuses what they check."),
        (WEBHOOKS[1], "Delete its mutating webhooks: without their Service the API server refuses "
                      "what they change."),
        (API_SERVICES.kind, "Delete its APIServices: while they are unavailable, no namespace can "
                            "be deleted."),
    ):  # fmt: skip
        yield from _delete(owner, kind, why)
    yield from _crd_steps(owner)
    for kind in (CLUSTER_ROLE_BINDINGS.kind, CLUSTER_ROLES.kind):
        yield from _delete(owner, kind, f"Delete its {kind}s.")
    others = sorted({row.kind for row in owner.leftovers} - set(ORDER))
    for kind in others:
        yield from _delete(owner, kind, f"Delete its {kind}s.")
    for row in owner.leftovers:
        if row.kind == CSV:
            yield f"Delete the copies of {row.name}; OLM v0 does it itself while it runs."
            yield (
                f"kubectl delete csv -A -l olm.copiedFrom={row.namespace} "
                f"--field-selector metadata.name={row.name}"
            )
        elif row.kind == GROUP:
            yield "Delete the OperatorGroup: no operator of its namespace needs it."
            yield f"kubectl -n {row.namespace} delete operatorgroup {row.name}"
        elif row.kind == NAMESPACE:
            yield "Delete the namespace if nothing else is in it."
            yield f"kubectl get all,configmaps,secrets,pvc -n {row.name}"
            yield f"kubectl delete namespace {row.name}"


def _delete(owner: RemovedOwner, kind: str, why: str) -> Iterator[str]:
    if names := owner.names(kind):
        yield why
        # Names of ClusterRoles may have spaces and signs that a shell reads.
        yield "kubectl delete " + shlex.join(f"{kind.lower()}/{name}" for name in names)


def _crd_steps(owner: RemovedOwner) -> Iterator[str]:
    converting = [row.name for row in owner.leftovers if row.converts]
    if converting:
        yield (
            "End the conversion by a webhook that is gone: until then the objects can't be read, "
            "and neither the definitions nor namespaces can be deleted."
        )
        yield from (
            f"kubectl patch crd {name} --type=merge -p '{NO_CONVERSION}'" for name in converting
        )
    if names := owner.names(CRD):
        listed = ",".join(names)
        yield "See whether somebody still needs the custom resources, and save them."
        yield f"kubectl get {listed} -A -o yaml > objects.yaml"
        yield (
            "Delete them. Those that stay have a finalizer that only the operator removes: install "
            "it again, or remove the finalizer by hand."
        )
        yield f"kubectl delete {listed} -A --all --wait=false"
        yield f"kubectl get {listed} -A"
        yield "Delete the definitions."
        yield f"kubectl delete crd {' '.join(names)}"
