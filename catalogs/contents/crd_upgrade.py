"""Changes of a CustomResourceDefinition that an upgrade is refused for. Pure.

The rules are those of operator-controller 1.11: its preflight
(internal/operator-controller/rukpak/preflights/crdupgradesafety) runs crdify 0.6 with all
validations enforced, except that descriptions may change and that enums may grow. OLM v0 refuses
the removal of a stored version (pkg/lib/crd/storage.go) and objects that the new schema rejects
(validateExistingCRs in pkg/controller/operators/catalog/operator.go); it compares no schemas.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from olmweb.kube.decode import DEPTH
from olmweb.kube.fields import Object, dig, items, text, texts

ROOT = "^"  # the path of a whole schema, as operator-controller writes it
DEEPEST = 100  # levels of a schema; deeper fields are not compared
TEXT_SHOWN = 120  # characters of a value in a finding

_AT_MOST = ("maximum", "maxItems", "maxLength", "maxProperties")
_AT_LEAST = ("minimum", "minItems", "minLength", "minProperties")
_SCHEMA = ("items", "not", "additionalProperties", "additionalItems")
_LIST_OF_SCHEMAS = ("allOf", "anyOf", "oneOf")
_MAP_OF_SCHEMAS = ("patternProperties", "definitions", "dependencies")
# Compared at the paths below a field, not at the field itself.
_BELOW = frozenset({"properties", "items"})
# Parts of a schema that differ from absent ones when they are empty or false.
_EMPTY_COUNTS = frozenset({"additionalProperties", "not", "x-kubernetes-preserve-unknown-fields"})
_CEL = "x-kubernetes-validations"
_NOTES = ("description", "title", "example", "externalDocs")
_VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")


class OlmV0(StrEnum):
    """What OLM v0 does about a change: `OBJECTS` refuses if an existing object does not fit."""

    ALLOWS = "allows"
    OBJECTS = "objects"
    REFUSES = "refuses"


@dataclass(frozen=True, slots=True, order=True)
class CrdFinding:
    """One change of a CRD that may break its objects or clients.

    `version` is empty for the whole CRD, and `v1alpha1 -> v1` for two served versions of the new
    CRD. `path` is that of the field as operator-controller writes it, such as `^.spec.size`; empty
    for a version or the whole CRD. `rule` is the name of crdify's validation. `olm_v1` says
    whether operator-controller refuses the upgrade if CRD upgrade safety is `Strict`.
    """

    crd: str
    version: str
    path: str
    rule: str
    note: str
    olm_v1: bool = True
    olm_v0: OlmV0 = OlmV0.ALLOWS


def crd_upgrade(old: Object, new: Object) -> tuple[CrdFinding, ...]:
    """The findings between a CRD of a cluster and the manifest that replaces it, both
    `apiextensions.k8s.io/v1`, in the order of versions and paths. Those inside `is_too_deep` parts
    are left out."""
    old, new = bounded(old), bounded(new)
    name = text(old, "metadata", "name")
    findings = [*_whole(name, old, new), *_same_versions(name, old, new)]
    if text(new, "spec", "conversion", "strategy") != "Webhook":
        findings += _served_versions(name, old, new)
    return tuple(sorted(findings))


def is_too_deep(crd: Object) -> bool:
    """Whether it has DEPTH levels of arrays and objects or more, a multiple of real ones. What lies
    deeper is neither stored nor compared: Python's own limit depends on the caller."""
    rows: list[tuple[Any, int]] = [(crd, 1)]
    while rows:
        value, level = rows.pop()
        if not isinstance(value, Mapping | list):
            continue
        if level >= DEPTH:
            return True
        below = value.values() if isinstance(value, Mapping) else value
        rows += ((child, level + 1) for child in below)
    return False


def bounded(crd: Object) -> Object:
    """The CRD with null for each array and object inside DEPTH others. One that is_too_deep stays
    so."""
    return _cut(crd, 1) if is_too_deep(crd) else crd


def _cut(value: Any, level: int) -> Any:
    if not isinstance(value, Mapping | list):
        return value
    if level > DEPTH:
        return None
    if isinstance(value, Mapping):
        return {key: _cut(child, level + 1) for key, child in value.items()}
    return [_cut(child, level + 1) for child in value]


def _whole(name: str, old: Object, new: Object) -> Iterator[CrdFinding]:
    """Changes of the CRD itself. The API server, too, refuses another scope and the removal of a
    stored version."""
    before, after = text(old, "spec", "scope"), text(new, "spec", "scope")
    if before != after:
        note = f"The scope was {before}, now {after}."
        yield CrdFinding(name, "", "", "scope", note, olm_v0=OlmV0.REFUSES)
    served = {version: bool(dig(spec, "served")) for version, spec in _versions(new).items()}
    stored = texts(old, "status", "storedVersions")
    for version in stored:
        if version not in served:
            note = f"Version {version} is gone, and objects may be stored as {version}."
            rule = "storedVersionRemoval"
            yield CrdFinding(name, version, "", rule, note, olm_v0=OlmV0.REFUSES)
    for version, spec in _versions(old).items():
        if dig(spec, "served") is True and not served.get(version):
            if version in stored and version not in served:
                continue
            note = f"Version {version} is no longer served: its clients break."
            yield CrdFinding(name, version, "", "servedVersionRemoval", note, olm_v1=False)


def _same_versions(name: str, old: Object, new: Object) -> Iterator[CrdFinding]:
    after = _versions(new)
    for version, spec in _versions(old).items():
        if version not in after:
            continue
        # OLM v0 reads the objects of versions that are served before and after.
        read = dig(spec, "served") is True and dig(after[version], "served") is True
        for change in _changes(_flat(spec), _flat(after[version])):
            note = "The field is gone: its values are dropped." if change.gone else change.note
            by_v0 = OlmV0.OBJECTS if change.tightens and read else OlmV0.ALLOWS
            yield CrdFinding(name, version, change.path, change.rule, note, olm_v0=by_v0)


def _served_versions(name: str, old: Object, new: Object) -> Iterator[CrdFinding]:
    """Differences between served versions of the new CRD that the old one does not have: without a
    conversion webhook, an object reads the same in each of them."""
    existing = {
        (pair, change.path, change.rule, change.note)
        for pair, changes in _pairs(old)
        for change in changes
    }
    for pair, changes in _pairs(new):
        for change in changes:
            if (pair, change.path, change.rule, change.note) not in existing:
                note = (
                    f"The field is missing in {pair.rpartition(' ')[2]}."
                    if change.gone
                    else change.note
                )
                yield CrdFinding(name, pair, change.path, change.rule, note)


def _pairs(crd: Object) -> Iterator[tuple[str, tuple["_Change", ...]]]:
    served = {name: spec for name, spec in _versions(crd).items() if dig(spec, "served") is True}
    ordered = sorted(served, key=_priority)
    for at, name in enumerate(ordered):
        for later in ordered[at + 1 :]:
            changes = tuple(_changes(_flat(served[name]), _flat(served[later])))
            yield f"{name} -> {later}", changes


def _priority(version: str) -> tuple[int, int, int, str]:
    """Order of Kubernetes' versions: alpha, beta, stable; other names first, Z before A."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return (0, 0, 0, "".join(chr(0x10FFFF - ord(letter)) for letter in version))
    major, level, minor = match.groups()
    return ({"alpha": 1, "beta": 2}.get(level, 3), int(major), int(minor or 0), "")


def _versions(crd: Object) -> dict[str, Object]:
    return {text(version, "name"): version for version in items(crd, "spec", "versions")}


def _flat(version: Object) -> dict[str, Object]:
    """The schemas of a version by path."""
    schemas: dict[str, Object] = {}
    stack = [(ROOT, dig(version, "schema", "openAPIV3Schema"), 0)]
    while stack:
        path, schema, depth = stack.pop()
        if isinstance(schema, Mapping) and depth < DEEPEST:
            schemas[path] = schema
            stack += ((below, child, depth + 1) for below, child in _children(path, schema))
    return schemas


def _children(path: str, schema: Object) -> Iterator[tuple[str, Any]]:
    for key in _SCHEMA:
        yield f"{path}.{key}", schema.get(key)
    for key in _LIST_OF_SCHEMAS:
        for at, child in enumerate(items(schema, key)):
            yield f"{path}.{key}[{at}]", child
    for key in _MAP_OF_SCHEMAS:
        for name, child in _mapping(schema.get(key)).items():
            yield f"{path}.{key}[{name}]", child
    for name, child in _mapping(schema.get("properties")).items():
        yield f"{path}.{name}", child


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


@dataclass(frozen=True, slots=True)
class _Change:
    """`tightens`: the new schema may reject a value that the old one accepts."""

    path: str
    rule: str
    note: str
    tightens: bool = True
    gone: bool = False


def _changes(old: Mapping[str, Object], new: Mapping[str, Object]) -> Iterator[_Change]:
    """The changes at each path of `old`; fields below a removed one are left out, and so are new
    fields, as no object has them."""
    removed = {path for path in old if path not in new}
    for path in sorted(old):
        if path not in removed:
            yield from _field(path, old[path], new[path])
        elif not any(parent in removed for parent in _parents(path)):
            kind = text(old[path], "type") or "any"
            note = f"It was of type {kind}."
            yield _Change(path, "existingFieldRemoval", note, tightens=False, gone=True)


def _parents(path: str) -> Iterator[str]:
    for match in re.finditer(r"[.\[]", path):
        yield path[: match.start()]


def _field(path: str, old: Object, new: Object) -> Iterator[_Change]:
    before, after = text(old, "type"), text(new, "type")
    if before != after:
        note = f"The type was {before or 'any'}, now {after or 'any'}."
        yield _Change(path, "type", note, tightens=bool(after) and not _wider(before, after))
    added = sorted(set(texts(new, "required")) - set(texts(old, "required")))
    if added:
        yield _Change(path, "required", f"Now required: {', '.join(added)}.")
    yield from _enum(path, old, new)
    for rule in (*_AT_MOST, *_AT_LEAST):
        yield from _limit(path, rule, old.get(rule), new.get(rule))
    yield from _pattern(path, text(old, "pattern"), text(new, "pattern"))
    yield from _default(path, old.get("default"), new.get("default"))
    if bool(old.get("nullable")) != bool(new.get("nullable")):
        note = "null is no longer allowed." if old.get("nullable") else "null is allowed now."
        yield _Change(path, "nullable", note, tightens=bool(old.get("nullable")))
    yield from _one_of(path, old, new)
    yield from _format(path, text(old, "format"), text(new, "format"))
    yield from _rules(path, old, new)
    yield from _others(path, old, new)


def _wider(before: str, after: str) -> bool:
    return (before, after) == ("integer", "number")


def _enum(path: str, old: Object, new: Object) -> Iterator[_Change]:
    before, after = _set(old.get("enum")), _set(new.get("enum"))
    if after and not before:
        yield _Change(path, "enum", f"Only these values are allowed now: {_list(after)}.")
    elif before and not after:
        # crdify counts values of a removed enum as removed.
        yield _Change(path, "enum", "The list of allowed values is gone.", tightens=False)
    elif before - after:
        yield _Change(path, "enum", f"No longer allowed: {_list(before - after)}.")


def _limit(path: str, rule: str, before: Any, after: Any) -> Iterator[_Change]:
    if not _is_number(after):
        return
    if not _is_number(before):
        yield _Change(path, rule, f"{rule} is {after} now; there was none.")
    elif (after < before) if rule in _AT_MOST else (after > before):
        yield _Change(path, rule, f"{rule} was {before}, now {after}.")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _pattern(path: str, before: str, after: str) -> Iterator[_Change]:
    if before == after:
        return
    if not before:
        yield _Change(path, "pattern", f"Values have to match {_short(after)} now.")
    elif not after:
        yield _Change(path, "pattern", f"The pattern {_short(before)} is gone.", tightens=False)
    else:
        yield _Change(path, "pattern", f"The pattern was {_short(before)}, now {_short(after)}.")


def _default(path: str, before: Any, after: Any) -> Iterator[_Change]:
    if _json(before) == _json(after):
        return
    if before is None:
        note = f"The default is {_short(_json(after))} now; there was none."
    elif after is None:
        note = f"The default {_short(_json(before))} is gone."
    else:
        note = f"The default was {_short(_json(before))}, now {_short(_json(after))}."
    yield _Change(path, "default", note, tightens=False)


def _one_of(path: str, old: Object, new: Object) -> Iterator[_Change]:
    before, after = (
        _set(
            {key: value for key, value in schema.items() if key not in _NOTES}
            for schema in items(side, "oneOf")
        )
        for side in (old, new)
    )
    if before != after:
        yield _Change(path, "oneOf", "The alternatives of oneOf are others.", tightens=bool(after))


def _format(path: str, before: str, after: str) -> Iterator[_Change]:
    if before != after:
        note = f"The format was {_short(before) or 'any'}, now {_short(after) or 'any'}."
        yield _Change(path, "unhandled", note, tightens=bool(after))


def _rules(path: str, old: Object, new: Object) -> Iterator[_Change]:
    """Rules in CEL, which are not evaluated here: the API server does that when an object is
    written. OLM v0 does not evaluate them either."""
    if _json(_present(_CEL, old)) == _json(_present(_CEL, new)):
        return
    before, after = ({text(rule, "rule") for rule in items(schema, _CEL)} for schema in (old, new))
    parts = [f"now {_short(rule)}" for rule in sorted(after - before)]
    parts += [f"no longer {_short(rule)}" for rule in sorted(before - after)]
    what = "; ".join(parts) or "only what is reported when they fail"
    note = f"Rules in CEL changed, and are not judged here: {what}."
    yield _Change(path, "unhandled", note, tightens=False)


def _others(path: str, old: Object, new: Object) -> Iterator[_Change]:
    """Every other part of the schema: operator-controller refuses what no rule knows."""
    handled = {
        *("type", "required", "enum", "pattern", "default", "nullable", "oneOf", "description"),
        *(*_AT_MOST, *_AT_LEAST, *_BELOW, "format", _CEL),
    }
    keys = sorted(
        key
        for key in {*old, *new} - handled
        if _json(_present(key, old)) != _json(_present(key, new))
    )
    if keys:
        parts = ", ".join(
            f"{key} ({_short(_json(_present(key, old)) or 'none')}, "
            f"now {_short(_json(_present(key, new)) or 'none')})"
            for key in keys
        )
        yield _Change(path, "unhandled", f"Changed: {parts}.")


def _present(key: str, schema: Object) -> Any:
    """A value; None for one that equals an absent one."""
    value = schema.get(key)
    return value if value or key in _EMPTY_COUNTS or _is_number(value) else None


def _set(values: Any) -> frozenset[str]:
    return frozenset(_json(value) for value in values or ())


def _json(value: Any) -> str:
    return "" if value is None else json.dumps(value, sort_keys=True, ensure_ascii=False)


def _list(values: Iterable[str]) -> str:
    return _short(", ".join(sorted(values)))


def _short(value: str) -> str:
    return value if len(value) <= TEXT_SHOWN else f"{value[: TEXT_SHOWN - 1]}…"
