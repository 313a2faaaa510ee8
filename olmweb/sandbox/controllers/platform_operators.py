"""Plays the platform-operators manager (phase 0) and rukpak, one step per PlatformOperator, and the
cluster-version-operator as far as it follows the aggregated ClusterOperator.

Level-triggered: every step reads only the objects. Wordings are the controllers' own, misspellings
included. Must not know HTTP.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from olmweb.sandbox.apiserver.kinds import Object
from olmweb.sandbox.apiserver.store import (
    Store,
    copied,
    key_of,
    owner_reference,
    safe_suffix,
    timestamp,
    uid_of,
)
from olmweb.sandbox.controllers import helm
from olmweb.sandbox.controllers.bundles import BundleContent, FileBasedCatalog, parse_version

CATALOG_SOURCE = ("openshift-marketplace", "redhat-operators")  # namespace and name
CLUSTER_OPERATOR = "platform-operators-aggregated"
_ITEM = re.compile(r'encountered the failing \S+ platform operator with reason "[^"]*"')
_CONVERSION = "convert registry+v1 bundle to plain+v0 bundle"


class PlatformOperators:
    """The manager and rukpak of one cluster, with the catalog of its only CatalogSource."""

    def __init__(self, store: Store, catalog: FileBasedCatalog) -> None:
        self._store = store
        self._catalog = catalog
        self._by_image = {bundle.image: bundle for bundle in catalog.all_bundles()}
        self.bundle_suffixes: Mapping[str, str] = {}  # of the next Bundles, by PlatformOperator

    def step_all(self) -> None:
        """One step for every PlatformOperator, then for the aggregated ClusterOperator and the
        ClusterVersion."""
        for item in self._store.items("PlatformOperator")[0]:
            self.step(item["metadata"]["name"])
        self.aggregate()
        self._report_cluster_version()

    def settle(self, name: str) -> None:
        """Steps until nothing changes any more."""
        before = -1
        while self._store.version != before:
            before = self._store.version
            self.step(name)

    def step(self, name: str) -> None:
        """Moves one PlatformOperator on; does nothing if it was deleted or has settled."""
        with self._store.changed:
            operator = self._store.get("PlatformOperator", name)
            if operator is None:
                return
            deployment = self._store.get("BundleDeployment", name)
            if deployment is None:
                self._source(operator)
                return
            self._move(deployment)
            self._report(operator, name)

    def _now(self) -> str:
        return timestamp(self._store.now())

    # --- platform-operators manager

    def _source(self, operator: Object) -> None:
        """Chooses the bundle; the BundleDeployment ends the sourcing for good."""
        package = operator["spec"]["package"]["name"]
        namespace, name = CATALOG_SOURCE
        if not _is_ready(self._store.get("CatalogSource", name, namespace)):
            text = "validation error: only a single catalog source is supported during phase 0"
            self._set_installed(operator, "False", "SourceFailed", _unsourced(text))
            return
        bundle = choose(self._catalog.bundles(package))
        if bundle is None:
            text = f"failed to find candidate olm.bundles from the {package} package"
            self._set_installed(operator, "False", "SourceFailed", _unsourced(text))
            return
        self._store.put(_deployment(operator, bundle.image))
        self._report(operator, operator["metadata"]["name"])

    def _report(self, operator: Object, name: str) -> None:
        """Sets the PlatformOperator's condition from its BundleDeployment."""
        deployment = self._store.get("BundleDeployment", name)
        conditions = (deployment or {}).get("status", {}).get("conditions", [])
        valid = _condition(conditions, "HasValidBundle")
        installed = _condition(conditions, "Installed")
        if valid is None:
            text = "Waiting for the bundle to be unpacked"
            self._set_installed(operator, "False", "UnpackPending", text)
        elif valid["status"] != "True":
            self._set_installed(operator, "False", valid["reason"], valid["message"])
        elif installed is None:
            text = "Waiting for the bundle to be installed"
            self._set_installed(operator, "False", "InstallPending", text)
        elif installed["status"] != "True":
            self._set_installed(operator, "False", installed["reason"], installed["message"])
        else:
            text = f"Successfully applied the {name} BundleDeployment resource"
            self._set_installed(operator, "True", "InstallSuccessful", text)

    def _set_installed(self, operator: Object, status: str, reason: str, text: str) -> None:
        made = copied(operator)
        # Set on success and never cleared afterwards, as the real manager does.
        active = made.setdefault("status", {}).setdefault("activeBundleDeployment", {"name": ""})
        if status == "True":
            active["name"] = made["metadata"]["name"]
        self._set_condition(made["status"], "Installed", status, reason, text)
        self._store.put(made)

    def aggregate(self) -> None:
        """Rewrites the aggregated ClusterOperator if its content has changed."""
        with self._store.changed:
            cluster_operator = self._store.get("ClusterOperator", CLUSTER_OPERATOR)
            if cluster_operator is None:
                return
            operators, version = self._store.items("PlatformOperator")
            conditions = _aggregated_conditions(operators, self._now(), str(version))
            before = cluster_operator.get("status", {}).get("conditions", [])
            if _content(before) == _content(conditions):
                return
            made = copied(cluster_operator)
            made["status"]["conditions"] = conditions
            self._store.put(made)

    def _report_cluster_version(self) -> None:
        """Completes the update of the ClusterVersion once the aggregated ClusterOperator is
        available, and reports it as failing while it is not."""
        with self._store.changed:
            cluster_version = self._store.get("ClusterVersion", "version")
            cluster_operator = self._store.get("ClusterOperator", CLUSTER_OPERATOR)
            if cluster_version is None or cluster_operator is None:
                return
            available = _condition(cluster_operator["status"].get("conditions", []), "Available")
            if available is None:
                return
            made = copied(cluster_version)
            status = made["status"]
            last, now = status["history"][0], self._now()
            if available["status"] == "True" and last["state"] != "Completed":
                last |= {"state": "Completed", "completionTime": now}
            reported = version_conditions(
                last["version"],
                completed=last["state"] == "Completed",
                failing=available["status"] != "True",
            )
            before = {condition["type"]: condition for condition in status["conditions"]}
            status["conditions"] = [
                _with_time(condition, before.get(condition["type"]), now) for condition in reported
            ]
            if made != cluster_version:
                self._store.put(made)

    # --- rukpak

    def _move(self, deployment: Object) -> None:
        name = deployment["metadata"]["name"]
        bundle = self._bundle_of(deployment)
        if bundle is None:
            bundle = self._store.put(self._new_bundle(deployment))
        elif bundle["status"]["phase"] == "Pending":
            self._set_phase(bundle, "Unpacking", "False", "Unpacking", "")
        elif bundle["status"]["phase"] == "Unpacking":
            self._unpack(bundle)
        elif bundle["status"]["phase"] == "Unpacked":
            self._install(deployment, bundle)
            return
        current = self._bundle_of(deployment) or bundle
        self._store.put(self._validity(self._store.get("BundleDeployment", name) or {}, current))

    def _bundle_of(self, deployment: Object) -> Object | None:
        uid = deployment["metadata"]["uid"]
        for bundle in self._store.items("Bundle")[0]:
            owners = bundle["metadata"].get("ownerReferences", [])
            if any(owner["uid"] == uid for owner in owners):
                return bundle
        return None

    def _new_bundle(self, deployment: Object) -> Object:
        name = deployment["metadata"]["name"]
        template = deployment["spec"]["template"]
        suffix = self.bundle_suffixes.get(name) or safe_suffix(
            json.dumps(template, sort_keys=True), 6
        )
        made = {
            "apiVersion": "core.rukpak.io/v1alpha1",
            "kind": "Bundle",
            "metadata": {
                "name": f"{name}-{suffix}",
                "uid": uid_of("Bundle", deployment["metadata"]["uid"], str(self._store.version)),
                "labels": {
                    "core.rukpak.io/owner-kind": "BundleDeployment",
                    "core.rukpak.io/owner-name": name,
                    "core.rukpak.io/bundle-template-hash": suffix,
                },
                "ownerReferences": [owner_reference(deployment, controller=True)],
            },
            "spec": copied(template["spec"]),
            "status": {"observedGeneration": 1, "phase": "Pending"},
        }
        self._set_condition(made["status"], "Unpacked", "False", "UnpackPending", "")
        return made

    def _unpack(self, bundle: Object) -> None:
        contents = self._by_image.get(_image_of(bundle))
        # An image that is in no catalog blob can't be pulled.
        error = conversion_error(contents) if contents else "pull image: manifest unknown"
        if error:
            self._set_phase(bundle, "Failing", "False", "UnpackFailed", error)
            return
        made = copied(bundle)
        name = bundle["metadata"]["name"]
        url = f"https://core.{helm.SYSTEM_NAMESPACE}.svc/bundles/{name}.tgz"
        made["status"] |= {
            "resolvedSource": copied(bundle["spec"]["source"]),
            "contentURL": url,
        }
        text = f"Successfully unpacked the {name} Bundle"
        self._set_phase(made, "Unpacked", "True", "UnpackSuccessful", text)

    def _set_phase(self, bundle: Object, phase: str, status: str, reason: str, text: str) -> None:
        made = copied(bundle)
        made["status"]["phase"] = phase
        self._set_condition(made["status"], "Unpacked", status, reason, text)
        self._store.put(made)

    def _validity(self, deployment: Object, bundle: Object) -> Object:
        """HasValidBundle of the BundleDeployment; True also during the unpacking."""
        made = copied(deployment)
        status = made.setdefault("status", {"observedGeneration": 1})
        name, phase = bundle["metadata"]["name"], bundle["status"]["phase"]
        if phase == "Failing":
            unpacked = _condition(bundle["status"]["conditions"], "Unpacked") or {}
            text = f"Failed to unpack the {name} Bundle: {unpacked.get('message', '')}"
            self._set_condition(status, "HasValidBundle", "False", "UnpackFailed", text)
        elif phase == "Unpacked":
            text = f"Successfully unpacked the {name} Bundle"
            self._set_condition(status, "HasValidBundle", "True", "UnpackSuccessful", text)
        else:
            text = f"Waiting for the {name} Bundle to be unpacked"
            self._set_condition(status, "HasValidBundle", "True", "UnpackPending", text)
        return made

    def _install(self, deployment: Object, bundle: Object) -> None:
        """Helm's install, retried at every step until it succeeds."""
        name = deployment["metadata"]["name"]
        installed = _condition(deployment["status"]["conditions"], "Installed")
        if installed and installed["status"] == "True":
            return
        contents = self._by_image[_image_of(bundle)]
        keys = [key_of(item) for item in helm.objects(contents)]
        error = helm.ownership_error(name, keys, helm.owners(self._store))
        made = copied(deployment)
        if error:
            self._set_condition(made["status"], "Installed", "False", "InstallFailed", error)
        else:
            helm.install(self._store, deployment, contents)
            text = f"instantiated bundle {bundle['metadata']['name']} successfully"
            self._set_condition(made["status"], "Installed", "True", "InstallationSucceeded", text)
            made["status"]["activeBundle"] = bundle["metadata"]["name"]
        self._store.put(made)

    def _set_condition(
        self, object_status: Object, type_: str, status: str, reason: str, text: str
    ) -> None:
        """meta.SetStatusCondition: the time changes only with the status."""
        conditions = object_status.setdefault("conditions", [])
        before = _condition(conditions, type_)
        since = before["lastTransitionTime"] if before else self._now()
        if before and before["status"] != status:
            since = self._now()
        made = {
            "type": type_,
            "status": status,
            "reason": reason,
            "message": text,
            "lastTransitionTime": since,
        }
        if before:
            conditions[conditions.index(before)] = made
        else:
            conditions.append(made)


# --- rules


def choose(bundles: Iterable[BundleContent]) -> BundleContent | None:
    """The first bundle of the highest version, without regard to channels and deprecations.

    As in the real filter, a first version that is not semantic is never replaced.
    """
    best: BundleContent | None = None
    for bundle in bundles:
        if best is None:
            best = bundle
            continue
        version, highest = parse_version(bundle.version), parse_version(best.version)
        if version and highest and version > highest:
            best = bundle
    return best


def conversion_error(bundle: BundleContent) -> str:
    """The first reason for which the bundle can't be converted, or ""."""
    if "AllNamespaces" not in bundle.install_modes:
        return f"{_CONVERSION}: AllNamespace install mode must be enabled"
    if bundle.owns_api_services:
        return f"{_CONVERSION}: apiServiceDefintions are not supported"
    if bundle.has_webhooks:
        return f"{_CONVERSION}: webhookDefiniions are not supported"
    return ""


def _is_ready(source: Mapping[str, Any] | None) -> bool:
    """Whether a CatalogSource is connected, has an address and is READY."""
    state = (source or {}).get("status", {}).get("connectionState") or {}
    return bool(state.get("address")) and state.get("lastObservedState") == "READY"


def _unsourced(text: str) -> str:
    return f"{text}: failed to run sourcing logic"


def _condition(conditions: list[dict[str, str]], type_: str) -> dict[str, str] | None:
    return next((c for c in conditions if c["type"] == type_), None)


def _image_of(bundle: Object) -> str:
    """The image of a Bundle; "" for a source of another type."""
    return str(bundle["spec"]["source"].get("image", {}).get("ref", ""))


def _deployment(operator: Object, image: str) -> Object:
    source = {"type": "image", "image": {"ref": image}}
    template = {"provisionerClassName": "core-rukpak-io-registry", "source": source}
    return {
        "apiVersion": "core.rukpak.io/v1alpha1",
        "kind": "BundleDeployment",
        "metadata": {
            "name": operator["metadata"]["name"],
            "uid": uid_of("BundleDeployment", operator["metadata"]["uid"]),
            "ownerReferences": [owner_reference(operator, controller=True)],
        },
        "spec": {
            "provisionerClassName": "core-rukpak-io-plain",
            "template": {"spec": template},
        },
    }


# --- the aggregated ClusterOperator


def _failing(operators: Iterable[Object]) -> dict[str, str]:
    """Name -> reason of every PlatformOperator that isn't installed, pending ones included."""
    reasons: dict[str, str] = {}
    for item in operators:
        installed = _condition(item.get("status", {}).get("conditions", []), "Installed")
        if installed is None:
            reasons[item["metadata"]["name"]] = "InstallPending"
        elif installed["status"] != "True":
            reasons[item["metadata"]["name"]] = installed["reason"]
    return reasons


def _message(reasons: Mapping[str, str], salt: str) -> str:
    """A single item stands alone, several are in brackets and in an order that `salt` changes."""
    items = [
        f'encountered the failing {name} platform operator with reason "{reason}"'
        for name, reason in reasons.items()
    ]
    items.sort(key=lambda text: hashlib.sha256((salt + text).encode()).digest())
    return items[0] if len(items) == 1 else "[" + ", ".join(items) + "]"


def _aggregated_conditions(operators: list[Object], now: str, salt: str) -> list[dict[str, str]]:
    """All three conditions with a new time: the real controller does not read the old ones."""
    reasons = _failing(operators)
    available: dict[str, str] = {"type": "Available"}
    progressing: dict[str, str] = {"type": "Progressing"}
    if reasons:
        text = _message(reasons, salt)
        available |= {"status": "False", "reason": "PlatformOperatorError", "message": text}
        progressing |= {"status": "True"}
    else:
        success = "All platform operators are in a successful state"
        text = success if operators else "No platform operators are present in the cluster"
        available |= {"status": "True", "reason": "AsExpected", "message": text}
        progressing |= {"status": "False", "reason": "AsExpected", "message": text}
    conditions = [progressing, {"type": "Degraded", "status": "False"}, available]
    return [{**condition, "lastTransitionTime": now} for condition in conditions]


def version_conditions(version: str, *, completed: bool, failing: bool) -> list[dict[str, str]]:
    """The conditions of the ClusterVersion without their times, as in cluster-version-operator
    pkg/cvo/status.go. `completed`: the update to `version` has ended; `failing`: the aggregated
    ClusterOperator is not available."""
    cause = {"reason": "ClusterOperatorNotAvailable"} if failing else {}
    missing = f"cluster operator {CLUSTER_OPERATOR} is not available"
    available: dict[str, str] = {"type": "Available", "status": "False"}
    progressing: dict[str, str] = {"type": "Progressing", "status": "True"}
    if completed:
        available |= {"status": "True", "message": f"Done applying {version}"}
        text = f"Error while reconciling {version}: the {missing}"
        progressing |= {
            "status": "False",
            "message": text if failing else f"Cluster version is {version}",
        }
    else:
        progressing["message"] = f"Unable to apply {version}: the {missing}"
    failed = {"type": "Failing", "status": "False"}
    if failing:
        failed |= {"status": "True", "message": missing.capitalize()}
    return [available, failed | cause, progressing | cause]


def _with_time(
    condition: dict[str, str], before: Mapping[str, str] | None, now: str
) -> dict[str, str]:
    """The condition with the time since when it has its status."""
    if before is not None and before["status"] == condition["status"]:
        now = before["lastTransitionTime"]
    return {**condition, "lastTransitionTime": now}


def _content(conditions: list[dict[str, str]]) -> set[tuple[str, str, str, frozenset[str]]]:
    """The conditions without their times and the order of the items in a message."""
    return {
        (
            condition["type"],
            condition["status"],
            condition.get("reason", ""),
            frozenset(_ITEM.findall(condition.get("message", ""))),
        )
        for condition in conditions
    }
