"""The scenario's Subscriptions with all that OLM v0 made of them, one for each way to go wrong.

What was asked and how it came out is in `data/subscriptions.yaml`; nothing moves afterwards.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

import yaml

from olmweb.sandbox.apiserver.kinds import DATA
from olmweb.sandbox.apiserver.store import Object, timestamp, uid_of
from olmweb.sandbox.scenario import csvs, workloads
from olmweb.sandbox.scenario.csvs import API, Bundle, Phase, Placed
from olmweb.sandbox.scenario.workloads import Happening, Workload, suffix

MARKETPLACE = "openshift-marketplace"
_GLOBAL = (MARKETPLACE,)  # its CatalogSources are seen from every namespace
_OLM = "operator-lifecycle-manager"
_KUBELET = "kubelet"
_UNREACHABLE = (
    "error using catalogsource {namespace}/{name}: failed to list bundles: rpc error: code = "
    'Unavailable desc = connection error: desc = "transport: Error while dialing: dial tcp '
    '10.0.0.77:50051: connect: connection refused"'
)
_PHASES: Mapping[str, Phase] = {
    "healthy": csvs.SUCCEEDED,
    "image-missing": csvs.SUCCEEDED,
    "group-unsupported": csvs.GROUP_UNSUPPORTED,
    "requirement-missing": csvs.REQUIREMENTS_NOT_MET,
}


@cache
def facts() -> Mapping[str, Any]:
    found: Mapping[str, Any] = yaml.load(
        (DATA / "subscriptions.yaml").read_text(), yaml.CSafeLoader
    )
    return found


@dataclass(frozen=True, slots=True)
class _Asked:
    """One Subscription as it was asked for."""

    namespace: str
    package: str
    channel: str
    source: str
    outcome: str
    together_with: str = ""
    missing: Mapping[str, str] | None = None

    @property
    def source_namespace(self) -> str:
        return next(
            str(one["namespace"])
            for one in facts()["catalog_sources"]
            if one["name"] == self.source
        )

    @property
    def approval(self) -> str:
        return "Manual" if self.outcome == "needs-approval" else "Automatic"

    @property
    def plan(self) -> str:
        return f"install-{suffix(self.namespace, self.package)}"

    @property
    def bundles(self) -> list[Bundle]:
        """What resolution chose; nothing where it failed."""
        if self.outcome in ("unsatisfiable", "catalog-dead"):
            return []
        found = [csvs.head(self.source, self.package, self.channel)]
        return found + ([csvs.head(self.source, self.together_with)] if self.together_with else [])


def namespaces() -> list[str]:
    """Every namespace that the world needs."""
    return [group["namespace"] for group in facts()["operator_groups"]]


def objects(everywhere: list[str], then: datetime, now: datetime) -> Iterator[Object]:
    """Everything but the namespaces; copies go to `everywhere`. It came to be what it is `then`,
    and its Events are still told `now`."""
    for one in facts()["catalog_sources"]:
        if one["name"] != "redhat-operators":
            yield catalog_source(one, then)
    for one in facts()["operator_groups"]:
        yield _operator_group(one, then)
    for entry in facts()["subscriptions"]:
        yield from _subscribed(_Asked(**entry), everywhere, then, now)
    for one in facts()["without_subscription"]:
        yield from _came_with_the_cluster(one, then)
    yield from _dead_registry(then, now)


def catalog_source(one: Mapping[str, str], now: datetime) -> Object:
    """A CatalogSource of the data file, connected or not as its `state` says."""
    name, namespace = one["name"], one["namespace"]
    return {
        "apiVersion": API,
        "kind": "CatalogSource",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "sourceType": "grpc",
            "image": one["image"],
            "displayName": one["display"],
            "publisher": one["publisher"],
            "priority": -100,
            "updateStrategy": {"registryPoll": {"interval": "10m"}},
        },
        "status": {
            "connectionState": {
                "address": f"{name}.{namespace}.svc:50051",
                "lastConnect": timestamp(now),
                "lastObservedState": one["state"],
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
    """Name of the namespace's OperatorGroup, and what it watches as an annotation says it."""
    one = next(g for g in facts()["operator_groups"] if g["namespace"] == namespace)
    return one["name"], "" if one["watches"] == "all" else namespace


def _operator_group(one: Mapping[str, str], now: datetime) -> Object:
    own = [one["namespace"]]
    watches_all = one["watches"] == "all"
    spec: Object = {"upgradeStrategy": "Default"}
    return {
        "apiVersion": "operators.coreos.com/v1",
        "kind": "OperatorGroup",
        "metadata": {"name": one["name"], "namespace": one["namespace"]},
        "spec": spec if watches_all else {**spec, "targetNamespaces": own},
        "status": {"lastUpdated": timestamp(now), "namespaces": [""] if watches_all else own},
    }


def _reference(kind: str, namespace: str, name: str) -> Object:
    found = {"apiVersion": API, "kind": kind, "namespace": namespace, "name": name}
    return found | {"uid": uid_of(kind, namespace, name)}


# --- Subscriptions


def _subscribed(
    asked: _Asked, everywhere: list[str], then: datetime, now: datetime
) -> Iterator[Object]:
    """A Subscription and everything that followed from it."""
    yield _subscription(asked, then)
    if asked.bundles:
        yield _install_plan(asked, then)
    if asked.outcome in _PHASES:
        yield from _installed(asked, everywhere, then, now)
    if asked.outcome == "catalog-dead":
        about = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": asked.namespace}}
        happened = Happening("ResolutionFailed", _failure(asked)[1], True, _OLM, 213, 95)
        # One Event a namespace: OLM tells it once for all Subscriptions in there.
        if asked.source_namespace == asked.namespace:
            yield workloads.event(about, happened, now)


def _subscription(asked: _Asked, now: datetime) -> Object:
    label = f"operators.coreos.com/{asked.package}.{asked.namespace}"
    return {
        "apiVersion": API,
        "kind": "Subscription",
        "metadata": {
            "name": asked.package,
            "namespace": asked.namespace,
            "labels": {label: ""},
        },
        "spec": {
            "name": asked.package,
            "channel": asked.channel,
            "source": asked.source,
            "sourceNamespace": asked.source_namespace,
            "installPlanApproval": asked.approval,
        },
        "status": _subscription_status(asked, now),
    }


def _subscription_status(asked: _Asked, now: datetime) -> Object:
    status: Object = {
        "lastUpdated": timestamp(now),
        "catalogHealth": _catalog_health(asked.namespace, now),
        "conditions": _subscription_conditions(asked, now),
    }
    if not asked.bundles:
        return status
    current = asked.bundles[0].name
    uid = uid_of("InstallPlan", asked.namespace, asked.plan)
    status |= {
        "currentCSV": current,
        "installPlanGeneration": 1,
        "installPlanRef": _reference("InstallPlan", asked.namespace, asked.plan),
        "installplan": {
            "apiVersion": API,
            "kind": "InstallPlan",
            "name": asked.plan,
            "uuid": uid,
        },
        "state": "UpgradePending",
    }
    if asked.outcome in _PHASES:
        # It says only that the ClusterServiceVersion is there, not that it works.
        status |= {"installedCSV": current, "state": "AtLatestKnown"}
    return status


def _catalog_health(namespace: str, now: datetime) -> list[Object]:
    """Every CatalogSource in sight is called healthy, the dead one too: that is what OLM says."""
    return [
        {
            "catalogSourceRef": _reference("CatalogSource", one["namespace"], one["name"]),
            "healthy": True,
            "lastUpdated": timestamp(now),
        }
        for one in facts()["catalog_sources"]
        if one["namespace"] in (*_GLOBAL, namespace)
    ]


def _subscription_conditions(asked: _Asked, now: datetime) -> list[Object]:
    stamp = timestamp(now)
    found: list[Object] = [
        {
            "type": "CatalogSourcesUnhealthy",
            "status": "False",
            "reason": "AllCatalogSourcesHealthy",
            "message": "all available catalogsources are healthy",
            "lastTransitionTime": stamp,
        }
    ]
    if asked.outcome == "needs-approval":
        pending = {"type": "InstallPlanPending", "status": "True", "reason": "RequiresApproval"}
        found.append({**pending, "lastTransitionTime": stamp})
    if asked.outcome in ("unsatisfiable", "catalog-dead"):
        reason, message = _failure(asked)
        failed = {"type": "ResolutionFailed", "status": "True", "reason": reason}
        found.append({**failed, "message": message, "lastTransitionTime": stamp})
    return found


def _failure(asked: _Asked) -> tuple[str, str]:
    """Why nothing was resolved: a reason and a message. The latter is the same for every
    Subscription of a namespace."""
    if asked.outcome == "catalog-dead":
        dead = next(s for s in facts()["catalog_sources"] if s["state"] != "READY")
        return "ErrorPreventedResolution", _UNREACHABLE.format_map(dead)
    name = asked.package
    return "ConstraintsNotSatisfiable", (
        f"constraints not satisfiable: no operators found in channel {asked.channel} of package "
        f"{name} in the catalog referenced by subscription {name}, subscription {name} exists"
    )


# --- InstallPlans and what they installed


def _install_plan(asked: _Asked, now: datetime) -> Object:
    stamp, waits = timestamp(now), asked.approval == "Manual"
    owner = _reference("Subscription", asked.namespace, asked.package)
    del owner["namespace"]
    status: Object = {
        "phase": "RequiresApproval" if waits else "Complete",
        "catalogSources": [],
        "plan": [step for bundle in asked.bundles for step in _steps(asked, bundle, waits)],
    }
    if not waits:
        done = {"type": "Installed", "status": "True"}
        times = {"lastTransitionTime": stamp, "lastUpdateTime": stamp}
        status |= {"conditions": [{**done, **times}], "startTime": stamp}
    return {
        "apiVersion": API,
        "kind": "InstallPlan",
        "metadata": {
            "name": asked.plan,
            "generateName": "install-",
            "namespace": asked.namespace,
            "labels": {
                f"operators.coreos.com/{bundle.package}.{asked.namespace}": ""
                for bundle in asked.bundles
            },
            "ownerReferences": [{**owner, "controller": False, "blockOwnerDeletion": False}],
        },
        "spec": {
            "approval": asked.approval,
            "approved": not waits,
            "clusterServiceVersionNames": [bundle.name for bundle in asked.bundles],
            "generation": 1,
        },
        "status": status,
    }


def _steps(asked: _Asked, bundle: Bundle, waits: bool) -> Iterator[Object]:
    made = [
        ("operators.coreos.com", "v1alpha1", "ClusterServiceVersion", bundle.name),
        *(
            ("apiextensions.k8s.io", "v1", "CustomResourceDefinition", owned["name"])
            for owned in bundle.crds
        ),
        ("", "v1", "ServiceAccount", f"{bundle.package.removesuffix('-operator')}-operator"),
    ]
    for group, version, kind, name in made:
        resource = {"group": group, "version": version, "kind": kind, "name": name}
        origin = {"sourceName": asked.source, "sourceNamespace": asked.source_namespace}
        yield {
            "resolving": bundle.name,
            "resource": {**resource, **origin, "manifest": "{}"},
            "status": "Unknown" if waits else "Created",
        }


def _installed(
    asked: _Asked, everywhere: list[str], then: datetime, now: datetime
) -> Iterator[Object]:
    group, targets = _group_of(asked.namespace)
    phase = _PHASES[asked.outcome]
    placed = Placed(asked.bundles[0], asked.namespace, group, targets, phase, asked.missing or {})
    csv = csvs.csv(placed, then)
    yield csv
    yield csvs.operator_condition(placed)
    yield csvs.operator(placed, then)
    yield from csvs.crds(placed, facts()["stored_versions"], then)
    if not targets and phase is not csvs.GROUP_UNSUPPORTED:
        yield from csvs.copies(csv, everywhere)
    warning = phase is not csvs.SUCCEEDED
    happened = Happening(phase.reason, phase.message, warning, _OLM, 12 if warning else 1, 70)
    yield workloads.event(csv, happened, now)
    if phase is csvs.SUCCEEDED:
        yield from _running(placed, asked.outcome, then, now)


def _running(placed: Placed, outcome: str, then: datetime, now: datetime) -> Iterator[Object]:
    """The Deployment of an installed operator; where its image can't be pulled, with Events."""
    broken = outcome == "image-missing"
    labels = {
        "olm.owner": placed.bundle.name,
        "olm.owner.kind": "ClusterServiceVersion",
        "olm.owner.namespace": placed.namespace,
        placed.label: "",
    }
    wanted = Workload(
        namespace=placed.namespace,
        name=placed.deployment,
        image=placed.bundle.image.replace("-bundle@", "@"),
        state=workloads.IMAGE_MISSING if broken else workloads.AVAILABLE,
        labels=labels,
        owner=csvs.reference(placed),
    )
    deployment, *pods = workloads.objects(wanted, then)
    yield deployment
    yield from pods
    if broken:
        text = f'Failed to pull image "{wanted.image}": manifest unknown'
        happened = Happening("Failed", text, True, _KUBELET, 31, 60)
        yield workloads.event(pods[0], happened, now)


# --- what nobody subscribed to


def _came_with_the_cluster(one: Mapping[str, Any], now: datetime) -> Iterator[Object]:
    """A ClusterServiceVersion without Subscription, and its Deployment."""
    namespace, name = one["namespace"], one["name"]
    modes = ("OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces")
    spec = {
        "displayName": one["display"],
        "installModes": [{"type": mode, "supported": True} for mode in modes],
        "provider": {"name": "Red Hat"},
    }
    image = f"registry.redhat.io/openshift4/{name}:v4.12"
    bundle = Bundle(name, name, one["version"], image, spec)
    group, targets = _group_of(namespace)
    placed = Placed(bundle, namespace, group, targets, csvs.SUCCEEDED)
    yield csvs.csv(placed, now)
    labels = {"olm.owner": name, "olm.owner.kind": "ClusterServiceVersion"}
    labels["olm.owner.namespace"] = namespace
    wanted = Workload(
        namespace,
        placed.deployment,
        image,
        workloads.AVAILABLE,
        labels,
        csvs.reference(placed),
        one["replicas"],
    )
    yield from workloads.objects(wanted, now)


def _dead_registry(then: datetime, now: datetime) -> Iterator[Object]:
    """The pods of CatalogSources that are not READY crash."""
    for one in facts()["catalog_sources"]:
        if one["state"] == "READY":
            continue
        source = _reference("CatalogSource", one["namespace"], one["name"])
        del source["namespace"]
        labels = {"olm.catalogSource": one["name"]}
        wanted = Workload(
            one["namespace"], one["name"], one["image"], workloads.CRASHING, labels, source
        )
        _deployment, pod = workloads.objects(wanted, then)
        # A registry's pod is made by the CatalogSource itself, without a Deployment.
        pod["metadata"] |= {
            "name": f"{one['name']}-{suffix(one['name'])}",
            "labels": labels,
            "ownerReferences": [{**source, "controller": False, "blockOwnerDeletion": False}],
        }
        yield pod
        text = "Back-off restarting failed container manager in pod"
        happened = Happening("BackOff", text, True, _KUBELET, 402, 118)
        yield workloads.event(pod, happened, now)
