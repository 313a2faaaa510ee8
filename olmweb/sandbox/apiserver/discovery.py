"""Discovery: `/version`, `/api`, `/apis` and the resource lists. Answers never change."""

import re
from typing import Any

from olmweb.sandbox.apiserver.kinds import Kind, all_kinds

VERSION = {
    "major": "1",
    "minor": "25",
    "gitVersion": "v1.25.2+sandbox",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "linux/amd64",
}
REVIEWS = {
    "authorization.k8s.io": (
        ("selfsubjectaccessreviews", "SelfSubjectAccessReview"),
        ("selfsubjectrulesreviews", "SelfSubjectRulesReview"),
    ),
    "authentication.k8s.io": (("selfsubjectreviews", "SelfSubjectReview"),),
}
VERBS = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"]
_STABILITY = {"": 2, "beta": 1, "alpha": 0}


def document(path: str) -> dict[str, Any] | None:
    """The discovery document at `path`, or None when it isn't a discovery path."""
    parts = path.strip("/").split("/")
    if parts == ["version"]:
        return dict(VERSION)
    if parts == ["api"]:
        return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
    if parts == ["apis"]:
        groups = [_group(name) for name in _groups()]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
    if parts == ["api", "v1"]:
        return _resources("", "v1")
    if parts[0] == "apis" and len(parts) == 2 and parts[1] in _groups():
        return {"kind": "APIGroup", "apiVersion": "v1", **_group(parts[1])}
    if parts[0] == "apis" and len(parts) == 3 and parts[2] in _versions(parts[1]):
        return _resources(parts[1], parts[2])
    return None


def _groups() -> list[str]:
    return sorted({kind.group for kind in all_kinds() if kind.group} | set(REVIEWS))


def _versions(group: str) -> list[str]:
    """The versions of a group, the one to prefer first."""
    served = {kind.version for kind in all_kinds() if kind.group == group}
    if group in REVIEWS:
        served.add("v1")
    return sorted(served, key=_priority, reverse=True)


def _priority(version: str) -> tuple[int, int, int]:
    """Stable before beta before alpha, then the higher number."""
    found = re.match(r"^v(\d+)(?:(alpha|beta)(\d+))?$", version)
    if not found:
        return -1, 0, 0
    return _STABILITY[found[2] or ""], int(found[1]), int(found[3] or 0)


def _group(name: str) -> dict[str, Any]:
    found = [
        {"groupVersion": f"{name}/{version}", "version": version} for version in _versions(name)
    ]
    return {"name": name, "versions": found, "preferredVersion": found[0]}


def _resources(group: str, version: str) -> dict[str, Any]:
    served: list[dict[str, Any]] = []
    for kind in all_kinds():
        if (kind.group, kind.version) == (group, version):
            served += _entries(kind)
    for plural, name in REVIEWS.get(group, ()):
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
        "verbs": VERBS,
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
