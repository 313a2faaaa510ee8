"""The steps of an action: objects to apply and to delete, and their JSON in the action's row.

Only clean-ups, the deletions of leftovers, have steps of the kinds DeleteAll and EndConversion.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Apply:
    """A server-side apply. `main`: of the object that the action is about; others go with it."""

    verb: ClassVar[str] = "apply"

    manifest: Manifest
    main: bool = False

    @property
    def kind(self) -> str:
        return str(self.manifest["kind"])

    @property
    def namespace(self) -> str:
        return str(self.manifest["metadata"].get("namespace", ""))

    @property
    def name(self) -> str:
        return str(self.manifest["metadata"]["name"])

    @property
    def version(self) -> str:
        """Of the API, without the group: `v1`."""
        return str(self.manifest["apiVersion"]).rpartition("/")[2]

    @property
    def label(self) -> str:
        return _label(self)


@dataclass(frozen=True, slots=True)
class Delete:
    """A deletion. Without `uid` of whatever object has the name. `main` as for Apply."""

    verb: ClassVar[str] = "delete"

    kind: str
    namespace: str
    name: str
    uid: str = ""
    main: bool = False

    @property
    def label(self) -> str:
        return _label(self)


@dataclass(frozen=True, slots=True)
class DeleteAll:
    """A deletion of the objects of a kind in all namespaces: of those with the label `selector` and
    this `name`, empty for any. `resource` is PLURAL.GROUP, `version` without the group."""

    verb: ClassVar[str] = "delete-all"
    main: ClassVar[bool] = False
    namespace: ClassVar[str] = ""

    kind: str
    resource: str
    version: str
    selector: str = ""
    name: str = ""

    @property
    def label(self) -> str:
        return f"copies of {self.kind} {self.name}" if self.name else f"all {self.resource}"


@dataclass(frozen=True, slots=True)
class EndConversion:
    """Sets the conversion strategy of the CustomResourceDefinition `name` to None."""

    verb: ClassVar[str] = "end-conversion"
    main: ClassVar[bool] = False
    namespace: ClassVar[str] = ""
    kind: ClassVar[str] = "CustomResourceDefinition"
    patch: ClassVar[Manifest] = {"spec": {"conversion": {"strategy": "None", "webhook": None}}}

    name: str

    @property
    def label(self) -> str:
        return f"conversion webhook of {self.name}"


Step = Apply | Delete | DeleteAll | EndConversion


def _label(step: Apply | Delete) -> str:
    """Names the object in sentences and in `Action.done`: `Namespace etcd`."""
    return f"{step.kind} {f'{step.namespace}/' if step.namespace else ''}{step.name}"


def remakes(steps: Sequence[Step]) -> bool:
    """Whether the main object is deleted and made again."""
    return {step.verb for step in steps if step.main} == {Apply.verb, Delete.verb}


def deletion_entry(step: Step) -> str:
    """The entry of `Action.done` for a deletion that goes with an apply."""
    return f"deleted {step.label}"


def to_json(steps: Sequence[Step]) -> list[dict[str, Any]]:
    return [{"verb": step.verb, "main": step.main, **_content(step)} for step in steps]


def from_json(rows: Sequence[dict[str, Any]]) -> tuple[Step, ...]:
    return tuple(_READERS[row["verb"]](row) for row in rows)


_READERS: dict[str, Callable[[dict[str, Any]], Step]] = {
    Apply.verb: lambda row: Apply(row["manifest"], row["main"]),
    Delete.verb: lambda row: Delete(
        row["kind"], row["namespace"], row["name"], row["uid"], row["main"]
    ),
    DeleteAll.verb: lambda row: DeleteAll(
        row["kind"], row["resource"], row["version"], row["selector"], row["name"]
    ),
    EndConversion.verb: lambda row: EndConversion(row["name"]),
}


def _content(step: Step) -> dict[str, Any]:
    return {"manifest": step.manifest} if isinstance(step, Apply) else _described(step)


def as_manifests(steps: Sequence[Step]) -> list[dict[str, Any]]:
    """The steps as the REST interface has them: manifests, the identities of deletions, what a
    clean-up deletes of a kind, and its patches."""
    return [step.manifest if isinstance(step, Apply) else _described(step) for step in steps]


def _described(step: Delete | DeleteAll | EndConversion) -> dict[str, Any]:
    names = {"kind": step.kind, "namespace": step.namespace, "name": step.name}
    if isinstance(step, Delete):
        return names | {"uid": step.uid}
    if isinstance(step, DeleteAll):
        more = {"resource": step.resource, "version": step.version, "selector": step.selector}
        return names | more
    return names | {"patch": step.patch}
