"""The demo's file-based catalogs `redhat-operators` and `community-operators`.

Owns the blobs: packages, channels, bundles with their manifests. The bytes are the same at every
start.
"""

import base64
import json
from collections.abc import Iterable
from datetime import date, timedelta
from functools import cache
from typing import Any

from olmweb.sandbox.apiserver.kinds import FREE, crd_names, crd_version, new_crd
from olmweb.sandbox.controllers.bundles import FileBasedCatalog
from olmweb.sandbox.scenario.packages import (
    ALL_MODES,
    LEVELS,
    MODES,
    PackageFacts,
    ProvidedKind,
    areas,
    description,
    digest,
    history,
    icon,
    number,
    packages,
)

Blob = dict[str, Any]
_NEWEST = date(2022, 10, 20)


def as_jsonl(blobs: Iterable[Blob]) -> bytes:
    """The blobs as catalogd serves them: compact lines, keys sorted, no HTML escapes."""
    return b"".join(
        json.dumps(blob, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        for blob in blobs
    )


@cache
def served(catalog: str) -> bytes:
    """The content of a ClusterCatalog as catalogd serves it."""
    return as_jsonl(blobs()[catalog])


@cache
def catalogs() -> dict[str, FileBasedCatalog]:
    return {name: FileBasedCatalog(items) for name, items in blobs().items()}


@cache
def blobs() -> dict[str, tuple[Blob, ...]]:
    """The blobs of both catalogs by ClusterCatalog name.

    `redhat-operators` contains every manifest of its bundles, as catalogs of 4.12 do; the other has
    the form of later catalogs, which leave most manifests to the bundle images.
    """
    main = packages("packages") | packages("extras")
    return {
        "redhat-operators": (*_catalog(main, whole=True), _notes()),
        "community-operators": _catalog(packages("community"), whole=False),
    }


def _catalog(members: dict[str, PackageFacts], *, whole: bool) -> tuple[Blob, ...]:
    return tuple(blob for name in sorted(members) for blob in _package(members[name], whole=whole))


def _notes() -> Blob:
    """A blob of an unknown schema, which readers must accept."""
    return {
        "schema": "demo.olmweb.dev/notes",
        "package": "ceiling-demo",
        "name": "release-notes",
        "notes": [{"version": "1.1.0", "text": "The ceiling is 4.13 now."}],
    }


def _package(package: PackageFacts, *, whole: bool) -> list[Blob]:
    versions = _versions(package)
    channels = _channels(package, versions)
    blob: Blob = {
        "schema": "olm.package",
        "name": package.name,
        "defaultChannel": channels[0]["name"],
        "description": package.does,
    }
    if image := icon(package):
        blob["icon"] = image
    blobs = [blob, *channels]
    blobs += [_bundle(package, versions, index, whole=whole) for index in range(len(versions))]
    if package.special == "deprecations":
        blobs.append(_deprecations(package, versions))
    return blobs


def _versions(package: PackageFacts) -> list[str]:
    """Oldest first."""
    if package.special == "prereleases":
        return ["0.8.0", "0.8.1+build.7", "0.9.0-nightly.20221018", "0.9.0-rc.1", "0.9.0-rc.2"]
    versions = history(package.version, package.versions)
    if package.special == "channels":
        versions.append("1.5.0-rc.1")
    return versions


def _name(package: PackageFacts, version: str) -> str:
    return f"{package.name}.v{version}".replace("+", "-")


def _channel(package: PackageFacts, name: str, entries: list[Blob]) -> Blob:
    return {"schema": "olm.channel", "package": package.name, "name": name, "entries": entries}


def _chain(package: PackageFacts, versions: list[str], before: str = "") -> list[Blob]:
    """Each version replaces its predecessor; some have a range or a skip as well."""
    entries: list[Blob] = []
    last = before
    for index, version in enumerate(versions):
        entry: Blob = {"name": _name(package, version)}
        if last:
            entry["replaces"] = _name(package, last)
        if index and number("range", package.name, version) % 3 == 0:
            entry["skipRange"] = f">={versions[0]} <{version}"
        if index > 1 and number("skip", package.name) % 4 == 0 and index == len(versions) - 1:
            # The version before the newest is broken: upgrades skip it.
            entry["skips"] = [_name(package, last)]
            entry["replaces"] = _name(package, versions[index - 2])
        entries.append(entry)
        last = version
    return entries


def _channels(package: PackageFacts, versions: list[str]) -> list[Blob]:
    """The default channel comes first."""
    if package.special == "channels":
        return _many_channels(package, versions)
    if package.special == "heads":
        entries = _chain(package, versions)
        entries[-1]["replaces"] = entries[-3]["name"]
        entries[-1].pop("skips", None)
        entries[-1].pop("skipRange", None)
        return [_channel(package, "stable", entries)]
    if package.special == "prereleases":
        stable = _channel(package, "stable", _chain(package, versions[:2]))
        return [stable, _channel(package, "nightly", _chain(package, versions))]
    if package.special == "deprecations":
        old = _channel(package, "old", _chain(package, versions[:3]))
        return [_channel(package, "stable", _chain(package, versions)), old]
    minor = versions[-1].rsplit(".", 1)[0].split("-")[0]
    newest = [v for v in versions if v.startswith(minor + ".")]
    older = versions[: len(versions) - len(newest)]
    style = number("channels", package.name) % 5
    if style == 0:
        return [_channel(package, "alpha", _chain(package, versions))]
    channels = [_channel(package, "stable", _chain(package, versions))]
    if style < 4:
        chain = _chain(package, newest, older[-1] if older else "")
        channels.append(_channel(package, f"stable-{minor}", chain))
    if style == 3 and older:
        channels.append(_channel(package, "candidate", _chain(package, versions)))
    return channels


def _many_channels(package: PackageFacts, versions: list[str]) -> list[Blob]:
    """Four channels, with skips and a skip range on the way to the same head."""
    released, candidate = versions[:-1], versions[-1]
    stable = _chain(package, released)
    stable[-1] |= {
        "replaces": stable[-3]["name"],
        "skips": [stable[-2]["name"]],
        "skipRange": f">={released[0]} <{released[-1]}",
    }
    old_minor = released[0].rsplit(".", 1)[0]
    old = [v for v in released if v.startswith(old_minor + ".")]
    fast = [*stable, {"name": _name(package, candidate), "replaces": stable[-1]["name"]}]
    return [
        _channel(package, "stable", stable),
        _channel(package, "candidate", fast),
        _channel(package, f"stable-{old_minor}", _chain(package, old)),
        _channel(package, "latest", [{"name": _name(package, released[-1])}]),
    ]


def _deprecations(package: PackageFacts, versions: list[str]) -> Blob:
    entries = [
        {
            "reference": {"schema": "olm.package"},
            "message": f"{package.name} gets no more fixes after this release; use amq-streams.",
        },
        {
            "reference": {"schema": "olm.channel", "name": "old"},
            "message": "The channel old has ended; switch to stable.",
        },
        {
            "reference": {"schema": "olm.bundle", "name": _name(package, versions[0])},
            "message": f"{versions[0]} loses messages on restart; upgrade to {versions[-1]}.",
        },
    ]
    return {"schema": "olm.deprecations", "package": package.name, "entries": entries}


def _image(*parts: str) -> str:
    host = "registry.redhat.io" if parts[0] == "Red Hat" else "quay.io"
    return f"{host}/{'/'.join(parts[1:-1])}@sha256:{digest(*parts).hex()}"


def _bundle_image(package: PackageFacts, version: str) -> str:
    return _image(package.provider, "olmweb-sandbox", f"{package.name}-bundle", version)


def _bundle(package: PackageFacts, versions: list[str], index: int, *, whole: bool) -> Blob:
    version = versions[index]
    operand = _image(package.provider, "olmweb-sandbox", package.name, version)
    image = _bundle_image(package, version)
    return {
        "schema": "olm.bundle",
        "package": package.name,
        "name": _name(package, version),
        "image": image,
        "properties": _properties(package, versions, index, whole=whole),
        "relatedImages": [
            {"name": "", "image": image},
            {"name": f"{package.name}-controller", "image": operand},
        ],
    }


def _properties(
    package: PackageFacts, versions: list[str], index: int, *, whole: bool
) -> list[Blob]:
    version = versions[index]
    properties: list[Blob] = [
        {"type": "olm.gvk", "value": {"group": c.group, "kind": c.kind, "version": c.version}}
        for c in package.kinds
    ]
    identity = {"packageName": package.name, "version": version}
    properties.append({"type": "olm.package", "value": identity})
    if package.special == "requires":
        gvk = {"group": "storage.demo.olmweb.dev", "kind": "Bucket", "version": "v1alpha1"}
        needed = {"packageName": "object-store-demo", "versionRange": ">=2.0.0 <3.0.0"}
        properties += [
            {"type": "olm.gvk.required", "value": gvk},
            {"type": "olm.package.required", "value": needed},
        ]
    if package.special == "ceiling":
        # A bare string, unlike every other property's value.
        properties.append({"type": "olm.maxOpenShiftVersion", "value": f"4.{11 + index}"})
    metadata = _metadata(package, versions, index)
    if whole or package.webhook:
        before = _name(package, versions[index - 1]) if index else ""
        name = _name(package, version)
        return properties + _manifest_properties(package, version, name, before, metadata)
    return [*properties, {"type": "olm.csv.metadata", "value": metadata}]


def _metadata(package: PackageFacts, versions: list[str], index: int) -> Blob:
    """The value of `olm.csv.metadata`."""
    version, area = versions[index], areas()[package.area]
    age = (len(versions) - 1 - index) * 45 + number("age", package.name) % 40
    annotations = {
        "capabilities": LEVELS[package.level - 1],
        "categories": area.category,
        "containerImage": _image(package.provider, "olmweb-sandbox", package.name, version),
        "createdAt": f"{_NEWEST - timedelta(days=age)}T08:{number(package.name) % 60:02}:00Z",
        "description": package.does,
        "repository": f"https://git.example.com/{package.name}",
        "support": package.provider,
        "alm-examples": json.dumps([_example(package)]),
    }
    if package.namespace:
        annotations["operatorframework.io/suggested-namespace"] = package.namespace
    metadata: Blob = {
        "annotations": annotations,
        "apiServiceDefinitions": {},
        "crdDescriptions": {"owned": _owned_crds(package)},
        "description": description(package, version),
        "displayName": package.title,
        "installModes": [
            {"type": mode, "supported": mode in MODES[package.modes]} for mode in ALL_MODES
        ],
        "keywords": [*area.keywords, package.name.split("-")[0]],
        "links": [
            {"name": "Documentation", "url": f"https://docs.example.com/{package.name}"},
            {"name": "Source", "url": f"https://git.example.com/{package.name}"},
        ],
        "maintainers": [{"name": package.provider, "email": f"{package.area}@example.com"}],
        "maturity": "stable" if package.level > 1 else "alpha",
        "minKubeVersion": f"1.{21 + number('kube', package.name) % 4}.0",
        "provider": {"name": package.provider, "url": "https://www.example.com"},
    }
    if package.needs:
        metadata["crdDescriptions"]["required"] = [
            {"name": crd.name, "kind": crd.kind, "version": crd.version} for crd in package.needs
        ]
    if package.special == "apiservice":
        owned = {
            "name": "v1alpha1.metrics-api",
            "group": "metrics-api.demo.olmweb.dev",
            "version": "v1alpha1",
            "kind": "Sample",
            "deploymentName": "metrics-api-demo",
        }
        metadata["apiServiceDefinitions"] = {"owned": [owned]}
    return metadata


def _owned_crds(package: PackageFacts) -> list[Blob]:
    return [
        {
            "name": crd.name,
            "kind": crd.kind,
            "version": crd.version,
            "displayName": crd.kind,
            "description": f"Describes one {crd.kind} of {package.title}.",
        }
        for crd in package.kinds
    ]


def _example(package: PackageFacts) -> Blob:
    crd = package.kinds[0]
    return {
        "apiVersion": f"{crd.group}/{crd.version}",
        "kind": crd.kind,
        "metadata": {"name": "example"},
        "spec": {"replicas": 1 + number("replicas", package.name) % 3},
    }


# --- manifests of bundles

_OPERANDS = ("deployments", "statefulsets")
_LEADER = "leader-election"


def _manifest_properties(
    package: PackageFacts, version: str, name: str, replaces: str, metadata: Blob
) -> list[Blob]:
    """One property for each manifest, the ClusterServiceVersion first.

    `metadata` is the value that `olm.csv.metadata` would have, `replaces` the bundle before.
    """
    manifests = [
        _csv(package, version, name, replaces, metadata),
        *(_crd(package, crd) for crd in package.kinds),
        *(_role(role) for role in package.roles),
    ]
    return [{"type": "olm.bundle.object", "value": {"data": _encoded(item)}} for item in manifests]


def _encoded(manifest: Blob) -> str:
    text = json.dumps(manifest, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return base64.b64encode(text.encode()).decode()


def _csv(package: PackageFacts, version: str, name: str, replaces: str, metadata: Blob) -> Blob:
    spec: Blob = {
        "displayName": metadata["displayName"],
        "description": metadata["description"],
        "version": version,
        "installModes": metadata["installModes"],
        "keywords": metadata["keywords"],
        "links": metadata["links"],
        "maintainers": metadata["maintainers"],
        "maturity": metadata["maturity"],
        "minKubeVersion": metadata["minKubeVersion"],
        "provider": metadata["provider"],
        "customresourcedefinitions": metadata["crdDescriptions"],
        "install": {"strategy": "deployment", "spec": _strategy(package, metadata)},
    }
    if services := metadata["apiServiceDefinitions"]:
        spec["apiservicedefinitions"] = services
    if package.webhook:
        spec["webhookdefinitions"] = [_webhook(package)]
    if replaces:
        spec["replaces"] = replaces
    return {
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {"name": name, "annotations": metadata["annotations"]},
        "spec": spec,
    }


def _strategy(package: PackageFacts, metadata: Blob) -> Blob:
    """A Deployment and the permissions of its ServiceAccount: its own kinds and their workloads."""
    account, labels = f"{package.name}-controller", {"name": f"{package.name}-controller"}
    container = {
        "name": "manager",
        "image": metadata["annotations"]["containerImage"],
        "command": ["/manager"],
    }
    template = {
        "metadata": {"labels": labels},
        "spec": {"serviceAccountName": account, "containers": [container]},
    }
    deployment = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    watched = ["configmaps", "services"] + (["secrets"] if number("rbac", package.name) % 3 else [])
    rules = [
        {"apiGroups": sorted({crd.group for crd in package.kinds}), "resources": ["*"]},
        {"apiGroups": ["apps"], "resources": list(_OPERANDS)},
        {"apiGroups": [""], "resources": watched},
    ]
    granted = [{**rule, "verbs": ["create", "delete", "get", "list", "watch"]} for rule in rules]
    return {
        "deployments": [{"name": account, "spec": deployment}],
        "clusterPermissions": [{"serviceAccountName": account, "rules": granted}],
    }


def _webhook(package: PackageFacts) -> Blob:
    kind = package.kinds[0]
    rule = {
        "apiGroups": [kind.group],
        "apiVersions": [kind.version],
        "operations": ["CREATE", "UPDATE"],
        "resources": [kind.plural],
    }
    return {
        "type": "ValidatingAdmissionWebhook",
        "generateName": f"v{kind.kind.lower()}.{package.name}.example.com",
        "admissionReviewVersions": ["v1"],
        "containerPort": 443,
        "targetPort": 9443,
        "deploymentName": f"{package.name}-controller",
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "webhookPath": f"/validate-{kind.kind.lower()}",
        "rules": [rule],
    }


def _crd(package: PackageFacts, crd: ProvidedKind) -> Blob:
    schema = {
        "type": "object",
        "description": f"One {crd.kind} of {package.title}.",
        "properties": {"spec": FREE, "status": FREE},
    }
    names = crd_names(crd.kind, crd.plural)
    return new_crd(crd.group, names, crd_version(crd.version, schema))


def _role(name: str) -> Blob:
    """Without a namespace, as bundles ship it: it lands where the installer's release lives."""
    verbs = ["create", "get", "list", "update", "watch"]
    rule = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": verbs}
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": name, "labels": {"app.kubernetes.io/component": _LEADER}},
        "rules": [rule],
    }
