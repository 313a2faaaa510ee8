"""What a ClusterServiceVersion requires and whether the cluster has it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from installs.diagnosis.reading import rows, text

# What OLM writes when a requirement is met: requirements.go of its controllers.
_MET = frozenset(("Present", "Satisfied", "DeploymentFound"))
_CLUSTERWIDE = frozenset(("CustomResourceDefinition", "APIService", "ClusterServiceVersion"))


@dataclass(frozen=True, slots=True)
class Requirement:
    """One entry of status.requirementStatus.

    `rules` are the dependents that are not satisfied, in OLM's words: permissions as JSON.
    """

    group: str
    version: str
    kind: str
    name: str
    status: str
    message: str
    met: bool
    rules: tuple[str, ...] = ()

    @property
    def said(self) -> str:
        """The requirement in one line, as the knowledge base reads it."""
        return f"{self.kind} {self.name}: {self.message or self.status}"


def requirement_rows(details: Mapping[str, Any]) -> tuple[Requirement, ...]:
    """The requirements of a ClusterServiceVersion, those that are not met first.

    Of those the ones that cause others stand first: a missing definition or API comes before the
    service account, which the same InstallPlan would have made.
    """
    found = [_requirement(one) for one in rows(details, "requirements")]
    return tuple(sorted(found, key=_order))


def needs_a_person(requirements: Sequence[Requirement]) -> bool:
    """Whether something is missing that OLM does not make by itself."""
    return any(not one.met and one.kind != "ServiceAccount" for one in requirements)


def clusterwide(requirement: Requirement) -> bool:
    """Whether an object of this kind has no namespace."""
    return requirement.kind in _CLUSTERWIDE


def _requirement(one: Mapping[str, Any]) -> Requirement:
    status = text(one, "status")
    rules = tuple(
        text(rule, "message")
        for rule in rows(one, "dependents")
        if text(rule, "status") not in _MET
    )
    return Requirement(
        group=text(one, "group"),
        version=text(one, "version"),
        kind=text(one, "kind"),
        name=text(one, "name"),
        status=status,
        message=text(one, "message"),
        met=status in _MET and not rules,
        rules=rules,
    )


def _order(one: Requirement) -> tuple[bool, bool, str, str]:
    return (one.met, one.kind == "ServiceAccount", one.kind, one.name)
