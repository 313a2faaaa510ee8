"""From an object of the cluster to the fields that we keep. Pure; never raises for odd content.

Everything a cluster says is untrusted: a field of another type than its API's counts as absent,
text is cut to what its column holds, and NUL characters, which PostgreSQL refuses, are replaced.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec

from installs.aggregated import NAME as AGGREGATED
from installs.aggregated import parse_members
from olmweb.kube import conditions as kube_conditions

Key = tuple[str, str, str]  # kind, namespace, name

PLATFORM_CATALOG = "redhat-operators"  # phase 0 of PlatformOperators knows no other
CATALOG_LABEL = "olm.operatorframework.io/metadata.name"
_OWNER_KIND = "core.rukpak.io/owner-kind"
_OWNER_NAME = "core.rukpak.io/owner-name"
_TEXT_LIMIT = 32_768  # the longest message that operator-controller writes


@dataclass(frozen=True, slots=True)
class Kept:
    """What we keep of one object; `columns` are those of its own table."""

    kind: str
    namespace: str
    name: str
    uid: str
    resource_version: str
    generation: int
    created_at: datetime | None
    deleting: bool
    conditions: list[dict[str, Any]]
    columns: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> Key:
        return self.kind, self.namespace, self.name

    def digest(self, salt: str = "") -> str:
        """Of everything kept but the resourceVersion, which moves without anything changing."""
        content = (
            self.key,
            self.uid,
            self.generation,
            self.created_at,
            self.deleting,
            self.conditions,
            sorted(self.columns.items()),
            salt,
        )
        return hashlib.sha256(msgspec.json.encode(content)).hexdigest()


def dig(value: Any, *path: str) -> Any:
    """`value[path[0]][path[1]]...`, or None where there is no such thing."""
    for part in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(part)
    return value


def text(value: Any, *path: str, limit: int = _TEXT_LIMIT) -> str:
    """The text at `path`, at most `limit` characters; empty for anything else."""
    found = dig(value, *path)
    return found.replace("\x00", "\ufffd")[:limit] if isinstance(found, str) else ""


def platform_operator(obj: Mapping[str, Any]) -> Kept | None:
    return _kept(
        obj,
        "PlatformOperator",
        {
            "package": text(obj, "spec", "package", "name", limit=253),
            "catalog": PLATFORM_CATALOG,
        },
    )


def cluster_extension(obj: Mapping[str, Any]) -> Kept | None:
    catalog = dig(obj, "spec", "source", "catalog")
    channels = dig(catalog, "channels")
    named = [one for one in channels if isinstance(one, str)] if isinstance(channels, list) else []
    bundle = dig(obj, "status", "install", "bundle")
    return _kept(
        obj,
        "ClusterExtension",
        {
            "package": text(catalog, "packageName", limit=253),
            "catalog": text(catalog, "selector", "matchLabels", CATALOG_LABEL, limit=253),
            "channel": ", ".join(named)[:300],
            "version_asked": text(catalog, "version", limit=200),
            "version": text(bundle, "version", limit=200),
            "bundle": text(bundle, "name", limit=1000),
        },
    )


def bundle_deployment(obj: Mapping[str, Any]) -> Kept | None:
    """v1alpha1 keeps the source in a template, v1alpha2 in the spec itself."""
    owner_kind, owner_name = _controller(obj)
    image = text(obj, "spec", "source", "image", "ref", limit=1000) or text(
        obj, "spec", "template", "spec", "source", "image", "ref", limit=1000
    )
    return _kept(obj, "BundleDeployment", _component(obj, owner_kind, owner_name, image))


def bundle(obj: Mapping[str, Any]) -> Kept | None:
    labels = dig(obj, "metadata", "labels")
    owner_kind, owner_name = text(labels, _OWNER_KIND, limit=100), text(labels, _OWNER_NAME)
    if not owner_name:
        owner_kind, owner_name = _controller(obj)
    image = text(obj, "spec", "source", "image", "ref", limit=1000)
    return _kept(obj, "Bundle", _component(obj, owner_kind, owner_name, image))


def cluster_operator(obj: Mapping[str, Any]) -> Kept | None:
    kept = _kept(obj, "ClusterOperator", {})
    if kept is None:
        return None
    found = kept.conditions
    severity, worst = worst_condition(found)
    versions = dig(obj, "status", "versions")
    operator = next(
        (
            text(one, "version", limit=200)
            for one in (versions if isinstance(versions, list) else ())
            if dig(one, "name") == "operator"
        ),
        "",
    )
    available = kube_conditions.text(kube_conditions.find(found, "Available"), "message")
    kept.columns.update(
        version=operator,
        available=kube_conditions.status_of(found, "Available")[:10],
        progressing=kube_conditions.status_of(found, "Progressing")[:10],
        degraded=kube_conditions.status_of(found, "Degraded")[:10],
        upgradeable=kube_conditions.status_of(found, "Upgradeable")[:10],
        severity=severity,
        reason=kube_conditions.text(worst, "reason")[:1024],
        message=kube_conditions.text(worst, "message"),
        aggregated=kept.name == AGGREGATED or bool(parse_members(available)),
        problem="",
    )
    return kept


def worst_condition(
    conditions: list[dict[str, Any]],
) -> tuple[int, Mapping[str, Any] | None]:
    """(severity, the condition that decides it): 3 unavailable, 2 degraded, 1 to watch, 0 fine.

    What a cluster upgrade minds decides the order: Available, then Degraded, then the rest. An
    operator that does not say whether it is available is one to watch.
    """
    ranks = (
        ("Available", "False", 3),
        ("Degraded", "True", 2),
        ("Upgradeable", "False", 1),
        ("Progressing", "True", 1),
        ("Available", "Unknown", 1),
    )
    for kind, status, severity in ranks:
        if kube_conditions.status_of(conditions, kind) == status:
            return severity, kube_conditions.find(conditions, kind)
    return 0, kube_conditions.find(conditions, "Available")


def is_installed(kept: Kept) -> bool:
    """Whether a PlatformOperator says that it is installed."""
    return kube_conditions.status_of(kept.conditions, "Installed") == "True"


def cluster_version(obj: Mapping[str, Any]) -> str:
    """Version that a ClusterVersion last completed, else the one it is on its way to."""
    history = dig(obj, "status", "history")
    for entry in history if isinstance(history, list) else ():
        if dig(entry, "state") == "Completed":
            return text(entry, "version", limit=100)
    return text(obj, "status", "desired", "version", limit=100)


DECODERS: dict[str, Callable[[Mapping[str, Any]], Kept | None]] = {
    "PlatformOperator": platform_operator,
    "ClusterExtension": cluster_extension,
    "BundleDeployment": bundle_deployment,
    "Bundle": bundle,
    "ClusterOperator": cluster_operator,
}


def _kept(obj: Mapping[str, Any], kind: str, columns: dict[str, Any]) -> Kept | None:
    """None for an object without a name, which no API server sends."""
    meta = dig(obj, "metadata")
    name = text(meta, "name", limit=253)
    if not name:
        return None
    generation = dig(meta, "generation")
    return Kept(
        kind=kind,
        namespace=text(meta, "namespace", limit=63),
        name=name,
        uid=text(meta, "uid", limit=64),
        resource_version=text(meta, "resourceVersion", limit=64),
        generation=generation if isinstance(generation, int) and generation > 0 else 0,
        created_at=read_time(dig(meta, "creationTimestamp")),
        deleting=bool(dig(meta, "deletionTimestamp")),
        conditions=[
            {key: text(one, key) if isinstance(value, str) else value for key, value in one.items()}
            for one in kube_conditions.read(obj)
        ],
        columns=columns,
    )


def read_time(value: Any) -> datetime | None:
    """A Kubernetes timestamp, or None for anything else and for a moment that UTC can't say."""
    if not isinstance(value, str):
        return None
    try:
        found = datetime.fromisoformat(value)
        return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


def _component(
    obj: Mapping[str, Any], owner_kind: str, owner_name: str, image: str
) -> dict[str, Any]:
    return {
        "api_version": text(obj, "apiVersion", limit=300),
        "owner_kind": owner_kind,
        "owner_name": owner_name[:253],
        "phase": text(obj, "status", "phase", limit=60),
        "image": image,
    }


def _controller(obj: Mapping[str, Any]) -> tuple[str, str]:
    """(kind, name) of the owner that controls the object."""
    owners = dig(obj, "metadata", "ownerReferences")
    for owner in owners if isinstance(owners, list) else ():
        if dig(owner, "controller") is True:
            return text(owner, "kind", limit=100), text(owner, "name", limit=253)
    return "", ""
