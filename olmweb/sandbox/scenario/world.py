"""The scenario `audit`: a 4.12 cluster with a PlatformOperator for each of the 69 packages.

`data/audit.yaml` has only the requests; the outcomes come from the controllers' rules.
Deterministic except for the time: everything happened some two hours before the start.
"""

import hashlib
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import cache
from typing import Any

import yaml

from olmweb.sandbox.apiserver.kinds import CRDS, Object, all_kinds, established_crd
from olmweb.sandbox.apiserver.store import Store, key_of, timestamp, uid_of
from olmweb.sandbox.controllers.helm import SYSTEM_NAMESPACE
from olmweb.sandbox.controllers.platform_operators import (
    CATALOG_SOURCE,
    CLUSTER_OPERATOR,
    PlatformOperators,
    version_conditions,
)
from olmweb.sandbox.controllers.workloads import namespace
from olmweb.sandbox.scenario import catalogs, cluster_extensions, subscriptions
from olmweb.sandbox.scenario.packages import DATA, digest, number, packages

SCENARIOS = ("audit",)


@cache
def facts() -> Mapping[str, Any]:
    data: Mapping[str, Any] = yaml.load((DATA / "audit.yaml").read_text(), yaml.CSafeLoader)
    return data


@cache
def fingerprint() -> str:
    """Changes with the scenario's data: a saved state of other data is not loaded."""
    total = hashlib.sha256()
    for path in sorted((*DATA.glob("*.yaml"), *CRDS.glob("*.yaml"))):
        total.update(path.read_bytes())
    return total.hexdigest()


class _Clock:
    """The store's clock during the build: every reading is four seconds later."""

    def __init__(self, at: datetime) -> None:
        self.at = at

    def __call__(self) -> datetime:
        self.at += timedelta(seconds=4)
        return self.at


def build(store: Store, platform_operators: PlatformOperators) -> None:
    """Fills an empty store."""
    real_clock = store.now
    start = real_clock()
    clock = _Clock(start - timedelta(hours=6))
    store.now = clock
    _cluster(store)
    clock.at = start - timedelta(hours=3)
    for made in cluster_extensions.objects(clock.at):
        _put(store, made)
    platform_operators.bundle_suffixes = facts()["suffixes"]
    clock.at = start - timedelta(hours=2, minutes=30)
    first = facts()["asked_first"]
    for name in [*first, *sorted(set(packages("packages")) - set(first))]:
        _put(store, _operator(name))
        platform_operators.settle(name)
    clock.at = start - timedelta(hours=1, minutes=15)
    _operators_of_olm(store, clock.at, start)
    clock.at = start - timedelta(minutes=14)
    platform_operators.aggregate()
    platform_operators.bundle_suffixes = {}
    store.now = real_clock
    store.compact()


def _operators_of_olm(store: Store, then: datetime, now: datetime) -> None:
    """The objects of OLM v0 and the workloads of ClusterExtensions, with their namespaces.

    After the PlatformOperators: an existing namespace can prevent the install of one of them.
    """
    for name in dict.fromkeys([*subscriptions.namespaces(), *cluster_extensions.namespaces()]):
        if store.get("Namespace", name) is None:
            _put(store, namespace(name))
    everywhere = [item["metadata"]["name"] for item in store.items("Namespace")[0]]
    for made in subscriptions.objects(everywhere, then, now):
        _put(store, made)
    for made in cluster_extensions.running(then, now):
        _put(store, made)


def _put(store: Store, made: Object) -> None:
    made["metadata"]["uid"] = uid_of(*key_of(made))
    store.put(made)


def _operator(package: str) -> Object:
    return {
        "apiVersion": "platform.openshift.io/v1alpha1",
        "kind": "PlatformOperator",
        "metadata": {"name": package},
        "spec": {"package": {"name": package}},
    }


def _cluster(store: Store) -> None:
    for name in facts()["namespaces"]:
        _put(store, namespace(name))
    for kind in all_kinds():
        if kind.custom:
            _put(store, established_crd(kind, timestamp(store.now())))
    _put(store, _catalogd_service())
    _put(store, _cluster_version(store.now()))
    for name in facts()["clusteroperators"]:
        _put(store, _cluster_operator(name, store.now()))
    _put(store, _aggregated())
    _put(store, subscriptions.catalog_source(_platform_source(), store.now()))
    for name, priority in (("redhat-operators", 0), ("community-operators", -100)):
        _put(store, _cluster_catalog(name, priority, store.now()))


def _catalogd_service() -> Object:
    ports = [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 8443}]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "catalogd-service", "namespace": "olmv1-system"},
        "spec": {"type": "ClusterIP", "clusterIP": "10.0.0.41", "ports": ports},
        "status": {"loadBalancer": {}},
    }


def _condition(type_: str, status: str, reason: str, message: str, at: datetime) -> Object:
    made = {"type": type_, "status": status, "lastTransitionTime": timestamp(at)}
    made |= {"reason": reason} if reason else {}
    return made | ({"message": message} if message else {})


def _cluster_version(now: datetime) -> Object:
    version = facts()["cluster_version"]
    image = f"registry.ci.example.com/ocp/release@sha256:{digest('release', version).hex()}"
    return {
        "apiVersion": "config.openshift.io/v1",
        "kind": "ClusterVersion",
        "metadata": {"name": "version"},
        "spec": {"clusterID": uid_of("cluster"), "channel": "stable-4.12"},
        "status": {
            "desired": {"version": version, "image": image},
            "history": [
                {
                    "state": "Partial",
                    "version": version,
                    "image": image,
                    "startedTime": timestamp(now),
                    "completionTime": None,
                    "verified": False,
                }
            ],
            "observedGeneration": 1,
            "versionHash": "sandbox",
            "availableUpdates": None,
            "conditions": [
                condition | {"lastTransitionTime": timestamp(now)}
                for condition in version_conditions(version, completed=False, failing=True)
            ],
        },
    }


def _cluster_operator(name: str, now: datetime) -> Object:
    healthy = {
        "Available": ["True", "AsExpected", ""],
        "Progressing": ["False", "AsExpected", ""],
        "Degraded": ["False", "AsExpected", ""],
        "Upgradeable": ["True", "AsExpected", ""],
    }
    conditions = healthy | facts()["troubled"].get(name, {})
    minutes = timedelta(minutes=number("since", name) % 90)
    return {
        "apiVersion": "config.openshift.io/v1",
        "kind": "ClusterOperator",
        "metadata": {"name": name},
        "spec": {},
        "status": {
            "conditions": [
                _condition(type_, status, reason, message, now + minutes)
                for type_, (status, reason, message) in conditions.items()
            ],
            "versions": [{"name": "operator", "version": facts()["cluster_version"]}],
            "relatedObjects": [
                {"group": "", "resource": "namespaces", "name": f"openshift-{name}"}
            ],
        },
    }


def _aggregated() -> Object:
    return {
        "apiVersion": "config.openshift.io/v1",
        "kind": "ClusterOperator",
        "metadata": {
            "name": CLUSTER_OPERATOR,
            "annotations": {
                "exclude.release.openshift.io/internal-openshift-hosted": "true",
                "include.release.openshift.io/self-managed-high-availability": "true",
                "include.release.openshift.io/single-node-developer": "true",
                "release.openshift.io/feature-set": "TechPreviewNoUpgrade",
            },
        },
        "spec": {},
        "status": {
            "versions": [{"name": "operator", "version": facts()["cluster_version"]}],
            "relatedObjects": [
                {"group": "", "resource": "namespaces", "name": SYSTEM_NAMESPACE},
                {"group": "platform.openshift.io", "resource": "platformoperators", "name": ""},
                {"group": "core.rukpak.io", "resource": "bundles", "name": ""},
                {"group": "core.rukpak.io", "resource": "bundledeployments", "name": ""},
            ],
        },
    }


def _platform_source() -> Mapping[str, str]:
    """The CatalogSource of the PlatformOperators."""
    sources: list[Mapping[str, str]] = subscriptions.facts()["catalog_sources"]
    return next(
        source for source in sources if (source["namespace"], source["name"]) == CATALOG_SOURCE
    )


def _cluster_catalog(name: str, priority: int, now: datetime) -> Object:
    data = catalogs.served(name)
    image = f"registry.redhat.io/redhat/{name.removesuffix('s')}-index"
    stamp = timestamp(now)

    def condition(type_: str, reason: str, message: str) -> Object:
        return _condition(type_, "True", reason, message, now) | {"observedGeneration": 1}

    return {
        "apiVersion": "olm.operatorframework.io/v1",
        "kind": "ClusterCatalog",
        "metadata": {
            "name": name,
            "labels": {"olm.operatorframework.io/metadata.name": name},
            "finalizers": ["olm.operatorframework.io/delete-server-cache"],
        },
        "spec": {
            "availabilityMode": "Available",
            "priority": priority,
            "source": {
                "type": "Image",
                "image": {"ref": f"{image}:v4.12", "pollIntervalMinutes": 10},
            },
        },
        "status": {
            "conditions": [
                condition(
                    "Progressing",
                    "Succeeded",
                    "Successfully unpacked and stored content from resolved source",
                ),
                condition("Serving", "Available", "Serving desired content from resolved source"),
            ],
            "lastUnpacked": stamp,
            "resolvedSource": {
                "type": "Image",
                "image": {"ref": f"{image}@sha256:{hashlib.sha256(data).hexdigest()}"},
            },
            "urls": {"base": f"https://catalogd-service.olmv1-system.svc/catalogs/{name}"},
        },
    }
