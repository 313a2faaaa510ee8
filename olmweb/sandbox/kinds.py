"""The kinds that the sandbox serves, read from `data/crds.yaml`, plus core namespaces and services.

Owns names, scopes and schemas; must not know objects.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

Schema = Mapping[str, Any]
DATA = Path(__file__).parent / "data"

# Core kinds have no CRD; their few constraints that matter here are metadata's.
_FREE: Schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


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

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


def _core(plural: str, kind: str, short: str, *, namespaced: bool) -> Kind:
    return Kind("", "v1", plural, kind.lower(), kind, namespaced, True, _FREE, (short,))


def _resolve(schema: Any, shared: Mapping[str, Any]) -> Any:
    """Replaces `{$use: NAME}` by the shared schema of that name."""
    if isinstance(schema, dict):
        if "$use" in schema:
            return shared[schema["$use"]]
        return {key: _resolve(value, shared) for key, value in schema.items()}
    return schema


@cache
def all_kinds() -> tuple[Kind, ...]:
    """Every kind, custom resources first, then core."""
    document = yaml.safe_load((DATA / "crds.yaml").read_text())
    custom = [
        Kind(
            group=entry["group"],
            version=entry["version"],
            plural=entry["plural"],
            singular=entry["singular"],
            kind=entry["kind"],
            namespaced=entry["namespaced"],
            has_status=entry["status"],
            schema=_resolve(entry["schema"], document["shared"]),
            short_names=tuple(entry["shortNames"]),
            categories=tuple(entry["categories"]),
        )
        for entry in document["kinds"]
    ]
    core = [
        _core("namespaces", "Namespace", "ns", namespaced=False),
        _core("services", "Service", "svc", namespaced=True),
    ]
    return (*custom, *core)


def by_kind(name: str) -> Kind:
    """The kind called `name`, e.g. `PlatformOperator`; KeyError when it isn't served."""
    for kind in all_kinds():
        if kind.kind == name:
            return kind
    raise KeyError(name)


def by_path(group: str, version: str, plural: str) -> Kind | None:
    for kind in all_kinds():
        if (kind.group, kind.version, kind.plural) == (group, version, plural):
            return kind
    return None
