"""Plays the platform-operators manager and rukpak: moves each PlatformOperator a step at a time.

Level-triggered: every step looks at the objects only. Must not know HTTP. The order of the checks
and every wording are in `rules`.
"""

import hashlib
import json
import threading
from collections.abc import Iterable, Mapping
from typing import Any

from olmweb.sandbox.apiserver.store import Object, Store, copied, timestamp, uid_of
from olmweb.sandbox.controllers import aggregate, helm, rules
from olmweb.sandbox.controllers.olm_v0 import OlmV0
from olmweb.sandbox.controllers.olm_v1 import OlmV1
from olmweb.sandbox.controllers.rules import SYSTEM_NAMESPACE, Release

SOURCE = ("openshift-marketplace", "redhat-operators")
# Kubernetes' alphabet for generated names: no vowels, nothing that is read wrongly.
_SAFE = "bcdfghjklmnpqrstvwxz2456789"


class Controller:
    """The controllers of one sandbox cluster."""

    def __init__(self, store: Store, releases: Iterable[Release], step_seconds: float) -> None:
        self._store = store
        self._step_seconds = step_seconds
        self._by_package: dict[str, list[Release]] = {}
        self._by_image: dict[str, Release] = {}
        for release in releases:
            self._by_package.setdefault(release.package, []).append(release)
            self._by_image[release.image] = release
        self._olm_v0 = OlmV0(store)
        self._olm_v1 = OlmV1(store)
        self.bundle_suffixes: Mapping[str, str] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sandbox-controller", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout=3)

    def _run(self) -> None:
        settled = -1
        while not self._stopping.wait(self._step_seconds):
            if self._store.version == settled:
                continue
            before = self._store.version
            self.step_all()
            # A step that wrote may have a next one; only a pass without writes is the end.
            settled = before if self._store.version == before else -1

    def step_all(self) -> None:
        """One step for every PlatformOperator, then the aggregate."""
        operators, _version = self._store.items("PlatformOperator")
        for item in operators:
            self.step(item["metadata"]["name"])
        self.aggregate()
        self._olm_v0.step_all()
        self._olm_v1.step_all()

    def settle(self, name: str) -> None:
        """Steps until nothing changes any more."""
        before = -1
        while self._store.version != before:
            before = self._store.version
            self.step(name)

    def step(self, name: str) -> None:
        """Moves one PlatformOperator on; does nothing when it is gone or has settled."""
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
        """Picks the bundle once; the BundleDeployment that it makes ends the sourcing for good."""
        package = operator["spec"]["package"]["name"]
        source = self._store.get("CatalogSource", SOURCE[1], SOURCE[0])
        if not rules.is_ready(source):
            text = "validation error: only a single catalog source is supported during phase 0"
            self._set_installed(operator, "False", "SourceFailed", _unsourced(text))
            return
        release = rules.pick(self._by_package.get(package, []))
        if release is None:
            text = f"failed to find candidate olm.bundles from the {package} package"
            self._set_installed(operator, "False", "SourceFailed", _unsourced(text))
            return
        self._store.put(_deployment(operator, release.image))
        self._report(operator, operator["metadata"]["name"])

    def _report(self, operator: Object, name: str) -> None:
        """The PlatformOperator's condition, read off its BundleDeployment."""
        deployment = self._store.get("BundleDeployment", name)
        conditions = (deployment or {}).get("status", {}).get("conditions", [])
        valid = _find(conditions, "HasValidBundle")
        installed = _find(conditions, "Installed")
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
        held = made.setdefault("status", {})
        # Set on success and never cleared afterwards, as the real manager does.
        active = held.setdefault("activeBundleDeployment", {"name": ""})
        if status == "True":
            active["name"] = made["metadata"]["name"]
        self._set_condition(held, "Installed", status, reason, text)
        self._store.put(made)

    def aggregate(self) -> None:
        """Rewrites the aggregated ClusterOperator when what it says has changed."""
        with self._store.changed:
            target = self._store.get("ClusterOperator", aggregate.NAME)
            if target is None:
                return
            operators, version = self._store.items("PlatformOperator")
            found = aggregate.conditions(operators, self._now(), str(version))
            if aggregate.same(target.get("status", {}).get("conditions", []), found):
                return
            made = copied(target)
            made["status"]["conditions"] = found
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
        fresh = self._bundle_of(deployment) or bundle
        self._store.put(self._validity(self._store.get("BundleDeployment", name) or {}, fresh))

    def _bundle_of(self, deployment: Object) -> Object | None:
        wanted = deployment["metadata"]["uid"]
        bundles, _version = self._store.items("Bundle")
        for bundle in bundles:
            if any(o["uid"] == wanted for o in bundle["metadata"].get("ownerReferences", [])):
                return bundle
        return None

    def _new_bundle(self, deployment: Object) -> Object:
        name = deployment["metadata"]["name"]
        template = deployment["spec"]["template"]
        suffix = self.bundle_suffixes.get(name) or _hash(json.dumps(template, sort_keys=True))
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
                "ownerReferences": [_owner(deployment)],
            },
            "spec": copied(template["spec"]),
            "status": {"observedGeneration": 1},
        }
        self._put_phase(made, "Pending", "False", "UnpackPending", "")
        return made

    def _unpack(self, bundle: Object) -> None:
        release = self._by_image.get(_ref(bundle["spec"]["source"]))
        # An image that no catalog blob names can't be pulled here either.
        error = rules.conversion_error(release) if release else "pull image: manifest unknown"
        if error:
            self._set_phase(bundle, "Failing", "False", "UnpackFailed", error)
            return
        made = copied(bundle)
        made["status"]["resolvedSource"] = copied(bundle["spec"]["source"])
        made["status"]["contentURL"] = (
            f"https://core.{SYSTEM_NAMESPACE}.svc/bundles/{bundle['metadata']['name']}.tgz"
        )
        text = f"Successfully unpacked the {bundle['metadata']['name']} Bundle"
        self._set_phase(made, "Unpacked", "True", "UnpackSuccessful", text)

    def _set_phase(self, bundle: Object, phase: str, status: str, reason: str, text: str) -> None:
        made = copied(bundle)
        self._put_phase(made, phase, status, reason, text)
        self._store.put(made)

    def _put_phase(self, made: Object, phase: str, status: str, reason: str, text: str) -> None:
        made["status"]["phase"] = phase
        self._set_condition(made["status"], "Unpacked", status, reason, text)

    def _validity(self, deployment: Object, bundle: Object) -> Object:
        """HasValidBundle of the BundleDeployment; True also while it merely waits."""
        made = copied(deployment)
        held = made.setdefault("status", {"observedGeneration": 1})
        name, phase = bundle["metadata"]["name"], bundle["status"]["phase"]
        if phase == "Failing":
            unpacked = _find(bundle["status"]["conditions"], "Unpacked") or {}
            text = f"Failed to unpack the {name} Bundle: {unpacked.get('message', '')}"
            self._set_condition(held, "HasValidBundle", "False", "UnpackFailed", text)
        elif phase == "Unpacked":
            text = f"Successfully unpacked the {name} Bundle"
            self._set_condition(held, "HasValidBundle", "True", "UnpackSuccessful", text)
        else:
            text = f"Waiting for the {name} Bundle to be unpacked"
            self._set_condition(held, "HasValidBundle", "True", "UnpackPending", text)
        return made

    def _install(self, deployment: Object, bundle: Object) -> None:
        """Helm's install, tried again at every step until it works."""
        name = deployment["metadata"]["name"]
        held = deployment["status"]
        installed = _find(held["conditions"], "Installed")
        if installed and installed["status"] == "True":
            return
        release = self._by_image[_ref(bundle["spec"]["source"])]
        error = rules.ownership_error(name, release.objects(), helm.existing(self._store))
        made = copied(deployment)
        if error:
            self._set_condition(made["status"], "Installed", "False", "InstallFailed", error)
        else:
            helm.install(self._store, deployment, release)
            text = f"instantiated bundle {bundle['metadata']['name']} successfully"
            self._set_condition(made["status"], "Installed", "True", "InstallationSucceeded", text)
            made["status"]["activeBundle"] = bundle["metadata"]["name"]
        self._store.put(made)

    def _set_condition(self, held: Object, type_: str, status: str, reason: str, text: str) -> None:
        """meta.SetStatusCondition: the time moves only when the status flips."""
        conditions = held.setdefault("conditions", [])
        before = _find(conditions, type_)
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


def _unsourced(text: str) -> str:
    return f"{text}: failed to run sourcing logic"


def _find(conditions: list[dict[str, str]], type_: str) -> dict[str, str] | None:
    return next((c for c in conditions if c["type"] == type_), None)


def _ref(source: Mapping[str, Any]) -> str:
    """The image of a bundle source; "" when it is of another type."""
    return str(source.get("image", {}).get("ref", ""))


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return "".join(_SAFE[byte % len(_SAFE)] for byte in digest[:6])


def _owner(item: Object) -> dict[str, object]:
    return {
        "apiVersion": item["apiVersion"],
        "kind": item["kind"],
        "name": item["metadata"]["name"],
        "uid": item["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _deployment(operator: Object, image: str) -> Object:
    source = {"type": "image", "image": {"ref": image}}
    template = {"provisionerClassName": "core-rukpak-io-registry", "source": source}
    return {
        "apiVersion": "core.rukpak.io/v1alpha1",
        "kind": "BundleDeployment",
        "metadata": {
            "name": operator["metadata"]["name"],
            "uid": uid_of("BundleDeployment", operator["metadata"]["uid"]),
            "ownerReferences": [_owner(operator)],
        },
        "spec": {
            "provisionerClassName": "core-rukpak-io-plain",
            "template": {"spec": template},
        },
    }
