"""The scenario `audit`: a 4.12 cluster on which all 69 packages were asked for.

Only what was asked is written down (`data/audit.yaml`); the outcomes come from the controller's
rules. Deterministic but for the time: everything happened some two hours before the start.
"""

import hashlib
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import cache
from typing import Any

import yaml

from olmweb.sandbox.apiserver import definitions
from olmweb.sandbox.apiserver.kinds import DATA, all_kinds
from olmweb.sandbox.apiserver.store import Object, Store, timestamp, uid_of
from olmweb.sandbox.controllers import aggregate
from olmweb.sandbox.controllers.controller import SOURCE, Controller
from olmweb.sandbox.controllers.rules import SYSTEM_NAMESPACE
from olmweb.sandbox.scenario import content, extensions, subscriptions
from olmweb.sandbox.scenario.facts import digest, number, packages

SCENARIOS = ("audit",)


@cache
def facts() -> Mapping[str, Any]:
    found: Mapping[str, Any] = yaml.load((DATA / "audit.yaml").read_text(), yaml.CSafeLoader)
    return found


@cache
def fingerprint() -> str:
    """Changes when the scenario's data do: a saved state of another one is not taken over."""
    total = hashlib.sha256()
    for path in sorted(DATA.rglob("*.yaml")):
        total.update(path.read_bytes())
    return total.hexdigest()


class _Clock:
    """The store's clock while the past is being made."""

    def __init__(self, at: datetime) -> None:
        self.at = at

    def __call__(self) -> datetime:
        self.at += timedelta(seconds=4)
        return self.at


def build(store: Store, controller: Controller) -> None:
    """Fills an empty store."""
    real_clock = store.now
    start = real_clock()
    clock = _Clock(start - timedelta(hours=6))
    store.now = clock
    _cluster(store)
    clock.at = start - timedelta(hours=3)
    for made in extensions.objects(clock.at):
        _put(store, made)
    controller.bundle_suffixes = facts()["suffixes"]
    clock.at = start - timedelta(hours=2, minutes=30)
    first = facts()["asked_first"]
    for name in [*first, *sorted(set(packages("packages")) - set(first))]:
        _put(store, _operator(name))
        controller.settle(name)
    clock.at = start - timedelta(hours=1, minutes=15)
    _installed_otherwise(store, clock.at, start)
    clock.at = start - timedelta(minutes=14)
    controller.aggregate()
    controller.bundle_suffixes = {}
    store.now = real_clock
    store.compact()


def _installed_otherwise(store: Store, then: datetime, now: datetime) -> None:
    """OLM v0's Subscriptions and the workloads of ClusterExtensions, with their namespaces.

    After the PlatformOperators: a namespace that is there already keeps one from being installed.
    """
    for name in dict.fromkeys([*subscriptions.namespaces(), *extensions.namespaces()]):
        if store.get("Namespace", name) is None:
            _put(store, _namespace(name))
    everywhere = [item["metadata"]["name"] for item in store.items("Namespace")[0]]
    for made in subscriptions.objects(everywhere, then, now):
        _put(store, made)
    for made in extensions.running(then, now):
        _put(store, made)


def _namespace(name: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    }


def _put(store: Store, made: Object) -> None:
    metadata = made["metadata"]
    metadata["uid"] = uid_of(made["kind"], metadata.get("namespace", ""), metadata["name"])
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
        _put(store, _namespace(name))
    for kind in all_kinds():
        if kind.custom:
            _put(store, definitions.established(kind, timestamp(store.now())))
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
    waiting = f"Unable to apply {version}: the cluster operator {aggregate.NAME} is not available"
    failing = f"Cluster operator {aggregate.NAME} is not available"
    reason = "ClusterOperatorNotAvailable"
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
                _condition("Available", "False", "", "", now),
                _condition("Failing", "True", reason, failing, now),
                _condition("Progressing", "True", reason, waiting, now),
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
    said = healthy | facts()["troubled"].get(name, {})
    minutes = timedelta(minutes=number("since", name) % 90)
    return {
        "apiVersion": "config.openshift.io/v1",
        "kind": "ClusterOperator",
        "metadata": {"name": name},
        "spec": {},
        "status": {
            "conditions": [
                _condition(type_, status, reason, message, now + minutes)
                for type_, (status, reason, message) in said.items()
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
            "name": aggregate.NAME,
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
    """The one CatalogSource that PlatformOperators are made from."""
    found: list[Mapping[str, str]] = subscriptions.facts()["catalog_sources"]
    return next(one for one in found if (one["namespace"], one["name"]) == SOURCE)


def _cluster_catalog(name: str, priority: int, now: datetime) -> Object:
    data = content.served(name)
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
