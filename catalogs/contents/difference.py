"""How what two bundles bring differs. Pure.

Of CRD schemas: versions that went, fields that went, changed their type or became required, the
changes that operator-controller's preflight refuses (internal/operator-controller/rukpak/preflights
/crdupgradesafety).
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from catalogs.contents.grants import beyond
from catalogs.contents.report import CLUSTER, Crd, CrdVersion, Report
from catalogs.contents.tolerant import at, text, texts

MOST_FIELDS = 20_000  # of one schema; what lies beyond is not compared
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Line:
    """`change`: added, removed or changed; `level` as of a permission; `note` says what of it."""

    change: str
    what: str
    note: str = ""
    level: str = "plain"


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class _Field:
    type: str
    required: bool


def difference(before: Report, after: Report) -> tuple[Section, ...]:
    """What is added, removed and changed, section by section; sections without any are left out."""
    sections = (
        Section("CRDs and their schemas", tuple(_crds(before.crds, after.crds))),
        Section("Permissions", tuple(_permissions(before, after))),
        Section("Objects", tuple(_objects(before, after))),
        Section("Webhooks", tuple(_webhooks(before, after))),
        Section("Images", tuple(_images(before, after))),
        Section("Namespaces", tuple(_named(before.namespaces, after.namespaces, str))),
    )
    return tuple(each for each in sections if each.lines)


def _pairs(
    before: Iterable[Item], after: Iterable[Item], key: Callable[[Item], Hashable]
) -> Iterator[tuple[Item | None, Item | None]]:
    """What has the same key on both sides; removed ones first."""
    old, new = {key(each): each for each in before}, {key(each): each for each in after}
    yield from ((old[name], None) for name in old if name not in new)
    yield from ((old.get(name), new[name]) for name in new)


def _named(
    before: Iterable[Item], after: Iterable[Item], told: Callable[[Item], str]
) -> Iterator[Line]:
    for old, new in _pairs(before, after, told):
        if new is None and old is not None:
            yield Line("removed", told(old))
        elif old is None and new is not None:
            yield Line("added", told(new))


def _permissions(before: Report, after: Report) -> Iterator[Line]:
    for change, found in (
        ("added", beyond(after.permissions, before.permissions)),
        ("removed", beyond(before.permissions, after.permissions)),
    ):
        for each in found:
            where = "cluster-wide" if each.scope == CLUSTER else "in its namespaces"
            names = f", only {', '.join(each.names)}" if each.names else ""
            verbs = ", ".join(each.verbs) or "bound"
            told = f"{verbs}: {each.what}{names} ({where}, {each.account})"
            if change == "added":
                yield Line(change, told, " ".join(each.why), each.level)
            else:
                yield Line(change, told)


def _objects(before: Report, after: Report) -> Iterator[Line]:
    def flat(report: Report) -> list[str]:
        return [
            f"{each.kind} {name} ({each.api_version})"
            for each in report.kinds
            for name in each.names
            if each.kind != "CustomResourceDefinition"
        ]

    yield from _named(flat(before), flat(after), str)


def _webhooks(before: Report, after: Report) -> Iterator[Line]:
    for old, new in _pairs(before.webhooks, after.webhooks, lambda each: (each.type, each.name)):
        found = new or old
        assert found is not None  # noqa: S101 - for the type checker: one of them is there
        told = f"{found.type} {found.name}: {'; '.join(found.intercepts)}"
        if old is None or new is None:
            yield Line("removed" if new is None else "added", told)
        elif old != new:
            was = f"It was: {'; '.join(old.intercepts)}, failure policy {old.failure_policy}."
            yield Line("changed", f"{told}, failure policy {new.failure_policy}", was)


def _images(before: Report, after: Report) -> Iterator[Line]:
    """One image that went and one that came, of the same repository and names, are one change."""
    here, there = {each.image for each in before.images}, {each.image for each in after.images}
    went, came = _by_use(before, there), _by_use(after, here)
    for key, old in went.items():
        new = came.get(key, [])
        if len(old) == len(new) == 1:
            yield Line("changed", came.pop(key)[0], f"It was {old[0]}.")
        else:
            yield from (Line("removed", image) for image in old)
    for new in came.values():
        yield from (Line("added", image) for image in new)


def _by_use(report: Report, without: set[str]) -> dict[tuple[str, ...], list[str]]:
    found: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for each in report.images:
        if each.image not in without:
            found[repository(each.image), *each.names].append(each.image)
    return found


def repository(image: str) -> str:
    """The reference without tag and digest."""
    name = image.partition("@")[0]
    head, slash, last = name.rpartition("/")
    return f"{head}{slash}{last.partition(':')[0]}"


def _crds(before: Iterable[Crd], after: Iterable[Crd]) -> Iterator[Line]:
    for old, new in _pairs(before, after, lambda each: each.name):
        if old is None and new is not None:
            yield Line("added", new.name)
        elif new is None and old is not None:
            yield Line("removed", old.name, "Its objects stay as long as the CRD does.", "caution")
        elif old is not None and new is not None:
            yield from crd_lines(old, new)


def crd_lines(old: Crd, new: Crd) -> Iterator[Line]:
    """What changed between two of the same name."""
    if old.scope != new.scope:
        yield Line("changed", new.name, f"Its scope was {old.scope}, now {new.scope}.", "danger")
    versions = {each.name: each for each in new.versions}
    for was in old.versions:
        now = versions.pop(was.name, None)
        if now is None:
            told = f"Version {was.name} is gone."
            yield Line("removed", new.name, told, "danger" if was.storage else "caution")
            continue
        if was.served and not now.served:
            told = f"Version {was.name} is no longer served."
            yield Line("changed", new.name, told, "caution")
        if now.storage and not was.storage:
            yield Line("changed", new.name, f"Objects are stored as {was.name} from now on.")
        yield from _schema_lines(new.name, was, now)
    for added in versions.values():
        yield Line("added", new.name, f"Version {added.name} is new.")


def _schema_lines(name: str, was: CrdVersion, now: CrdVersion) -> Iterator[Line]:
    old, new = fields_of(was.schema), fields_of(now.schema)
    for path, field in new.items():
        before = old.get(path)
        if before is None:
            parent = _above(path)
            if field.required and (not parent or parent in old):
                told = f"{path} is new in {now.name} and required."
                yield Line("added", name, told, "danger")
            continue
        if field.required and not before.required:
            yield Line("changed", name, f"{path} is now required in {now.name}.", "danger")
        if field.type != before.type:
            types = f"{before.type or 'any'}, now {field.type or 'any'}"
            told = f"{path} in {now.name} was of type {types}."
            yield Line("changed", name, told, "danger")
    gone = {path for path in old if path not in new}
    for path in sorted(path for path in gone if _above(path) not in gone):
        told = f"{path} is gone from {now.name}: its values would be dropped."
        yield Line("removed", name, told, "danger")
    added = sum(path not in old for path in new)
    if added:
        are = "field is" if added == 1 else "fields are"
        yield Line("added", name, f"{added} {are} new in {now.name}.")


def _above(path: str) -> str:
    """The field that the path's last one is in."""
    return path.rpartition(".")[0].rstrip("[]{}")


def fields_of(schema: Mapping[str, Any]) -> dict[str, _Field]:
    """Every field by its path (`spec.list[].name`), MOST_FIELDS at most."""
    found: dict[str, _Field] = {}
    stack: list[tuple[str, Any]] = [("", schema)]
    while stack and len(found) < MOST_FIELDS:
        prefix, node = stack.pop()
        required = set(texts(node, "required"))
        properties = at(node, "properties")
        for name, below in (properties if isinstance(properties, dict) else {}).items():
            path = f"{prefix}.{name}" if prefix else str(name)
            found[path] = _Field(text(below, "type"), name in required)
            stack.append((path, below))
        for key, mark in (("items", "[]"), ("additionalProperties", "{}")):
            below = at(node, key)
            if isinstance(below, dict):
                stack.append((f"{prefix}{mark}", below))
    return found
