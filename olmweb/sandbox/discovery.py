"""Discovery: `/version`, `/api`, `/apis` and the resource lists. Answers never change."""

from itertools import groupby
from typing import Any

from olmweb.sandbox.kinds import Kind, all_kinds

VERSION = {
    "major": "1",
    "minor": "25",
    "gitVersion": "v1.25.2+sandbox",
    "platform": "linux/amd64",
}
_REVIEWS = {
    "authorization.k8s.io": ("selfsubjectaccessreviews", "SelfSubjectAccessReview"),
    "authentication.k8s.io": ("selfsubjectreviews", "SelfSubjectReview"),
}
_VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"]


def document(path: str) -> dict[str, Any] | None:
    """The discovery document at `path`, or None when it isn't a discovery path."""
    parts = path.strip("/").split("/")
    if parts == ["version"]:
        return dict(VERSION)
    if parts == ["api"]:
        return {"kind": "APIVersions", "apiVersion": "v1", "versions": ["v1"]}
    if parts == ["apis"]:
        groups = [_group(name) for name in _groups()]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
    if parts == ["api", "v1"]:
        return _resources("", "v1")
    if parts[0] == "apis" and len(parts) == 2 and parts[1] in _groups():
        return {"kind": "APIGroup", "apiVersion": "v1", **_group(parts[1])}
    if parts[0] == "apis" and len(parts) == 3 and (parts[1], parts[2]) in _versions():
        return _resources(parts[1], parts[2])
    return None


def _versions() -> list[tuple[str, str]]:
    served = {(kind.group, kind.version) for kind in all_kinds() if kind.group}
    return sorted(served | {(group, "v1") for group in _REVIEWS})


def _groups() -> list[str]:
    return sorted({group for group, _version in _versions()})


def _group(name: str) -> dict[str, Any]:
    found = [
        {"groupVersion": f"{name}/{version}", "version": version}
        for _name, version in next(
            list(pairs) for key, pairs in groupby(_versions(), key=lambda p: p[0]) if key == name
        )
    ]
    return {"name": name, "versions": found, "preferredVersion": found[0]}


def _resources(group: str, version: str) -> dict[str, Any]:
    served: list[dict[str, Any]] = []
    for kind in all_kinds():
        if (kind.group, kind.version) == (group, version):
            served += _entries(kind)
    if group in _REVIEWS:
        plural, name = _REVIEWS[group]
        served.append(
            {
                "name": plural,
                "singularName": name.lower(),
                "namespaced": False,
                "kind": name,
                "verbs": ["create"],
            }
        )
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": served,
    }


def _entries(kind: Kind) -> list[dict[str, Any]]:
    entry: dict[str, Any] = {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": _VERBS,
    }
    if kind.short_names:
        entry["shortNames"] = list(kind.short_names)
    if kind.categories:
        entry["categories"] = list(kind.categories)
    if not kind.has_status:
        return [entry]
    status = {
        "name": f"{kind.plural}/status",
        "singularName": "",
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": ["get", "patch", "update"],
    }
    return [entry, status]
