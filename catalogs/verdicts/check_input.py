"""Input and answer types of the checks, and helpers for the texts of their facts."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from catalogs.contents.bundle_facts import Contents, ApiKind
from catalogs.verdicts.facts import ClusterOffers, ClusterFacts, OperatorFacts, WatchTarget

ALL_NAMESPACES = "AllNamespaces"
MENTIONED = 5  # names in one sentence; more are counted


class Unread(StrEnum):
    """A missing fact that a rule needs; FACT is any fact that is not the cluster's."""

    FACT = "a fact"
    KINDS = "the kinds that the cluster serves"
    CRDS = "the CustomResourceDefinitions of the cluster"
    NAMESPACES = "the namespaces of the cluster"
    ROLES = "the Roles of the namespace openshift-platform-operators"
    OBJECTS = "the ClusterRoles and other cluster-wide objects of the cluster"
    API_SERVICES = "the APIServices of the cluster"
    VERSION = "the versions of the cluster"


Answer = Mapping[str, str] | Unread | None


@dataclass(frozen=True, slots=True)
class CheckContext:
    """The input of a check on a bundle."""

    bundle: Contents
    cluster: ClusterFacts
    market: ClusterOffers | None
    target: WatchTarget


def listed(names: Iterable[str]) -> str:
    ordered = list(dict.fromkeys(names))
    more = len(ordered) - MENTIONED
    return ", ".join(ordered[:MENTIONED]) + (f" and {more} more" if more > 0 else "")


def modes_text(bundle: Contents) -> str:
    return ", ".join(sorted(bundle.install_modes or ())) or "none"


def counted(count: int | None, what: str) -> Answer:
    if count is None:
        return Unread.FACT
    return {"counted": f"{count} {what}{'' if count == 1 else 's'}"} if count else None


def kinds_text(kinds: Iterable[ApiKind]) -> str:
    return listed(kind.label for kind in kinds)


def same_package(context: CheckContext, *kinds: str) -> list[OperatorFacts]:
    """The installed operators of the bundle's package, of these kinds or any."""
    package = context.bundle.package
    return [
        operator
        for operator in context.cluster.installed
        if operator.package == package and (not kinds or operator.kind in kinds)
    ]
