"""What is wrong with a CustomResourceDefinition: stored versions, names, structure.

`status.storedVersions` only ever grows: a version stays listed until somebody takes it out, and an
upgrade whose definition lacks a listed version is refused. It is no proof of what etcd holds.
"""

from collections.abc import Iterable, Sequence

from installs.diagnosis.classify import Match, find
from installs.diagnosis.types import Condition

KIND = "CustomResourceDefinition"
# Condition type -> the status that is a problem.
_PROBLEMS = {
    "NamesAccepted": "False",
    "Established": "False",
    "Terminating": "True",
    "NonStructuralSchema": "True",
}


def crd_problem(
    name: str,
    defined: Sequence[str],
    served: Sequence[str],
    stored: Sequence[str],
    conditions: Iterable[Condition],
) -> Match | None:
    """Id of the finding and its facts, None for a sound definition.

    `defined` are the names in spec.versions, `served` those that are served, `stored` those of
    status.storedVersions. Before the definition has spec.versions nothing is said.
    """
    if defined:
        undefined = [one for one in stored if one not in defined]
        unserved = [one for one in stored if one in defined and one not in served]
        keep = [one for one in stored if one in served] or list(served)
        if undefined:
            problem = f"stores {', '.join(undefined)}, which it does not define"
            return _match(name, problem + _stays(keep))
        if unserved:
            problem = f"stores {', '.join(unserved)}, which it does not serve"
            return _match(name, problem + _stays(keep))
    told = {one.type: one for one in conditions}
    for type_, status in _PROBLEMS.items():
        one = told.get(type_)
        # A definition that was just made is not established yet and says so with this reason.
        if one is None or one.status != status or one.reason == "Installing":
            continue
        return _match(name, f"{type_} is {status}: {one.reason}: {one.message}")
    return None


def _stays(keep: Sequence[str]) -> str:
    """The one version that is left to store objects in; several leave the choice to the reader."""
    return f"; {keep[0]} stays" if len(keep) == 1 else ""


def _match(name: str, problem: str) -> Match | None:
    return find(f"customresourcedefinition {name}: {problem}", kind=KIND)
