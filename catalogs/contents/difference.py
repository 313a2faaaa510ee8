"""The difference between the contents of two bundles. Pure.

Of CRD schemas: removed versions, and fields that were removed, changed their type or became
required, the changes that operator-controller's preflight refuses
(internal/operator-controller/rukpak/preflights/crdupgradesafety).
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from catalogs.contents.permissions import CLUSTER, beyond
from catalogs.contents.report import BundleReport, Crd, CrdVersion
from olmweb.kube.fields import dig, text, texts

MOST_FIELDS = 20_000  # of one schema; further fields are not compared
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Difference:
    """`change` is added, removed or changed; `level` that of a permission; `note` the details."""

    change: str
    what: str
    note: str = ""
    level: str = "plain"


@dataclass(frozen=True, slots=True)
class DifferenceSection:
    title: str
    lines: tuple[Difference, ...]


@dataclass(frozen=True, slots=True)
class _Field:
    type: str
    required: bool


def difference(before: BundleReport, after: BundleReport) -> tuple[DifferenceSection, ...]:
    """Additions, removals and changes by section; empty sections are left out."""
    sections = (
        DifferenceSection("CRDs and their schemas", tuple(_crds(before.crds, after.crds))),
        DifferenceSection("Permissions", tuple(_permissions(before, after))),
        DifferenceSection("Objects", tuple(_objects(before, after))),
        DifferenceSection("Webhooks", tuple(_webhooks(before, after))),
        DifferenceSection("Images", tuple(_images(before, after))),
        DifferenceSection(
            "Namespaces", tuple(_named_lines(before.namespaces, after.namespaces, str))
        ),
    )
    return tuple(section for section in sections if section.lines)


def _pairs(
    before: Iterable[Item], after: Iterable[Item], key: Callable[[Item], Hashable]
) -> Iterator[tuple[Item | None, Item | None]]:
    """Pairs items of the same key: removed items first, then the items of `after`."""
    old, new = {key(item): item for item in before}, {key(item): item for item in after}
    yield from ((old[name], None) for name in old if name not in new)
    yield from ((old.get(name), new[name]) for name in new)


def _named_lines(
    before: Iterable[Item], after: Iterable[Item], label: Callable[[Item], str]
) -> Iterator[Difference]:
    for old, new in _pairs(before, after, label):
        if new is None and old is not None:
            yield Difference("removed", label(old))
        elif old is None and new is not None:
            yield Difference("added", label(new))


def _permissions(before: BundleReport, after: BundleReport) -> Iterator[Difference]:
    for change, permissions in (
        ("added", beyond(after.permissions, before.permissions)),
        ("removed", beyond(before.permissions, after.permissions)),
    ):
        for permission in permissions:
            where = "cluster-wide" if permission.scope == CLUSTER else "in its namespaces"
            names = f", only {', '.join(permission.names)}" if permission.names else ""
            verbs = ", ".join(permission.verbs) or "bound"
            description = f"{verbs}: {permission.what}{names} ({where}, {permission.account})"
            if change == "added":
                yield Difference(change, description, " ".join(permission.why), permission.level)
            else:
                yield Difference(change, description)


def _objects(before: BundleReport, after: BundleReport) -> Iterator[Difference]:
    def flat(report: BundleReport) -> list[str]:
        return [
            f"{kinds.kind} {name} ({kinds.api_version})"
            for kinds in report.kinds
            for name in kinds.names
            if kinds.kind != "CustomResourceDefinition"
        ]

    yield from _named_lines(flat(before), flat(after), str)


def _webhooks(before: BundleReport, after: BundleReport) -> Iterator[Difference]:
    for old, new in _pairs(
        before.webhooks, after.webhooks, lambda webhook: (webhook.type, webhook.name)
    ):
        webhook = new or old
        assert webhook is not None  # noqa: S101 - for the type checker: one of them is there
        description = f"{webhook.type} {webhook.name}: {'; '.join(webhook.intercepts)}"
        if old is None or new is None:
            yield Difference("removed" if new is None else "added", description)
        elif old != new:
            was = f"It was: {'; '.join(old.intercepts)}, failure policy {old.failure_policy}."
            yield Difference("changed", f"{description}, failure policy {new.failure_policy}", was)


def _images(before: BundleReport, after: BundleReport) -> Iterator[Difference]:
    """A removed and an added image with the same repository and names count as one change."""
    here, there = {image.image for image in before.images}, {image.image for image in after.images}
    went, came = _by_use(before, there), _by_use(after, here)
    for key, old in went.items():
        new = came.get(key, [])
        if len(old) == len(new) == 1:
            yield Difference("changed", came.pop(key)[0], f"It was {old[0]}.")
        else:
            yield from (Difference("removed", image) for image in old)
    for new in came.values():
        yield from (Difference("added", image) for image in new)


def _by_use(report: BundleReport, without: set[str]) -> dict[tuple[str, ...], list[str]]:
    by_use: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for image in report.images:
        if image.image not in without:
            by_use[repository(image.image), *image.names].append(image.image)
    return by_use


def repository(image: str) -> str:
    """The reference without tag and digest."""
    name = image.partition("@")[0]
    head, slash, last = name.rpartition("/")
    return f"{head}{slash}{last.partition(':')[0]}"


def _crds(before: Iterable[Crd], after: Iterable[Crd]) -> Iterator[Difference]:
    for old, new in _pairs(before, after, lambda crd: crd.name):
        if old is None and new is not None:
            yield Difference("added", new.name)
        elif new is None and old is not None:
            yield Difference(
                "removed", old.name, "Its objects stay as long as the CRD does.", "caution"
            )
        elif old is not None and new is not None:
            yield from crd_lines(old, new)


def crd_lines(old: Crd, new: Crd) -> Iterator[Difference]:
    """Changes between two versions of the same CRD."""
    if old.scope != new.scope:
        yield Difference(
            "changed", new.name, f"Its scope was {old.scope}, now {new.scope}.", "danger"
        )
    versions = {version.name: version for version in new.versions}
    for was in old.versions:
        now = versions.pop(was.name, None)
        if now is None:
            note = f"Version {was.name} is gone."
            yield Difference("removed", new.name, note, "danger" if was.storage else "caution")
            continue
        if was.served and not now.served:
            note = f"Version {was.name} is no longer served."
            yield Difference("changed", new.name, note, "caution")
        if now.storage and not was.storage:
            yield Difference("changed", new.name, f"Objects are stored as {was.name} from now on.")
        yield from _schema_lines(new.name, was, now)
    for added in versions.values():
        yield Difference("added", new.name, f"Version {added.name} is new.")


def _schema_lines(name: str, was: CrdVersion, now: CrdVersion) -> Iterator[Difference]:
    old, new = fields_of(was.schema), fields_of(now.schema)
    for path, field in new.items():
        before = old.get(path)
        if before is None:
            parent = _parent(path)
            if field.required and (not parent or parent in old):
                note = f"{path} is new in {now.name} and required."
                yield Difference("added", name, note, "danger")
            continue
        if field.required and not before.required:
            yield Difference("changed", name, f"{path} is now required in {now.name}.", "danger")
        if field.type != before.type:
            types = f"{before.type or 'any'}, now {field.type or 'any'}"
            note = f"{path} in {now.name} was of type {types}."
            yield Difference("changed", name, note, "danger")
    gone = {path for path in old if path not in new}
    for path in sorted(path for path in gone if _parent(path) not in gone):
        note = f"{path} is gone from {now.name}: its values would be dropped."
        yield Difference("removed", name, note, "danger")
    added = sum(path not in old for path in new)
    if added:
        are = "field is" if added == 1 else "fields are"
        yield Difference("added", name, f"{added} {are} new in {now.name}.")


def _parent(path: str) -> str:
    """The path of the parent field."""
    return path.rpartition(".")[0].rstrip("[]{}")


def fields_of(schema: Mapping[str, Any]) -> dict[str, _Field]:
    """The fields of a schema by path (`spec.list[].name`), at most MOST_FIELDS."""
    fields: dict[str, _Field] = {}
    stack: list[tuple[str, Any]] = [("", schema)]
    while stack and len(fields) < MOST_FIELDS:
        prefix, node = stack.pop()
        required = set(texts(node, "required"))
        properties = dig(node, "properties")
        for name, below in (properties if isinstance(properties, dict) else {}).items():
            path = f"{prefix}.{name}" if prefix else str(name)
            fields[path] = _Field(text(below, "type"), name in required)
            stack.append((path, below))
        for key, mark in (("items", "[]"), ("additionalProperties", "{}")):
            below = dig(node, key)
            if isinstance(below, dict):
                stack.append((f"{prefix}{mark}", below))
    return fields
