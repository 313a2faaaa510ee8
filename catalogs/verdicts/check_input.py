"""What a check is given and may answer, and how it names things. Knows no rule."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from catalogs.contents.bundle_facts import Contents, Kind
from catalogs.verdicts.facts import CatalogOffers, ClusterFacts, Installed, Target

ALL_NAMESPACES = "AllNamespaces"
MENTIONED = 5  # names in one sentence; more are counted


class Unread(StrEnum):
    """Facts that a rule needs and that are not there: FACT stands for any but the cluster's."""

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
    """What every check may look at."""

    bundle: Contents
    cluster: ClusterFacts
    market: CatalogOffers | None
    target: Target


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


def kinds_text(kinds: Iterable[Kind]) -> str:
    return listed(each.label for each in kinds)


def same_package(context: CheckContext, *kinds: str) -> list[Installed]:
    """What is installed of the bundle's package, by these kinds or any."""
    package = context.bundle.package
    return [
        each
        for each in context.cluster.installed
        if each.package == package and (not kinds or each.kind in kinds)
    ]
