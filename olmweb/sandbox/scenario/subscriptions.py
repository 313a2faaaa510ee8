"""The demo's Subscriptions with the objects that OLM v0 made of them, one for each kind of failure.

`data/subscriptions.yaml` has the requests and their outcomes; nothing moves afterwards by itself.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

import yaml

from olmweb.sandbox.apiserver.kinds import Object
from olmweb.sandbox.apiserver.store import timestamp, uid_of
from olmweb.sandbox.controllers import csv_objects, olm_v0, workloads
from olmweb.sandbox.controllers.bundles import BundleContent
from olmweb.sandbox.controllers.csv_objects import API, InstalledBundle, Phase
from olmweb.sandbox.controllers.workloads import Occurrence, Workload, suffix
from olmweb.sandbox.scenario.catalogs import catalogs
from olmweb.sandbox.scenario.packages import ALL_MODES, DATA

_OLM = "operator-lifecycle-manager"
_KUBELET = "kubelet"
_UNREACHABLE = (
    "error using catalogsource {namespace}/{name}: failed to list bundles: rpc error: code = "
    'Unavailable desc = connection error: desc = "transport: Error while dialing: dial tcp '
    '10.0.0.77:50051: connect: connection refused"'
)
_PHASES: Mapping[str, Phase] = {
    "healthy": csv_objects.SUCCEEDED,
    "update-pending": csv_objects.SUCCEEDED,
    "image-missing": csv_objects.SUCCEEDED,
    "group-unsupported": csv_objects.GROUP_UNSUPPORTED,
    "requirement-missing": csv_objects.REQUIREMENTS_NOT_MET,
}


@cache
def facts() -> Mapping[str, Any]:
    data: Mapping[str, Any] = yaml.load((DATA / "subscriptions.yaml").read_text(), yaml.CSafeLoader)
    return data


@dataclass(frozen=True, slots=True)
class _Subscription:
    """A Subscription of the data file and its outcome; `version` is installed, or the newest."""

    namespace: str
    package: str
    channel: str
    source: str
    outcome: str
    together_with: str = ""
    version: str = ""
    missing: Mapping[str, str] | None = None

    @property
    def source_namespace(self) -> str:
        return next(
            str(source["namespace"])
            for source in facts()["catalog_sources"]
            if source["name"] == self.source
        )

    @property
    def is_pending(self) -> bool:
        """Its InstallPlan requires approval."""
        return self.outcome in ("needs-approval", "update-pending")

    @property
    def approval(self) -> str:
        return "Manual" if self.is_pending else "Automatic"

    @property
    def plan(self) -> str:
        return f"install-{suffix(self.namespace, self.package)}"

    @property
    def bundles(self) -> list[BundleContent]:
        """The bundles that were resolved; none if the resolution failed."""
        if self.outcome in ("unsatisfiable", "catalog-dead"):
            return []
        catalog = catalogs()[self.source]
        bundles = [catalog.bundle(self.package, self.channel)]
        return bundles + ([catalog.bundle(self.together_with)] if self.together_with else [])

    @property
    def installed(self) -> BundleContent:
        """The bundle of the ClusterServiceVersion."""
        if not self.version:
            return self.bundles[0]
        name = f"{self.package}.v{self.version}"
        return catalogs()[self.source].bundle(self.package, self.channel, name)


def namespaces() -> list[str]:
    """The namespaces of all OperatorGroups."""
    return [group["namespace"] for group in facts()["operator_groups"]]


def objects(everywhere: list[str], then: datetime, now: datetime) -> Iterator[Object]:
    """All objects except the namespaces; copies are made in `everywhere`.

    Their times are `then`; those of repeated Events are relative to `now`.
    """
    for source in facts()["catalog_sources"]:
        if source["name"] != "redhat-operators":
            yield catalog_source(source, then)
    for group in facts()["operator_groups"]:
        yield _operator_group(group, then)
    for entry in facts()["subscriptions"]:
        yield from _subscribed(_Subscription(**entry), everywhere, then, now)
    for entry in facts()["without_subscription"]:
        yield from _part_of_the_cluster(entry, then)
    yield from _dead_registry(then, now)


def catalog_source(source: Mapping[str, str], now: datetime) -> Object:
    """A CatalogSource of the data file, connected or not as its `state` says."""
    name, namespace = source["name"], source["namespace"]
    return {
        "apiVersion": API,
        "kind": "CatalogSource",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "sourceType": "grpc",
            "image": source["image"],
            "displayName": source["display"],
            "publisher": source["publisher"],
            "priority": -100,
            "updateStrategy": {"registryPoll": {"interval": "10m"}},
        },
        "status": {
            "connectionState": {
                "address": f"{name}.{namespace}.svc:50051",
                "lastConnect": timestamp(now),
                "lastObservedState": source["state"],
            },
            "registryService": {
                "createdAt": timestamp(now),
                "port": "50051",
                "protocol": "grpc",
                "serviceName": name,
                "serviceNamespace": namespace,
            },
        },
    }


def _group_of(namespace: str) -> tuple[str, str]:
    """The name of the namespace's OperatorGroup, and its targets as in olm.targetNamespaces."""
    group = next(g for g in facts()["operator_groups"] if g["namespace"] == namespace)
    return group["name"], "" if group["watches"] == "all" else namespace


def _operator_group(group: Mapping[str, str], now: datetime) -> Object:
    own = [group["namespace"]]
    watches_all = group["watches"] == "all"
    spec: Object = {"upgradeStrategy": "Default"}
    return {
        "apiVersion": "operators.coreos.com/v1",
        "kind": "OperatorGroup",
        "metadata": {"name": group["name"], "namespace": group["namespace"]},
        "spec": spec if watches_all else {**spec, "targetNamespaces": own},
        "status": {"lastUpdated": timestamp(now), "namespaces": [""] if watches_all else own},
    }


def _reference(kind: str, namespace: str, name: str) -> Object:
    reference = {"apiVersion": API, "kind": kind, "namespace": namespace, "name": name}
    return reference | {"uid": uid_of(kind, namespace, name)}


# --- Subscriptions


def _subscribed(
    subscription: _Subscription, everywhere: list[str], then: datetime, now: datetime
) -> Iterator[Object]:
    """A Subscription and the objects that OLM made of it."""
    yield _subscription(subscription, then)
    if subscription.bundles:
        yield _install_plan(subscription, then)
    if subscription.outcome in _PHASES:
        yield from _installed(subscription, everywhere, then, now)
    if subscription.outcome == "catalog-dead":
        about = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": subscription.namespace},
        }
        occurrence = Occurrence("ResolutionFailed", _failure(subscription)[1], True, _OLM, 213, 95)
        # OLM records one Event per namespace, not per Subscription.
        if subscription.source_namespace == subscription.namespace:
            yield workloads.event(about, occurrence, now)


def _subscription(subscription: _Subscription, now: datetime) -> Object:
    label = f"operators.coreos.com/{subscription.package}.{subscription.namespace}"
    return {
        "apiVersion": API,
        "kind": "Subscription",
        "metadata": {
            "name": subscription.package,
            "namespace": subscription.namespace,
            "labels": {label: ""},
        },
        "spec": {
            "name": subscription.package,
            "channel": subscription.channel,
            "source": subscription.source,
            "sourceNamespace": subscription.source_namespace,
            "installPlanApproval": subscription.approval,
        },
        "status": _subscription_status(subscription, now),
    }


def _subscription_status(subscription: _Subscription, now: datetime) -> Object:
    status: Object = {
        "lastUpdated": timestamp(now),
        "catalogHealth": _catalog_health(subscription.namespace, now),
        "conditions": _subscription_conditions(subscription, now),
    }
    if not subscription.bundles:
        return status
    current = subscription.bundles[0].name
    uid = uid_of("InstallPlan", subscription.namespace, subscription.plan)
    status |= {
        "currentCSV": current,
        "installPlanGeneration": 1,
        "installPlanRef": _reference("InstallPlan", subscription.namespace, subscription.plan),
        "installplan": {
            "apiVersion": API,
            "kind": "InstallPlan",
            "name": subscription.plan,
            "uuid": uid,
        },
        "state": "UpgradePending",
    }
    if subscription.outcome in _PHASES:
        # installedCSV means that the ClusterServiceVersion exists, not that it works.
        status["installedCSV"] = subscription.installed.name
        status["state"] = "UpgradePending" if subscription.is_pending else "AtLatestKnown"
    return status


def _catalog_health(namespace: str, now: datetime) -> list[Object]:
    """Every visible CatalogSource is healthy, the dead source included, as OLM reports it."""
    return [
        {
            "catalogSourceRef": _reference("CatalogSource", source["namespace"], source["name"]),
            "healthy": True,
            "lastUpdated": timestamp(now),
        }
        for source in facts()["catalog_sources"]
        if source["namespace"] in (olm_v0.GLOBAL_NAMESPACE, namespace)
    ]


def _subscription_conditions(subscription: _Subscription, now: datetime) -> list[Object]:
    stamp = timestamp(now)
    conditions: list[Object] = [
        {
            "type": "CatalogSourcesUnhealthy",
            "status": "False",
            "reason": "AllCatalogSourcesHealthy",
            "message": "all available catalogsources are healthy",
            "lastTransitionTime": stamp,
        }
    ]
    if subscription.is_pending:
        pending = {"type": "InstallPlanPending", "status": "True", "reason": "RequiresApproval"}
        conditions.append({**pending, "lastTransitionTime": stamp})
    if subscription.outcome in ("unsatisfiable", "catalog-dead"):
        reason, message = _failure(subscription)
        failed = {"type": "ResolutionFailed", "status": "True", "reason": reason}
        conditions.append({**failed, "message": message, "lastTransitionTime": stamp})
    return conditions


def _failure(subscription: _Subscription) -> tuple[str, str]:
    """Reason and message of the failed resolution; the message is that of the namespace."""
    if subscription.outcome == "catalog-dead":
        dead = next(s for s in facts()["catalog_sources"] if s["state"] != "READY")
        return "ErrorPreventedResolution", _UNREACHABLE.format_map(dead)
    package = subscription.package
    text = olm_v0.unsatisfiable(package, package, subscription.channel)
    return "ConstraintsNotSatisfiable", text


# --- InstallPlans and installed operators


def _install_plan(subscription: _Subscription, now: datetime) -> Object:
    stamp, pending = timestamp(now), subscription.is_pending
    owner = _reference("Subscription", subscription.namespace, subscription.package)
    del owner["namespace"]
    status: Object = {
        "phase": "RequiresApproval" if pending else "Complete",
        "catalogSources": [],
        "plan": [
            step
            for bundle in subscription.bundles
            for step in _steps(subscription, bundle, pending)
        ],
    }
    if not pending:
        installed = {"type": "Installed", "status": "True"}
        times = {"lastTransitionTime": stamp, "lastUpdateTime": stamp}
        status |= {"conditions": [{**installed, **times}], "startTime": stamp}
    return {
        "apiVersion": API,
        "kind": "InstallPlan",
        "metadata": {
            "name": subscription.plan,
            "generateName": "install-",
            "namespace": subscription.namespace,
            "labels": {
                f"operators.coreos.com/{bundle.package}.{subscription.namespace}": ""
                for bundle in subscription.bundles
            },
            "ownerReferences": [{**owner, "controller": False, "blockOwnerDeletion": False}],
        },
        "spec": {
            "approval": subscription.approval,
            "approved": not pending,
            "clusterServiceVersionNames": [bundle.name for bundle in subscription.bundles],
            "generation": 1,
        },
        "status": status,
    }


def _steps(subscription: _Subscription, bundle: BundleContent, pending: bool) -> list[Object]:
    spec = {"source": subscription.source, "sourceNamespace": subscription.source_namespace}
    account = f"{bundle.package.removesuffix('-operator')}-operator"
    return olm_v0.steps(bundle, spec, "Unknown" if pending else "Created", account)


def _installed(
    subscription: _Subscription, everywhere: list[str], then: datetime, now: datetime
) -> Iterator[Object]:
    group, targets = _group_of(subscription.namespace)
    phase = _PHASES[subscription.outcome]
    installation = InstalledBundle(
        subscription.installed,
        subscription.namespace,
        group,
        targets,
        phase,
        subscription.missing or {},
    )
    csv = csv_objects.csv(installation, then)
    yield csv
    yield csv_objects.operator_condition(installation)
    yield csv_objects.operator(installation, then)
    yield from csv_objects.crds(installation, facts()["stored_versions"], then)
    if not targets and phase is not csv_objects.GROUP_UNSUPPORTED:
        yield from csv_objects.copies(csv, everywhere)
    warning = phase is not csv_objects.SUCCEEDED
    occurrence = Occurrence(phase.reason, phase.message, warning, _OLM, 12 if warning else 1, 70)
    yield workloads.event(csv, occurrence, now)
    if phase is csv_objects.SUCCEEDED:
        yield from _running(installation, subscription.outcome, then, now)


def _running(
    installation: InstalledBundle, outcome: str, then: datetime, now: datetime
) -> Iterator[Object]:
    """The Deployment of an installed operator, and an Event if its image can't be pulled."""
    broken = outcome == "image-missing"
    labels = {
        "olm.owner": installation.bundle.name,
        "olm.owner.kind": "ClusterServiceVersion",
        "olm.owner.namespace": installation.namespace,
        installation.label: "",
    }
    workload = Workload(
        namespace=installation.namespace,
        name=installation.deployment,
        image=installation.bundle.image.replace("-bundle@", "@"),
        state=workloads.IMAGE_MISSING if broken else workloads.AVAILABLE,
        labels=labels,
        owner=csv_objects.reference(installation),
    )
    deployment, *pods = workloads.objects(workload, then)
    yield deployment
    yield from pods
    if broken:
        text = f'Failed to pull image "{workload.image}": manifest unknown'
        occurrence = Occurrence("Failed", text, True, _KUBELET, 31, 60)
        yield workloads.event(pods[0], occurrence, now)


# --- operators without Subscription, registry pods


def _part_of_the_cluster(entry: Mapping[str, Any], now: datetime) -> Iterator[Object]:
    """A ClusterServiceVersion without Subscription, and its Deployment."""
    namespace, name = entry["namespace"], entry["name"]
    spec = {
        "displayName": entry["display"],
        "installModes": [{"type": mode, "supported": True} for mode in ALL_MODES],
        "provider": {"name": "Red Hat"},
    }
    image = f"registry.redhat.io/openshift4/{name}:v4.12"
    bundle = BundleContent(name, name, entry["version"], image, spec, {})
    group, targets = _group_of(namespace)
    installation = InstalledBundle(bundle, namespace, group, targets, csv_objects.SUCCEEDED)
    yield csv_objects.csv(installation, now)
    labels = {"olm.owner": name, "olm.owner.kind": "ClusterServiceVersion"}
    labels["olm.owner.namespace"] = namespace
    workload = Workload(
        namespace,
        installation.deployment,
        image,
        workloads.AVAILABLE,
        labels,
        csv_objects.reference(installation),
        entry["replicas"],
    )
    yield from workloads.objects(workload, now)


def _dead_registry(then: datetime, now: datetime) -> Iterator[Object]:
    """The pods of CatalogSources that are not READY are killed for their memory."""
    for source in facts()["catalog_sources"]:
        if source["state"] == "READY":
            continue
        owner = _reference("CatalogSource", source["namespace"], source["name"])
        del owner["namespace"]
        labels = {"olm.catalogSource": source["name"]}
        workload = Workload(
            source["namespace"], source["name"], source["image"], workloads.CRASHING, labels, owner
        )
        _deployment, pod = workloads.objects(workload, then)
        # The CatalogSource owns its registry pod directly, without a Deployment.
        pod["metadata"] |= {
            "name": f"{source['name']}-{suffix(source['name'])}",
            "labels": labels,
            "ownerReferences": [{**owner, "controller": False, "blockOwnerDeletion": False}],
        }
        name, namespace = pod["metadata"]["name"], source["namespace"]
        killed = {"exitCode": 137, "reason": "OOMKilled", "finishedAt": timestamp(then)}
        for container in pod["status"]["containerStatuses"]:
            container |= {"name": "registry-server", "lastState": {"terminated": killed}}
            container["state"]["waiting"]["message"] = (
                "back-off 5m0s restarting failed container=registry-server "
                f"pod={name}_{namespace}({uid_of('Pod', namespace, name)})"
            )
        yield pod
        text = "Back-off restarting failed container registry-server in pod"
        occurrence = Occurrence("BackOff", text, True, _KUBELET, 402, 118)
        yield workloads.event(pod, occurrence, now)
