"""CustomResourceDefinition objects of the custom kinds: what a real API server would be given.

Pure: a Kind in, a manifest out. Rules that `schema` knows by name become CEL here.
"""

from collections.abc import Mapping
from typing import Any

from olmweb.sandbox.apiserver.kinds import AGE, Kind

Object = dict[str, Any]


def manifest(kind: Kind) -> Object:
    """The CRD that serves `kind`, without status; a real API server accepts it as it is."""
    version: Object = {
        "name": kind.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": _openapi(_rooted(kind))},
    }
    if kind.has_status:
        version["subresources"] = {"status": {}}
    if kind.columns != (AGE,):
        version["additionalPrinterColumns"] = [
            {"name": column.name, "type": column.type, "jsonPath": column.path}
            | ({"priority": column.priority} if column.priority else {})
            for column in kind.columns
        ]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.resource},
        "spec": {
            "group": kind.group,
            "names": _names(kind),
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "conversion": {"strategy": "None"},
            "versions": [version],
        },
    }


def established(kind: Kind, at: str) -> Object:
    """The CRD as a cluster that serves it stores it; `at` is a timestamp."""
    return manifest(kind) | {"status": accepted(_names(kind), [kind.version], at)}


def accepted(names: Mapping[str, Any], stored: list[str], at: str) -> Object:
    """The status of a CRD that is served; `stored` are its storedVersions."""
    said = {
        "NamesAccepted": ("NoConflicts", "no conflicts found"),
        "Established": ("InitialNamesAccepted", "the initial names have been accepted"),
    }
    return {
        "acceptedNames": dict(names),
        "conditions": [
            {
                "type": type_,
                "status": "True",
                "reason": reason,
                "message": message,
                "lastTransitionTime": at,
            }
            for type_, (reason, message) in said.items()
        ],
        "storedVersions": stored,
    }


def _names(kind: Kind) -> Object:
    names: Object = {
        "plural": kind.plural,
        "singular": kind.singular,
        "kind": kind.kind,
        "listKind": f"{kind.kind}List",
    }
    names |= {"shortNames": list(kind.short_names)} if kind.short_names else {}
    return names | ({"categories": list(kind.categories)} if kind.categories else {})


def _rooted(kind: Kind) -> Object:
    """The schema with the fields that every object has."""
    strings = {name: {"type": "string"} for name in ("apiVersion", "kind")}
    own = kind.schema.get("properties", {})
    return {**kind.schema, "properties": {**strings, "metadata": {"type": "object"}, **own}}


def _openapi(schema: Any) -> Any:
    if not isinstance(schema, Mapping):
        return schema
    made = {key: _openapi(value) for key, value in schema.items() if key != "x-rules"}
    if rules := schema.get("x-rules"):
        made["x-kubernetes-validations"] = [
            {"rule": _cel(rule), "message": rule["message"]} for rule in rules
        ]
    return made


def _cel(rule: Mapping[str, Any]) -> str:
    if "matches" in rule:
        return f"self.matches({_quoted(rule['matches'])})"
    if "requires" in rule:
        return f"has(self.{rule['requires']})"
    return "self == oldSelf"


def _quoted(pattern: str) -> str:
    return '"' + pattern.replace("\\", "\\\\").replace('"', '\\"') + '"'
