"""Plays operator-controller: ClusterExtension -> bundle -> objects, a step at a time.

Level-triggered: every step looks at the objects only. Choices and wordings are those of
operator-controller (resolve/catalog.go, applier/provider.go, applier/helm.go). Must not know HTTP,
nor how OLM Web predicts.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from olmweb.sandbox.apiserver.store import Object, Store, copied, timestamp
from olmweb.sandbox.controllers import ranges, rules
from olmweb.sandbox.scenario import csvs, extensions, workloads
from olmweb.sandbox.scenario.content import catalogs
from olmweb.sandbox.scenario.workloads import Workload

_KIND, _LABELS = "ClusterExtension", "olm.operatorframework.io"
_FINALIZER = f"{_LABELS}/cleanup-unpack-cache"
_DEPENDENCIES = ("olm.package.required", "olm.gvk.required", "olm.constraint")


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A bundle that could be installed; `deprecated` ones only when there is no other."""

    catalog: str
    priority: int
    blob: Mapping[str, Any]
    version: str
    deprecated: bool


class OlmV1:
    """The operator-controller of one sandbox cluster."""

    def __init__(self, store: Store) -> None:
        self._store = store

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
        """Lets it go; what it owns goes with it."""
        made = copied(item)
        left = [one for one in made["metadata"].get("finalizers", ()) if one != _FINALIZER]
        made["metadata"]["finalizers"] = left
        self._store.put(made)
        if not left:
            self._store.delete(_KIND, item["metadata"]["name"])

    def _adopt(self, item: Object) -> None:
        """Takes a new one; those that the scenario left settled stay as they are."""
        if item.get("status", {}).get("conditions") and item["metadata"].get("generation") == 1:
            return
        made = copied(item)
        made["metadata"].setdefault("finalizers", []).append(_FINALIZER)
        self._store.put(made)

    def _reconcile(self, item: Object) -> None:
        name, status = item["metadata"]["name"], item.get("status", {})
        now = status.get("install", {}).get("bundle", {})
        try:
            chosen = _resolve(self._store, item["spec"], now)
            self._check(item, chosen)
        except (_Refused, ValueError) as error:
            self._say(item, _failed(now, str(error)), status.get("install"))
            return
        bundle = chosen.blob["name"]
        channel = ",".join(item["spec"]["source"]["catalog"].get("channels", ()))
        said = extensions.deprecated(chosen.catalog, chosen.blob["package"], channel, bundle)
        if now.get("name") != bundle and not _is_rolling_out(status):
            said["Installed"] = (
                ("True", "Succeeded", "") if now else ("False", "Absent", "No bundle installed")
            )
            said["Progressing"] = ("True", "RollingOut", f"Rolling out {bundle} for {name}")
            self._say(item, said, status.get("install"))
            return
        self._write(item, chosen)
        image = chosen.blob["image"]
        said["Installed"] = ("True", "Succeeded", f"Installed bundle {image} successfully")
        said["Progressing"] = ("True", "Succeeded", "Desired state reached")
        self._say(item, said, {"bundle": {"name": bundle, "version": chosen.version}})

    def _check(self, item: Object, chosen: _Candidate) -> None:
        """What keeps the chosen bundle from being applied. Raises _Refused."""
        name, namespace = item["metadata"]["name"], item["spec"]["namespace"]
        release = rules.read_release(chosen.blob)
        prefix = f'error for resolved bundle "{chosen.blob["name"]}" with version '
        prefix += f'"{chosen.version}": unsupported bundle: '
        if release.owns_api_services:
            raise _Refused(f"{prefix}apiServiceDefintions are not supported")
        if release.has_webhooks:
            raise _Refused(f"{prefix}webhookDefinitions are not supported")
        if "AllNamespaces" not in release.modes:
            raise _Refused(f"{prefix}bundle does not support AllNamespaces install mode")
        if self._store.get("Namespace", namespace) is None:
            raise _Refused(f'namespaces "{namespace}" not found')
        wanted = [("CustomResourceDefinition", "", crd) for crd in release.crds]
        error = rules.ownership_error(name, wanted, self._owners(wanted))
        if error:
            raise _Refused(error)

    def _owners(self, wanted: list[rules.Owned]) -> dict[rules.Owned, str]:
        """The ClusterExtension that each of these objects is of; "" when it is of none."""
        found = {}
        for kind, namespace, name in wanted:
            there = self._store.get(kind, name, namespace)
            if there is not None:
                labels = there["metadata"].get("labels") or {}
                ours = labels.get(f"{_LABELS}/owner-kind") == _KIND
                found[kind, namespace, name] = labels[f"{_LABELS}/owner-name"] if ours else ""
        return found

    def _write(self, item: Object, chosen: _Candidate) -> None:
        """The bundle's objects, owned by the extension; written anew only when they change."""
        name, namespace = item["metadata"]["name"], item["spec"]["namespace"]
        labels = {f"{_LABELS}/owner-kind": _KIND, f"{_LABELS}/owner-name": name}
        owner = {
            "apiVersion": item["apiVersion"],
            "kind": _KIND,
            "name": name,
            "uid": item["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
        bundle = csvs.bundle_of(chosen.blob)
        placed = csvs.Placed(bundle, namespace, "", "", csvs.SUCCEEDED)
        now = self._store.now()
        for made in csvs.crds(placed, {}, now):
            if self._store.get(made["kind"], made["metadata"]["name"]) is None:
                made["metadata"] |= {"labels": labels, "ownerReferences": [owner]}
                self._store.put(made)
        wanted = Workload(
            namespace=namespace,
            name=placed.deployment,
            image=chosen.blob["image"],
            state=workloads.AVAILABLE,
            labels=labels,
            owner=owner,
        )
        there = self._store.get("Deployment", placed.deployment, namespace)
        if there is None or _image_of(there) != wanted.image:
            self._forget(labels, namespace)
            for made in workloads.objects(wanted, now):
                self._store.put(made)

    def _forget(self, labels: Mapping[str, str], namespace: str) -> None:
        """Deletes the Deployments, with their pods, of the version before."""
        for there in self._store.items("Deployment", namespace)[0]:
            if labels.items() <= (there["metadata"].get("labels") or {}).items():
                self._store.delete("Deployment", there["metadata"]["name"], namespace)

    def _say(
        self, item: Object, said: Mapping[str, tuple[str, str, str]], install: Object | None
    ) -> None:
        """The status; the time of a condition moves only with its `status`."""
        before = {one["type"]: one for one in item.get("status", {}).get("conditions", [])}
        stamp = timestamp(self._store.now())
        conditions = []
        for type_, (status, reason, message) in sorted(said.items()):
            old = before.get(type_, {})
            since = old["lastTransitionTime"] if old.get("status") == status else stamp
            conditions.append(
                {
                    "type": type_,
                    "status": status,
                    "reason": reason,
                    "message": message,
                    "lastTransitionTime": since,
                    "observedGeneration": item["metadata"].get("generation", 1),
                }
            )
        made = copied(item)
        made["status"] = {"conditions": conditions, **({"install": install} if install else {})}
        self._store.put(made)


class _Refused(Exception):
    """Why nothing is installed, in operator-controller's words."""


def _failed(now: Mapping[str, str], text: str) -> dict[str, tuple[str, str, str]]:
    installed = (
        ("True", "Succeeded", f"Installed bundle {now['name']} successfully")
        if now
        else ("False", "Failed", "No bundle installed")
    )
    return {"Installed": installed, "Progressing": ("True", "Retrying", text)}


def _is_rolling_out(status: Mapping[str, Any]) -> bool:
    return any(one["reason"] == "RollingOut" for one in status.get("conditions", ()))


def _image_of(deployment: Object) -> str:
    image: str = deployment["spec"]["template"]["spec"]["containers"][0]["image"]
    return image


# --- resolution


def _resolve(store: Store, spec: Object, now: Mapping[str, str]) -> _Candidate:
    """The bundle of the highest version that is asked for and follows what is installed."""
    asked = spec["source"]["catalog"]
    found = [one for one in _candidates(store, asked) if _is_asked(one, asked)]
    if now and asked.get("upgradeConstraintPolicy", "CatalogProvided") != "SelfCertified":
        found = [one for one in found if _follows(one, now)]
    if not found:
        raise _Refused(_nothing(asked, now))
    best = [one for one in found if not one.deprecated] or found
    top = max(one.priority for one in best)
    best = [one for one in best if one.priority == top]
    names = sorted({one.catalog for one in best})
    if len(names) > 1:
        raise _Refused(
            f'found bundles for package "{asked["packageName"]}" in multiple catalogs with the '
            f"same priority [{' '.join(names)}]"
        )
    chosen = max(best, key=lambda one: rules.parse_version(one.version) or (0, 0, 0, 0, ()))
    for each in chosen.blob["properties"]:
        if each["type"] in _DEPENDENCIES:
            bundle = chosen.blob["name"]
            raise _Refused(
                f'validating bundle "{bundle}": bundle "{bundle}" has a dependency declared via '
                f'property "{each["type"]}" which is currently not supported'
            )
    return chosen


def _candidates(store: Store, asked: Object) -> Iterator[_Candidate]:
    """Every bundle of the package in the catalogs that are selected."""
    wanted = asked.get("selector", {}).get("matchLabels", {})
    for catalog in store.items("ClusterCatalog")[0]:
        labels = catalog["metadata"].get("labels", {})
        if any(labels.get(key) != value for key, value in wanted.items()):
            continue
        name = catalog["metadata"]["name"]
        for blob in catalogs().get(name, ()):
            if (blob.get("schema"), blob.get("package")) == ("olm.bundle", asked["packageName"]):
                version = csvs.bundle_of(blob).version
                said = extensions.deprecated(name, blob["package"], "", blob["name"])
                old = said["BundleDeprecated"][0] == "True"
                yield _Candidate(name, catalog["spec"].get("priority", 0), blob, version, old)


def _entries(one: _Candidate) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Channel and entry of the bundle, in every channel that has it."""
    for blob in catalogs()[one.catalog]:
        if (blob.get("schema"), blob.get("package")) == ("olm.channel", one.blob["package"]):
            for entry in blob["entries"]:
                if entry["name"] == one.blob["name"]:
                    yield blob["name"], entry


def _is_asked(one: _Candidate, asked: Object) -> bool:
    channels = asked.get("channels") or ()
    there = [channel for channel, _ in _entries(one)]
    in_channel = not channels or any(channel in there for channel in channels)
    return in_channel and ranges.matches(asked.get("version", ""), one.version)


def _follows(one: _Candidate, now: Mapping[str, str]) -> bool:
    """Whether an entry of any channel leads there from what is installed, which follows itself."""
    if one.blob["name"] == now["name"]:
        return True
    for _channel, entry in _entries(one):
        if entry.get("replaces") == now["name"] or now["name"] in entry.get("skips", ()):
            return True
        if entry.get("skipRange") and ranges.matches(entry["skipRange"], now["version"]):
            return True
    return False


def _nothing(asked: Object, now: Mapping[str, str]) -> str:
    text = f'error upgrading from currently installed version "{now["version"]}": ' if now else ""
    text += f'no bundles found for package "{asked["packageName"]}"'
    if asked.get("version"):
        text += f' matching version "{asked["version"]}"'
    if asked.get("channels"):
        text += f" in channels [{' '.join(asked['channels'])}]"
    return text
