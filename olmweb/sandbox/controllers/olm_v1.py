"""Plays operator-controller: ClusterExtension -> bundle -> objects, a step at a time.

Level-triggered: every step reads only the objects. Choices and wordings are those of
operator-controller (resolve/catalog.go, applier/provider.go, applier/helm.go). Must not know HTTP.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from olmweb.sandbox.apiserver.kinds import Object
from olmweb.sandbox.apiserver.store import Key, Store, copied, owner_reference, timestamp
from olmweb.sandbox.controllers import csv_objects, helm, workloads
from olmweb.sandbox.controllers.bundles import (
    Blob,
    BundleContent,
    Catalogs,
    FileBasedCatalog,
    in_range,
    parse_version,
)
from olmweb.sandbox.controllers.workloads import Workload

_KIND, _LABELS = "ClusterExtension", "olm.operatorframework.io"
_FINALIZER = f"{_LABELS}/cleanup-unpack-cache"
_DEPENDENCIES = ("olm.package.required", "olm.gvk.required", "olm.constraint")


_NOT_DEPRECATED = {
    "Deprecated": "not deprecated",
    "PackageDeprecated": "package not deprecated",
    "ChannelDeprecated": "channel not deprecated",
    "BundleDeprecated": "bundle not deprecated",
}


class ExtensionCondition(NamedTuple):
    """A condition of a ClusterExtension, without type and times."""

    status: str
    reason: str
    message: str


Conditions = dict[str, ExtensionCondition]  # by type


class _Refused(Exception):
    """The reason for which nothing is installed, in operator-controller's words."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A bundle that could be installed; deprecated bundles only if there are no others."""

    catalog: str
    priority: int
    bundle: BundleContent
    deprecated: bool


class OlmV1:
    """The operator-controller of one sandbox cluster."""

    def __init__(self, store: Store, catalogs: Catalogs) -> None:
        self._store = store
        self._catalogs = catalogs

    def step_all(self) -> None:
        """One step for every ClusterExtension."""
        with self._store.changed:
            for item in self._store.items(_KIND)[0]:
                if "deletionTimestamp" in item["metadata"]:
                    self._finalize(item)
                elif _FINALIZER not in item["metadata"].get("finalizers", ()):
                    self._adopt(item)
                else:
                    self._reconcile(item)

    def _finalize(self, item: Object) -> None:
        """Removes the finalizer; the extension is deleted with the objects that it owns."""
        made = copied(item)
        finalizers = made["metadata"].get("finalizers", ())
        left = [name for name in finalizers if name != _FINALIZER]
        made["metadata"]["finalizers"] = left
        self._store.put(made)
        if not left:
            self._store.delete(_KIND, item["metadata"]["name"])

    def _adopt(self, item: Object) -> None:
        """Adds the finalizer; the settled extensions of the scenario stay as they are."""
        if item.get("status", {}).get("conditions") and item["metadata"].get("generation") == 1:
            return
        made = copied(item)
        made["metadata"].setdefault("finalizers", []).append(_FINALIZER)
        self._store.put(made)

    def _reconcile(self, item: Object) -> None:
        name, status = item["metadata"]["name"], item.get("status", {})
        installed = status.get("install", {}).get("bundle", {})
        try:
            chosen = self._resolve(item["spec"], installed)
            bundle = chosen.bundle
            self._check(item, bundle)
        except (_Refused, ValueError) as error:
            self._set_status(item, _failed(installed, str(error)), status.get("install"))
            return
        channel = ",".join(item["spec"]["source"]["catalog"].get("channels", ()))
        conditions = deprecation_conditions(
            self._catalogs[chosen.catalog], bundle.package, channel, bundle.name
        )
        if installed.get("name") != bundle.name and not _is_rolling_out(status):
            conditions["Installed"] = (
                ExtensionCondition("True", "Succeeded", "")
                if installed
                else ExtensionCondition("False", "Absent", "No bundle installed")
            )
            text = f"Rolling out {bundle.name} for {name}"
            conditions["Progressing"] = ExtensionCondition("True", "RollingOut", text)
            self._set_status(item, conditions, status.get("install"))
            return
        self._write(item, bundle)
        conditions |= succeeded(bundle.image)
        self._set_status(
            item, conditions, {"bundle": {"name": bundle.name, "version": bundle.version}}
        )

    def _check(self, item: Object, bundle: BundleContent) -> None:
        """Raises _Refused if the bundle can't be applied."""
        name, namespace = item["metadata"]["name"], item["spec"]["namespace"]
        prefix = f'error for resolved bundle "{bundle.name}" with version "{bundle.version}": '
        prefix += "unsupported bundle: "
        if bundle.owns_api_services:
            raise _Refused(f"{prefix}apiServiceDefintions are not supported")
        if bundle.has_webhooks:
            raise _Refused(f"{prefix}webhookDefinitions are not supported")
        if "AllNamespaces" not in bundle.install_modes:
            raise _Refused(f"{prefix}bundle does not support AllNamespaces install mode")
        if self._store.get("Namespace", namespace) is None:
            raise _Refused(f'namespaces "{namespace}" not found')
        crds = [("CustomResourceDefinition", "", crd["name"]) for crd in bundle.crds]
        error = helm.ownership_error(name, crds, self._owners(crds))
        if error:
            raise _Refused(error)

    def _owners(self, keys: list[Key]) -> dict[Key, str]:
        """The ClusterExtension that owns each of the existing objects; "" for none."""
        owners = {}
        for kind, namespace, name in keys:
            item = self._store.get(kind, name, namespace)
            if item is not None:
                labels = item["metadata"].get("labels") or {}
                is_owned = labels.get(f"{_LABELS}/owner-kind") == _KIND
                owners[kind, namespace, name] = labels[f"{_LABELS}/owner-name"] if is_owned else ""
        return owners

    def _write(self, item: Object, bundle: BundleContent) -> None:
        """Writes the bundle's objects, owned by the extension; replaces them only on a change."""
        namespace = item["spec"]["namespace"]
        labels = owner_labels(item["metadata"]["name"])
        owner = owner_reference(item, controller=True)
        installation = csv_objects.InstalledBundle(bundle, namespace, "", "", csv_objects.SUCCEEDED)
        now = self._store.now()
        for made in csv_objects.crds(installation, {}, now):
            if self._store.get(made["kind"], made["metadata"]["name"]) is None:
                made["metadata"] |= {"labels": labels, "ownerReferences": [owner]}
                self._store.put(made)
        workload = Workload(
            namespace=namespace,
            name=installation.deployment,
            image=bundle.image,
            state=workloads.AVAILABLE,
            labels=labels,
            owner=owner,
        )
        existing = self._store.get("Deployment", installation.deployment, namespace)
        if existing is None or _image_of(existing) != workload.image:
            self._delete_deployments(labels, namespace)
            for made in workloads.objects(workload, now):
                self._store.put(made)

    def _delete_deployments(self, labels: Mapping[str, str], namespace: str) -> None:
        """Deletes the Deployments of the previous version."""
        for item in self._store.items("Deployment", namespace)[0]:
            if labels.items() <= (item["metadata"].get("labels") or {}).items():
                self._store.delete("Deployment", item["metadata"]["name"], namespace)

    def _set_status(self, item: Object, conditions: Conditions, install: Object | None) -> None:
        """Writes the status; the time of a condition changes only with its `status`."""
        before = {entry["type"]: entry for entry in item.get("status", {}).get("conditions", [])}
        stamp = timestamp(self._store.now())
        generation = item["metadata"].get("generation", 1)
        made = copied(item)
        made["status"] = {"conditions": [], **({"install": install} if install else {})}
        for type_, condition in sorted(conditions.items()):
            old = before.get(type_, {})
            since = old["lastTransitionTime"] if old.get("status") == condition.status else stamp
            made["status"]["conditions"].append(
                condition_object(type_, condition, since, generation)
            )
        self._store.put(made)

    # --- resolution

    def _resolve(self, spec: Object, installed: Mapping[str, str]) -> _Candidate:
        """The highest requested version among the upgrades of the installed bundle."""
        request = spec["source"]["catalog"]
        candidates = [
            candidate for candidate in self._candidates(request) if self._meets(candidate, request)
        ]
        policy = request.get("upgradeConstraintPolicy", "CatalogProvided")
        if installed and policy != "SelfCertified":
            candidates = [
                candidate for candidate in candidates if self._upgrades(candidate, installed)
            ]
        if not candidates:
            raise _Refused(_no_bundles(request, installed))
        best = [candidate for candidate in candidates if not candidate.deprecated] or candidates
        priority = max(candidate.priority for candidate in best)
        best = [candidate for candidate in best if candidate.priority == priority]
        names = sorted({candidate.catalog for candidate in best})
        if len(names) > 1:
            raise _Refused(
                f'found bundles for package "{request["packageName"]}" in multiple catalogs with '
                f"the same priority [{' '.join(names)}]"
            )
        chosen = max(best, key=lambda c: parse_version(c.bundle.version) or (0, 0, 0, 0, ()))
        for item in chosen.bundle.properties:
            if item["type"] in _DEPENDENCIES:
                name = chosen.bundle.name
                raise _Refused(
                    f'validating bundle "{name}": bundle "{name}" has a dependency declared via '
                    f'property "{item["type"]}" which is currently not supported'
                )
        return chosen

    def _candidates(self, request: Object) -> Iterator[_Candidate]:
        """Every bundle of the package in the selected catalogs."""
        selected = request.get("selector", {}).get("matchLabels", {}).items()
        for item in self._store.items("ClusterCatalog")[0]:
            name = item["metadata"]["name"]
            if name in self._catalogs and selected <= item["metadata"].get("labels", {}).items():
                catalog, priority = self._catalogs[name], item["spec"].get("priority", 0)
                for bundle in catalog.bundles(request["packageName"]):
                    conditions = deprecation_conditions(catalog, bundle.package, "", bundle.name)
                    deprecated = conditions["BundleDeprecated"].status == "True"
                    yield _Candidate(name, priority, bundle, deprecated)

    def _entries(self, candidate: _Candidate) -> Iterator[tuple[str, Blob]]:
        """The name and the entry of every channel that has the bundle."""
        for channel in self._catalogs[candidate.catalog].channels(candidate.bundle.package):
            for entry in channel["entries"]:
                if entry["name"] == candidate.bundle.name:
                    yield channel["name"], entry

    def _meets(self, candidate: _Candidate, request: Object) -> bool:
        """Whether the bundle is in a requested channel and in the requested range."""
        requested = request.get("channels") or ()
        channels = [channel for channel, _ in self._entries(candidate)]
        in_channel = not requested or any(channel in channels for channel in requested)
        return in_channel and in_range(request.get("version", ""), candidate.bundle.version)

    def _upgrades(self, candidate: _Candidate, installed: Mapping[str, str]) -> bool:
        """Whether the bundle is the installed one or an entry of any channel leads to it."""
        if candidate.bundle.name == installed["name"]:
            return True
        for _channel, entry in self._entries(candidate):
            if entry.get("replaces") == installed["name"]:
                return True
            if installed["name"] in entry.get("skips", ()):
                return True
            if entry.get("skipRange") and in_range(entry["skipRange"], installed["version"]):
                return True
        return False


def deprecation_conditions(
    catalog: FileBasedCatalog, package: str, channel: str, bundle: str
) -> Conditions:
    """The four deprecation conditions; `Deprecated` joins the messages of the other three."""
    references = {
        "PackageDeprecated": ("olm.package", None),
        "ChannelDeprecated": ("olm.channel", channel),
        "BundleDeprecated": ("olm.bundle", bundle),
    }
    conditions = {
        type_: ExtensionCondition("False", "NotDeprecated", text)
        for type_, text in _NOT_DEPRECATED.items()
    }
    messages: list[str] = []
    for type_, reference in references.items():
        for entry in catalog.deprecations(package):
            if (entry["reference"]["schema"], entry["reference"].get("name")) == reference:
                conditions[type_] = ExtensionCondition("True", "Deprecated", entry["message"])
                messages.append(entry["message"])
    if messages:
        conditions["Deprecated"] = ExtensionCondition("True", "Deprecated", "\n".join(messages))
    return conditions


def succeeded(image: str) -> Conditions:
    """The conditions of an extension whose bundle is installed."""
    return {
        "Installed": ExtensionCondition(
            "True", "Succeeded", f"Installed bundle {image} successfully"
        ),
        "Progressing": ExtensionCondition("True", "Succeeded", "Desired state reached"),
    }


def condition_object(
    type_: str, condition: ExtensionCondition, since: str, generation: int
) -> Object:
    return {
        "type": type_,
        **condition._asdict(),
        "lastTransitionTime": since,
        "observedGeneration": generation,
    }


def owner_labels(extension: str) -> dict[str, str]:
    return {f"{_LABELS}/owner-kind": _KIND, f"{_LABELS}/owner-name": extension}


def _failed(installed: Mapping[str, str], text: str) -> Conditions:
    condition = (
        ExtensionCondition(
            "True", "Succeeded", f"Installed bundle {installed['name']} successfully"
        )
        if installed
        else ExtensionCondition("False", "Failed", "No bundle installed")
    )
    return {"Installed": condition, "Progressing": ExtensionCondition("True", "Retrying", text)}


def _is_rolling_out(status: Mapping[str, Any]) -> bool:
    return any(condition["reason"] == "RollingOut" for condition in status.get("conditions", ()))


def _image_of(deployment: Object) -> str:
    image: str = deployment["spec"]["template"]["spec"]["containers"][0]["image"]
    return image


def _no_bundles(request: Object, installed: Mapping[str, str]) -> str:
    text = (
        f'error upgrading from currently installed version "{installed["version"]}": '
        if installed
        else ""
    )
    text += f'no bundles found for package "{request["packageName"]}"'
    if request.get("version"):
        text += f' matching version "{request["version"]}"'
    if request.get("channels"):
        text += f" in channels [{' '.join(request['channels'])}]"
    return text
