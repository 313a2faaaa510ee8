"""The steps of an action: objects to apply and to delete, and their JSON in the action's row."""

from collections.abc import Sequence
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


Step = Apply | Delete


def _label(step: Step) -> str:
    """Names the object in sentences and in `Action.done`: `Namespace etcd`."""
    return f"{step.kind} {f'{step.namespace}/' if step.namespace else ''}{step.name}"


def remakes(steps: Sequence[Step]) -> bool:
    """Whether the main object is deleted and made again."""
    return {step.verb for step in steps if step.main} == {Apply.verb, Delete.verb}


def to_json(steps: Sequence[Step]) -> list[dict[str, Any]]:
    return [
        {"verb": step.verb, "main": step.main, "manifest": step.manifest}
        if isinstance(step, Apply)
        else {"verb": step.verb, "main": step.main, **_identity(step)}
        for step in steps
    ]


def from_json(rows: Sequence[dict[str, Any]]) -> tuple[Step, ...]:
    return tuple(
        Apply(row["manifest"], row["main"])
        if row["verb"] == Apply.verb
        else Delete(row["kind"], row["namespace"], row["name"], row["uid"], row["main"])
        for row in rows
    )


def as_manifests(steps: Sequence[Step]) -> list[dict[str, Any]]:
    """The steps as the REST interface has them: manifests, and the identities of deletions."""
    return [step.manifest if isinstance(step, Apply) else _identity(step) for step in steps]


def _identity(step: Delete) -> dict[str, Any]:
    return {"kind": step.kind, "namespace": step.namespace, "name": step.name, "uid": step.uid}
