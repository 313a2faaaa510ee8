"""The kinds that the sandbox serves: custom ones from `crds/`, built-in ones, and CRD manifests.

Owns names, scopes, schemas and columns; must not know the store.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

Object = dict[str, Any]
Schema = Mapping[str, Any]
CRDS = Path(__file__).parent / "crds"

# Built-in kinds have no CRD; only their metadata is validated.
FREE: Schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


@dataclass(frozen=True, slots=True)
class Column:
    """A printer column; columns of a `priority` above 0 are shown with `-o wide` only."""

    name: str
    type: str
    path: str
    priority: int = 0


AGE = Column("Age", "date", ".metadata.creationTimestamp")


@dataclass(frozen=True, slots=True)
class ResourceKind:
    """One resource of the API: its path, names and schema."""

    group: str
    version: str
    plural: str
    singular: str
    kind: str
    namespaced: bool
    has_status: bool
    schema: Schema
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    custom: bool = True  # served by a CRD
    has_generation: bool = True
    fields: tuple[str, ...] = ()  # for field selectors, beside metadata.name and metadata.namespace

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """`plural.group`, as messages name it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


def _built_in(
    group: str,
    plural: str,
    kind: str,
    short: str,
    *,
    namespaced: bool = True,
    status: bool = True,
    categories: tuple[str, ...] = (),
    generation: bool = False,
    fields: tuple[str, ...] = (),
) -> ResourceKind:
    return ResourceKind(
        group=group,
        version="v1",
        plural=plural,
        singular=kind.lower(),
        kind=kind,
        namespaced=namespaced,
        has_status=status,
        schema=FREE,
        short_names=tuple(short.split()),
        categories=categories,
        custom=False,
        has_generation=generation,
        fields=fields,
    )


_EVENT_FIELDS = (
    *(
        f"involvedObject.{name}"
        for name in (
            "kind",
            "namespace",
            "name",
            "uid",
            "apiVersion",
            "resourceVersion",
            "fieldPath",
        )
    ),
    "reason",
    "reportingComponent",
    "source",
    "type",
)
_BUILT_IN = (
    _built_in("", "namespaces", "Namespace", "ns", namespaced=False, fields=("status.phase",)),
    _built_in("", "services", "Service", "svc", categories=("all",)),
    _built_in("", "serviceaccounts", "ServiceAccount", "sa", status=False),
    _built_in("", "configmaps", "ConfigMap", "cm", status=False),
    _built_in("", "events", "Event", "ev", status=False, fields=_EVENT_FIELDS),
    _built_in(
        "",
        "pods",
        "Pod",
        "po",
        categories=("all",),
        generation=True,
        fields=("spec.nodeName", "spec.restartPolicy", "spec.serviceAccountName", "status.phase"),
    ),
    _built_in("rbac.authorization.k8s.io", "roles", "Role", "", status=False),
    _built_in("batch", "jobs", "Job", "", categories=("all",), generation=True),
    _built_in("apps", "deployments", "Deployment", "deploy", categories=("all",), generation=True),
    _built_in(
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        "crd crds",
        namespaced=False,
        categories=("api-extensions",),
        generation=True,
    ),
)


def _resolve(schema: Any, shared: Mapping[str, Any]) -> Any:
    """Replaces `{$use: NAME}` by the shared schema of that name."""
    if isinstance(schema, dict):
        if "$use" in schema:
            return _resolve(shared[schema["$use"]], shared)
        return {key: _resolve(value, shared) for key, value in schema.items()}
    return schema


def _custom(entry: Mapping[str, Any], shared: Mapping[str, Any]) -> ResourceKind:
    return ResourceKind(
        group=entry["group"],
        version=entry["version"],
        plural=entry["plural"],
        singular=entry["singular"],
        kind=entry["kind"],
        namespaced=entry["namespaced"],
        has_status=entry["status"],
        schema=_resolve(entry["schema"], shared),
        short_names=tuple(entry["shortNames"]),
        categories=tuple(entry["categories"]),
        columns=tuple(Column(*column) for column in entry.get("columns", [])) or (AGE,),
    )


@cache
def all_kinds() -> tuple[ResourceKind, ...]:
    """Every kind, custom resources first, then the built-in ones."""
    shared = yaml.load((CRDS / "shared.yaml").read_text(), yaml.CSafeLoader)
    custom = [
        _custom(entry, shared)
        for path in sorted(CRDS.glob("*.yaml"))
        if path.stem != "shared"
        for entry in yaml.load(path.read_text(), yaml.CSafeLoader)
    ]
    return (*custom, *_BUILT_IN)


@cache
def _by_kind() -> Mapping[str, ResourceKind]:
    return {kind.kind: kind for kind in all_kinds()}


@cache
def _by_path() -> Mapping[tuple[str, str, str], ResourceKind]:
    return {(kind.group, kind.version, kind.plural): kind for kind in all_kinds()}


def by_kind(name: str) -> ResourceKind:
    """The kind called `name`, e.g. `PlatformOperator`; KeyError when it isn't served."""
    return _by_kind()[name]


def by_path(group: str, version: str, plural: str) -> ResourceKind | None:
    return _by_path().get((group, version, plural))


# --- CustomResourceDefinition objects


def served_by(crd: Mapping[str, Any], version: str) -> ResourceKind | None:
    """The kind that a stored CRD serves in this version; None if it does not serve it."""
    spec = crd["spec"]
    if not any(row["name"] == version and row["served"] for row in spec["versions"]):
        return None
    names = spec["names"]
    return ResourceKind(
        group=spec["group"],
        version=version,
        plural=names["plural"],
        singular=names.get("singular") or names["kind"].lower(),
        kind=names["kind"],
        namespaced=spec["scope"] == "Namespaced",
        has_status=False,
        schema=FREE,
        columns=(AGE,),
    )


def crd_manifest(kind: ResourceKind) -> Object:
    """The CRD of `kind`, without status, in the form that a real API server accepts."""
    version = crd_version(kind.version, _openapi(_rooted(kind)))
    if kind.has_status:
        version["subresources"] = {"status": {}}
    if kind.columns != (AGE,):
        version["additionalPrinterColumns"] = [
            {"name": column.name, "type": column.type, "jsonPath": column.path}
            | ({"priority": column.priority} if column.priority else {})
            for column in kind.columns
        ]
    return new_crd(kind.group, _names(kind), version, namespaced=kind.namespaced)


def new_crd(group: str, names: Object, version: Object, *, namespaced: bool = True) -> Object:
    """A CRD with one served version, of which `version` has the name and the schema."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{names['plural']}.{group}"},
        "spec": {
            "group": group,
            "names": names,
            "scope": "Namespaced" if namespaced else "Cluster",
            "conversion": {"strategy": "None"},
            "versions": [version],
        },
    }


def crd_names(kind: str, plural: str, singular: str = "") -> Object:
    names = {"plural": plural, "singular": singular or kind.lower()}
    return {**names, "kind": kind, "listKind": f"{kind}List"}


def crd_version(name: str, schema: Schema) -> Object:
    """The served and stored version of a CRD."""
    served = {"name": name, "served": True, "storage": True}
    return {**served, "schema": {"openAPIV3Schema": schema}}


def established_crd(kind: ResourceKind, at: str) -> Object:
    """The CRD with the status of a cluster that serves it; `at` is a timestamp."""
    return crd_manifest(kind) | {"status": crd_status(_names(kind), [kind.version], at)}


def crd_status(names: Mapping[str, Any], stored: list[str], at: str) -> Object:
    """The status of a served CRD; `stored` are its storedVersions."""
    conditions = {
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
            for type_, (reason, message) in conditions.items()
        ],
        "storedVersions": stored,
    }


def _names(kind: ResourceKind) -> Object:
    names = crd_names(kind.kind, kind.plural, kind.singular)
    names |= {"shortNames": list(kind.short_names)} if kind.short_names else {}
    return names | ({"categories": list(kind.categories)} if kind.categories else {})


def _rooted(kind: ResourceKind) -> Object:
    """The schema with the fields that every object has: apiVersion, kind and metadata."""
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
