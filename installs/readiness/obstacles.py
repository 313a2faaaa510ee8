"""What stands between a cluster and its next minor version, one sentence each. Pure.

The rules look at one operator (`Subject`) or at what the cluster itself says; `ways` says how out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from installs.readiness.minors import Minor, read_maximum
from installs.readiness.shelves import Shelf

QUOTED = 500  # characters of a message or of a catalog's text that are quoted


class Weight(StrEnum):
    """How much an obstacle weighs, worst first."""

    BLOCKS = "blocks"  # the update can't start
    HOLDS = "holds"  # an operator says that it must not be changed now
    UNKNOWN = "unknown"  # a fact that would decide is stored nowhere
    PLAN = "plan"  # the update goes on, and leaves something behind that needs a plan


@dataclass(frozen=True, slots=True)
class Subject:
    """An installed operator. `maximum` holds the values of olm.maxOpenShiftVersion, None when
    neither its CSV nor a catalog tells them; `refused` is what its OperatorCondition says against
    an upgrade, None when it says nothing; `plan` an InstallPlan that waits for approval."""

    kind: str
    namespace: str
    name: str
    package: str
    version: str
    bundle: str
    channels: tuple[str, ...] = ()
    manual: bool = False
    plan: str = ""
    version_asked: str = ""
    maximum: tuple[str, ...] | None = None
    min_kube: str = ""
    refused: str | None = None

    @property
    def words(self) -> str:
        return self.version or self.bundle or self.name


@dataclass(frozen=True, slots=True)
class Obstacle:
    """`code` names the rule. The ways out are sentences, what to do first; `target` is the version
    that clears it, empty when none is known."""

    code: str
    weight: Weight
    sentence: str
    ways: tuple[str, ...] = ()
    target: str = ""


TITLES = {
    "cluster-version": "The cluster itself refuses",
    "cluster-operator": "A ClusterOperator is not upgradeable",
    "max-openshift": "Supports no later OpenShift",
    "max-openshift-unreadable": "Its maximum OpenShift version can't be read",
    "operator-condition": "The operator refuses upgrades",
    "max-openshift-unknown": "Its maximum OpenShift version is not known",
    "min-kube": "Needs a newer Kubernetes",
    "package-gone": "Package gone in the next catalog",
    "channel-gone": "Channel gone in the next catalog",
    "version-gone": "Stranded in the next catalog",
    "package-deprecated": "Package deprecated",
    "channel-deprecated": "Channel deprecated",
    "bundle-deprecated": "Version deprecated",
}


def supports(values: Sequence[str], minor: Minor) -> bool:
    """Whether a bundle with these values of olm.maxOpenShiftVersion lets a cluster go to `minor`.

    As incompatibleOperators in operator-lifecycle-manager pkg/controller/operators/openshift/
    helpers.go: more than one value, or one that can't be read, is an error, which also blocks.
    """
    if not values:
        return True
    maximum = read_maximum(values[0]) if len(values) == 1 else None
    return maximum is not None and maximum.order >= minor.order


def max_openshift(subject: Subject, following: Minor) -> Obstacle | None:
    """OLM v0 enforces the property on its ClusterServiceVersions; nothing does on the others."""
    values = subject.maximum
    if values is None:
        return Obstacle(
            "max-openshift-unknown",
            Weight.UNKNOWN,
            f"Neither the cluster nor a stored catalog tells whether {subject.words} supports "
            f"OpenShift {following}.",
            (
                f"Sync a catalog that has {subject.bundle or subject.package}, or read the "
                "property olm.maxOpenShiftVersion in its bundle.",
            ),
        )
    if supports(values, following):
        return None
    enforced = subject.kind in ("Subscription", "ClusterServiceVersion")
    weight = Weight.BLOCKS if enforced else Weight.PLAN
    if len(values) > 1 or read_maximum(values[0]) is None:
        quoted = ", ".join(f'"{value[:40]}"' for value in values[:3])
        return Obstacle(
            "max-openshift-unreadable",
            weight,
            f"Its property olm.maxOpenShiftVersion says {quoted}, and OLM wants one value such as "
            f"{following}: it can't tell, so it holds the cluster.",
        )
    held = (
        "OLM reports Upgradeable=False until it is upgraded or removed."
        if enforced
        else f"OLM does not enforce it for a {subject.kind}, so it would simply run unsupported."
    )
    return Obstacle(
        "max-openshift",
        weight,
        f"{subject.words} supports OpenShift up to {values[0]}, the next is {following}. {held}",
    )


def operator_condition(subject: Subject) -> Obstacle | None:
    if subject.refused is None:
        return None
    message = _quoted(subject.refused)
    return Obstacle(
        "operator-condition",
        Weight.HOLDS,
        f"OperatorCondition {subject.bundle} says Upgradeable=False{message} OLM upgrades it to "
        "nothing, so no other way out of its works while it says so.",
        (
            "Do what the message asks for; the condition clears by itself.",
            f"Or overrule it, at your own risk: an entry of type Upgradeable with status True in "
            f"spec.overrides of OperatorCondition {subject.bundle} in {subject.namespace}.",
        ),
    )


def min_kube(subject: Subject, running: str, needed_is_newer: bool) -> Obstacle | None:
    if not needed_is_newer:
        return None
    return Obstacle(
        "min-kube",
        Weight.PLAN,
        f"{subject.words} asks for Kubernetes {subject.min_kube} or later, the cluster has "
        f"{running}.",
        (f"Update the cluster to Kubernetes {subject.min_kube} or later: that clears it.",),
    )


def deprecations(subject: Subject, shelf: Shelf) -> list[Obstacle]:
    """The package, each channel that it follows, and the installed version; in this order."""
    where = f"in catalog {shelf.catalog}"
    blockers = []
    if shelf.deprecated:
        blockers.append(
            Obstacle(
                "package-deprecated",
                Weight.PLAN,
                f"Package {shelf.package} is deprecated {where}{_quoted(shelf.deprecation)}",
                ("Plan to move to what its message names, or to another package.",),
            )
        )
    for channel in subject.channels:
        if channel in shelf.deprecated_channels:
            message = _quoted(shelf.deprecated_channels[channel])
            blockers.append(
                Obstacle(
                    "channel-deprecated",
                    Weight.PLAN,
                    f"Its channel {channel} is deprecated {where}{message}",
                )
            )
    if subject.bundle in shelf.deprecated_bundles:
        message = _quoted(shelf.deprecated_bundles[subject.bundle])
        blockers.append(
            Obstacle(
                "bundle-deprecated",
                Weight.PLAN,
                f"Version {subject.words} is deprecated {where}{message}",
            )
        )
    return blockers


def _quoted(message: str) -> str:
    """The end of a sentence: a colon and the message on one line, or the full stop alone."""
    text = " ".join(message.split())[:QUOTED].rstrip(".")
    return f": {text}." if text else "."
