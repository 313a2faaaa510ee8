"""Describes the properties of a bundle: the meaning of each type, constraints as sentences.

Pure: reads a bundle's blob as its author wrote it (JSON or YAML), valid or not. Faults are
reported by `catalogs.fbc.lint`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from catalogs.fbc import blob as fbc
from catalogs.fbc.bundle import read_manifest

SHOWN = 200  # characters of a value
DEEPEST = 12  # levels of nested constraints that are shown
WIDEST = 50  # constraints on one level
MEANINGS = {
    "olm.package": "Package and version",
    "olm.gvk": "Provides an API",
    "olm.gvk.required": "Requires an API",
    "olm.package.required": "Requires a package",
    "olm.constraint": "Constraint",
    "olm.bundle.object": "Manifest",
    "olm.csv.metadata": "ClusterServiceVersion in short",
    "olm.channel": "Channel (internal to opm)",
    "olm.label": "Label",
    "olm.label.required": "Requires a label",
    "olm.deprecated": "Deprecated (legacy mark)",
    "olm.maxOpenShiftVersion": "Newest OpenShift it supports",
}


@dataclass(frozen=True, slots=True)
class Rule:
    """A constraint as a sentence; a compound constraint has its members in `parts`."""

    text: str
    parts: list["Rule"] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class PropertyText:
    """One property: the meaning of its type ("" if unknown), and its value as a sentence and as
    JSON."""

    type: str
    meaning: str
    text: str
    raw: str
    rule: Rule | None = None


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
    text = _TEXTS[kind](value, item.value) if kind in _TEXTS else ""
    if kind == "olm.constraint" and isinstance(value, Mapping):
        rule = _rule(value, 0)
    cut = raw if len(raw) <= SHOWN else raw[:SHOWN] + "…"
    return PropertyText(kind, MEANINGS.get(kind, ""), text[: 2 * SHOWN], cut, rule)


def _get(value: Any, *names: str) -> list[str]:
    """Texts of these keys of an object; "" for a missing value or another type."""
    values = value if isinstance(value, Mapping) else {}
    return [str(values.get(name)) if isinstance(values.get(name), str) else "" for name in names]


def _package(value: Any, _: msgspec.Raw) -> str:
    name, version, release = _get(value, "packageName", "version", "release")
    return " ".join(part for part in (name, version, release and f"release {release}") if part)


def _gvk(value: Any, _: msgspec.Raw) -> str:
    group, version, kind = _get(value, "group", "version", "kind")
    return f"{kind} {group}/{version}" if kind else ""


def _required(value: Any, _: msgspec.Raw) -> str:
    name, wanted = _get(value, "packageName", "versionRange")
    return f"{name} {wanted}".strip()


def _manifest(_: Any, raw: msgspec.Raw) -> str:
    """Kind and name of a manifest."""
    data, fault = read_manifest(raw)
    if fault:
        return fault
    try:
        source = data if data.lstrip()[:1] == b"{" else fbc.yaml_to_json(data)
        manifest = msgspec.json.decode(fbc.readable(source))
    except (fbc.BadBlob, *fbc.DECODE_ERRORS):
        return "a manifest that can't be read"
    (kind,) = _get(manifest, "kind")
    (name,) = _get(manifest.get("metadata") if isinstance(manifest, Mapping) else None, "name")
    return f"{kind} {name}".strip()


def _metadata(value: Any, _: msgspec.Raw) -> str:
    (name,) = _get(value, "displayName")
    return name


def _label(value: Any, _: msgspec.Raw) -> str:
    return _get(value, "label")[0]


def _channel(value: Any, _: msgspec.Raw) -> str:
    return _get(value, "channelName")[0]


def _deprecated(_value: Any, _: msgspec.Raw) -> str:
    return "OLM v0 does not install it"


def _max_openshift(value: Any, _: msgspec.Raw) -> str:
    return str(value).strip('"') if isinstance(value, str | int | float) else ""


_TEXTS = {
    "olm.package": _package,
    "olm.gvk": _gvk,
    "olm.gvk.required": _gvk,
    "olm.package.required": _required,
    "olm.bundle.object": _manifest,
    "olm.csv.metadata": _metadata,
    "olm.channel": _channel,
    "olm.label": _label,
    "olm.label.required": _label,
    "olm.deprecated": _deprecated,
    "olm.maxOpenShiftVersion": _max_openshift,
}
_COMPOUNDS = {"all": "all of", "any": "any of", "not": "none of"}


def _rule(value: Mapping[str, Any], depth: int) -> Rule:
    """A constraint as OLM v0 reads it (api, pkg/constraints): one of six kinds, maybe nested."""
    (failure,) = _get(value, "failureMessage")
    because = f" (or else: {failure})" if failure else ""
    for name, words in _COMPOUNDS.items():
        compound = value.get(name)
        if isinstance(compound, Mapping):
            listed = compound.get("constraints")
            nested = (
                [item for item in listed if isinstance(item, Mapping)]
                if isinstance(listed, list)
                else []
            )
            if depth >= DEEPEST:
                return Rule(f"{words} {len(nested)} constraints, nested too deep to be shown")
            parts = [_rule(item, depth + 1) for item in nested[:WIDEST]]
            if len(nested) > WIDEST:
                parts.append(Rule(f"and {len(nested) - WIDEST} more"))
            return Rule(f"{words}:{because}", parts)
    if isinstance(value.get("package"), Mapping):
        return Rule(f"package {_required(value['package'], fbc.NULL)}{because}")
    if isinstance(value.get("gvk"), Mapping):
        return Rule(f"API {_gvk(value['gvk'], fbc.NULL)}{because}")
    if isinstance(value.get("cel"), Mapping):
        (rule,) = _get(value["cel"], "rule")
        return Rule(f"CEL rule {rule[:SHOWN]}{because}")
    return Rule(f"unknown: {json.dumps(value)[:SHOWN]}")
