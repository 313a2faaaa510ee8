"""Describes the properties of a bundle: the meaning of each type, constraints as sentences.

Pure: reads a bundle's blob as its author wrote it (JSON or YAML), valid or not. Faults are
reported by `catalogs.fbc.lint`.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from catalogs.fbc import blob as fbc
from catalogs.fbc.bundle import read_manifest

# Types of properties by which a bundle depends on others.
DEPENDENCIES = ("olm.package.required", "olm.gvk.required", "olm.constraint")
SHOWN = 200  # characters of a value
DEEPEST = 12  # levels of nested constraints that are shown
WIDEST = 50  # constraints on one level


@dataclass(frozen=True, slots=True)
class ConstraintText:
    """A constraint as a sentence, with the members of a compound constraint."""

    text: str
    parts: list["ConstraintText"] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class PropertyText:
    """One property: the meaning of its type, "" if unknown; its value as a sentence and as JSON."""

    type: str
    meaning: str
    text: str
    raw: str
    rule: ConstraintText | None = None


def describe_properties(blob: bytes) -> list[PropertyText]:
    """The properties of an olm.bundle blob in its order; none for an unreadable blob."""
    try:
        source = blob if blob.lstrip()[:1] == b"{" else fbc.yaml_to_json(blob)
        bundle = fbc.decode(fbc.read_header(source)[1], fbc.BundleIn)[0]
    except (fbc.BadBlob, *fbc.DECODE_ERRORS):
        return []
    return [_describe(item) for item in fbc.properties_of(bundle)]


def _describe(item: fbc.PropertyIn) -> PropertyText:
    kind = item.type or ""
    raw = bytes(item.value).decode(errors="replace")
    try:
        value = msgspec.json.decode(item.value) if raw else None
    except fbc.DECODE_ERRORS:
        value = None
    rule = None
    if kind == "olm.constraint" and isinstance(value, Mapping):
        rule = _constraint(value, 0)
    meaning, describe = _TYPES.get(kind, ("", None))
    text = describe(item.value if kind == "olm.bundle.object" else value) if describe else ""
    cut = raw if len(raw) <= SHOWN else raw[:SHOWN] + "…"
    return PropertyText(kind, meaning, text[: 2 * SHOWN], cut, rule)


def _get(value: Any, *names: str) -> list[str]:
    """Texts of these keys of an object; "" for a missing value or another type."""
    texts = (value.get(name) if isinstance(value, Mapping) else None for name in names)
    return [text if isinstance(text, str) else "" for text in texts]


def _package(value: Any) -> str:
    name, version, release = _get(value, "packageName", "version", "release")
    return " ".join(part for part in (name, version, release and f"release {release}") if part)


def _gvk(value: Any) -> str:
    group, version, kind = _get(value, "group", "version", "kind")
    return f"{kind} {group}/{version}" if kind else ""


def _required(value: Any) -> str:
    return " ".join(_get(value, "packageName", "versionRange")).strip()


def _manifest(raw: msgspec.Raw) -> str:
    """Kind and name of a manifest."""
    data, fault = read_manifest(raw)
    if fault:
        return fault
    try:
        source = data if data.lstrip()[:1] == b"{" else fbc.yaml_to_json(data)
        manifest = msgspec.json.decode(fbc.readable(source))
    except (fbc.BadBlob, *fbc.DECODE_ERRORS):
        return "a manifest that can't be read"
    metadata = manifest.get("metadata") if isinstance(manifest, Mapping) else None
    return " ".join(_get(manifest, "kind") + _get(metadata, "name")).strip()


def _max_openshift(value: Any) -> str:
    return str(value).strip('"') if isinstance(value, str | int | float) else ""


# Type -> its meaning, and the sentence of a value (of olm.bundle.object: of the undecoded value).
_TYPES: dict[str, tuple[str, Callable[[Any], str] | None]] = {
    "olm.package": ("Package and version", _package),
    "olm.gvk": ("Provides an API", _gvk),
    "olm.gvk.required": ("Requires an API", _gvk),
    "olm.package.required": ("Requires a package", _required),
    "olm.constraint": ("Constraint", None),
    "olm.bundle.object": ("Manifest", _manifest),
    "olm.csv.metadata": (
        "ClusterServiceVersion in short",
        lambda value: _get(value, "displayName")[0],
    ),
    "olm.channel": ("Channel (internal to opm)", lambda value: _get(value, "channelName")[0]),
    "olm.label": ("Label", lambda value: _get(value, "label")[0]),
    "olm.label.required": ("Requires a label", lambda value: _get(value, "label")[0]),
    "olm.deprecated": ("Deprecated (legacy mark)", lambda _: "OLM v0 does not install it"),
    "olm.maxOpenShiftVersion": ("Newest OpenShift it supports", _max_openshift),
}
_COMPOUNDS = {"all": "all of", "any": "any of", "not": "none of"}


def _constraint(value: Mapping[str, Any], depth: int) -> ConstraintText:
    """A constraint as in OLM v0 (api, pkg/constraints): one of six kinds, maybe nested."""
    failure = _get(value, "failureMessage")[0]
    because = f" (or else: {failure})" if failure else ""
    for name, words in _COMPOUNDS.items():
        compound = value.get(name)
        if isinstance(compound, Mapping):
            listed = compound.get("constraints")
            listed = listed if isinstance(listed, list) else []
            nested = [item for item in listed if isinstance(item, Mapping)]
            if depth >= DEEPEST:
                return ConstraintText(
                    f"{words} {len(nested)} constraints, nested too deep to be shown"
                )
            parts = [_constraint(item, depth + 1) for item in nested[:WIDEST]]
            if len(nested) > WIDEST:
                parts.append(ConstraintText(f"and {len(nested) - WIDEST} more"))
            return ConstraintText(f"{words}:{because}", parts)
    if isinstance(value.get("package"), Mapping):
        return ConstraintText(f"package {_required(value['package'])}{because}")
    if isinstance(value.get("gvk"), Mapping):
        return ConstraintText(f"API {_gvk(value['gvk'])}{because}")
    if isinstance(value.get("cel"), Mapping):
        return ConstraintText(f"CEL rule {_get(value['cel'], 'rule')[0][:SHOWN]}{because}")
    return ConstraintText(f"unknown: {json.dumps(value)[:SHOWN]}")
