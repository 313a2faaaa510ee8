"""The kinds that the sandbox serves: custom ones from `data/crds`, and the few built-in ones.

Owns names, scopes, schemas and columns; must not know objects.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

Schema = Mapping[str, Any]
DATA = Path(__file__).parent.parent / "data"

# Built-in kinds have no CRD; their few constraints that matter here are metadata's.
_FREE: Schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


@dataclass(frozen=True, slots=True)
class Column:
    """A printer column; `priority` 0 is always shown, others with `-o wide`."""

    name: str
    type: str
    path: str
    priority: int = 0


AGE = Column("Age", "date", ".metadata.creationTimestamp")


@dataclass(frozen=True, slots=True)
class Kind:
    """One resource of the API: where it lives and what its objects must look like."""

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
    fields: tuple[str, ...] = ()  # what a field selector may name, beside metadata's two

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """As messages name it: `plural.group`."""
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
) -> Kind:
    return Kind(
        group=group,
        version="v1",
        plural=plural,
        singular=kind.lower(),
        kind=kind,
        namespaced=namespaced,
        has_status=status,
        schema=_FREE,
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
            return shared[schema["$use"]]
        return {key: _resolve(value, shared) for key, value in schema.items()}
    return schema


def _custom(entry: Mapping[str, Any], shared: Mapping[str, Any]) -> Kind:
    return Kind(
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
def all_kinds() -> tuple[Kind, ...]:
    """Every kind, custom resources first, then the built-in ones."""
    folder = DATA / "crds"
    shared = yaml.load((folder / "shared.yaml").read_text(), yaml.CSafeLoader)
    custom = [
        _custom(entry, shared)
        for path in sorted(folder.glob("*.yaml"))
        if path.stem != "shared"
        for entry in yaml.load(path.read_text(), yaml.CSafeLoader)
    ]
    return (*custom, *_BUILT_IN)


@cache
def _by_kind() -> Mapping[str, Kind]:
    return {kind.kind: kind for kind in all_kinds()}


@cache
def _by_path() -> Mapping[tuple[str, str, str], Kind]:
    return {(kind.group, kind.version, kind.plural): kind for kind in all_kinds()}


def by_kind(name: str) -> Kind:
    """The kind called `name`, e.g. `PlatformOperator`; KeyError when it isn't served."""
    return _by_kind()[name]


def by_path(group: str, version: str, plural: str) -> Kind | None:
    return _by_path().get((group, version, plural))
