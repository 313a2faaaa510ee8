"""What blocks the next minor version of a cluster: rules on one operator, a sentence each. Pure.

OpenShift counts 4.23 and 5.0 as one minor (operator-lifecycle-manager pkg/controller/operators/
openshift/helpers.go): minors of 5 continue those of 4.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from catalogs.resolve.facts import ResolverPackage

_TEXT = re.compile(r"v?([0-9]{1,4})\.([0-9]{1,4})(?:[.+-].*)?")
_EXACT = re.compile(r"[0-9]{1,4}\.[0-9]{1,4}")
_LAST_OF_4 = 22  # 4.23 is 5.0
# How OLM and cluster-olm-operator name what blocks an update, in the order of their versions:
# skew.String in operator-lifecycle-manager pkg/controller/operators/openshift/helpers.go, and
# pkg/controller/incompatible_operator_controller.go of cluster-olm-operator.
_CSV = r"(?P<namespace>[a-z0-9-]{1,63})/(?P<name>[A-Za-z0-9.-]{1,253})"
_REPORTED = (
    re.compile(rf"{_CSV} is incompatible with OpenShift minor versions greater than "
               r"(?P<maximum>[^\s,]{1,60})"),
    re.compile(rf"maximum supported OCP version for {_CSV} is (?P<maximum>[^\s,]{{1,60}})"),
    re.compile(rf"{_CSV} has invalid olm\.maxOpenShiftVersion properties(?P<maximum>)"),
    re.compile(r'for ClusterExtension "(?P<name>[^"\s]{1,253})"(?P<namespace>)(?P<maximum>)'),
)  # fmt: skip


class Minor(NamedTuple):
    """Compares in OpenShift's order: 4.22 < 4.23 == 5.0 < 5.1."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"

    @property
    def order(self) -> tuple[int, int]:
        return (4, self.minor + _LAST_OF_4 + 1) if self.major == 5 else (self.major, self.minor)

    def next(self) -> "Minor":
        return Minor(self.major, self.minor + 1)


def read_minor(text: str) -> Minor | None:
    """The minor of a version such as 4.16.3 or v1.29.4+build; None if invalid."""
    match = _TEXT.fullmatch(text.strip())
    return Minor(int(match[1]), int(match[2])) if match else None


def read_maximum(text: str) -> Minor | None:
    """The value of olm.maxOpenShiftVersion; None unless it is <major>.<minor>."""
    return read_minor(text) if _EXACT.fullmatch(text) else None


@dataclass(frozen=True, slots=True)
class OfferedPackage:
    """A package in a catalog. `deprecated_*` map a name to its author's message; `maximum` and
    `min_kube` map a bundle to its olm.maxOpenShiftVersion and minKubeVersion, if it has one."""

    catalog: str
    package: str
    facts: ResolverPackage
    deprecated: bool = False
    deprecation: str = ""
    deprecated_channels: Mapping[str, str] = field(default_factory=dict)
    deprecated_bundles: Mapping[str, str] = field(default_factory=dict)
    maximum: Mapping[str, str] = field(default_factory=dict)
    min_kube: Mapping[str, str] = field(default_factory=dict)

    def maxima(self, bundle: str) -> tuple[str, ...]:
        return (self.maximum[bundle],) if self.maximum.get(bundle) else ()

    def version(self, bundle: str) -> str:
        """The bundle's version, else its name."""
        bundle_facts = self.facts.by_name().get(bundle)
        return bundle_facts.version if bundle_facts and bundle_facts.version else bundle


NAMED = 4  # names in a sentence
QUOTED = 500  # characters of a message or of a catalog's text that are quoted


class Weight(StrEnum):
    """The severity of a blocker, worst first."""

    BLOCKS = "blocks"  # the update can't start, unless forced
    COMPLETION = "completion"  # the update starts and does not complete
    HOLDS = "holds"  # an operator refuses upgrades now
    UNKNOWN = "unknown"  # a deciding fact is not stored
    PLAN = "plan"  # the update succeeds, but leaves something that needs a plan


@dataclass(frozen=True, slots=True)
class CheckedOperator:
    """An installed operator. `maximum` holds the values of olm.maxOpenShiftVersion, None if neither
    its CSV nor a catalog has them; `refused` is the message of its OperatorCondition against an
    upgrade, None without one; `plan` is an InstallPlan that waits for approval; `reported_by` is
    the object of the cluster that names it as incompatible, as in "ClusterOperator olm"."""

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
    reported_by: str = ""

    @property
    def words(self) -> str:
        return self.version or self.bundle or self.name


class ReportedOperator(NamedTuple):
    """What a message of the cluster names as incompatible with the next minor: a
    ClusterServiceVersion or a ClusterExtension. `maximum` is empty if the message has none."""

    kind: str
    namespace: str
    name: str
    maximum: str

    @property
    def words(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def reported_operators(message: str) -> list[ReportedOperator]:
    """The operators that the message of an Upgradeable condition names, each once."""
    reported: dict[tuple[str, str], ReportedOperator] = {}
    for pattern in _REPORTED:
        for match in pattern.finditer(message):
            namespace, name = match["namespace"], match["name"]
            kind = "ClusterServiceVersion" if namespace else "ClusterExtension"
            operator = ReportedOperator(kind, namespace, name, match["maximum"])
            reported.setdefault((namespace, name), operator)
    return list(reported.values())


@dataclass(frozen=True, slots=True)
class UpgradeBlocker:
    """`code` names the rule. `ways` are sentences on what to do, the first choice first; `target`
    is the version that clears the blocker, empty if none is known."""

    code: str
    weight: Weight
    sentence: str
    ways: tuple[str, ...] = ()
    target: str = ""


TITLES = {
    "cluster-version": "The cluster refuses the update",
    "cluster-operator": "A ClusterOperator is not upgradeable",
    "cluster-failing": "The cluster is failing",
    "cluster-operator-unhealthy": "A ClusterOperator prevents completion",
    "max-openshift": "Does not support the next OpenShift",
    "max-openshift-unreadable": "Invalid maximum OpenShift version",
    "reported-incompatible": "Reported as incompatible by the cluster",
    "reported-missing": "Reported by the cluster, but not installed",
    "operator-condition": "The operator blocks its own upgrades",
    "max-openshift-unknown": "Unknown maximum OpenShift version",
    "min-kube": "Requires a newer Kubernetes version",
    "package-gone": "Package not in the next catalog",
    "channel-gone": "Channel not in the next catalog",
    "version-gone": "Version not in the next catalog",
    "package-deprecated": "Package deprecated",
    "channel-deprecated": "Channel deprecated",
    "bundle-deprecated": "Version deprecated",
}


def supports(values: Sequence[str], minor: Minor) -> bool:
    """Whether a bundle with these values of olm.maxOpenShiftVersion lets a cluster go to `minor`.

    Like incompatibleOperators in operator-lifecycle-manager pkg/controller/operators/openshift/
    helpers.go: more than one value, or one that can't be read, is an error, which also blocks.
    """
    if not values:
        return True
    maximum = read_maximum(values[0]) if len(values) == 1 else None
    return maximum is not None and maximum.order >= minor.order


def max_openshift(subject: CheckedOperator, following: Minor) -> UpgradeBlocker | None:
    """OLM v0 enforces the property on its ClusterServiceVersions; others are not checked."""
    values = subject.maximum
    if values is None:
        return UpgradeBlocker(
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
    enforced = subject.kind in ("Subscription", "ClusterServiceVersion") or bool(
        subject.reported_by
    )
    weight = Weight.BLOCKS if enforced else Weight.PLAN
    if len(values) > 1 or read_maximum(values[0]) is None:
        quoted = ", ".join(f'"{value[:40]}"' for value in values[:3])
        return UpgradeBlocker(
            "max-openshift-unreadable",
            weight,
            f"Its property olm.maxOpenShiftVersion says {quoted}, and OLM wants one value such as "
            f"{following}: it can't tell, so it holds the cluster.",
        )
    held = (
        f"{subject.reported_by} reports {subject.bundle} as incompatible."
        if subject.reported_by
        else "OLM reports Upgradeable=False until it is upgraded or removed."
        if enforced
        else f"OLM does not enforce it for a {subject.kind}, so it would simply run unsupported."
    )
    return UpgradeBlocker(
        "max-openshift",
        weight,
        f"{subject.words} supports OpenShift up to {values[0]}, the next is {following}. {held}",
    )


def reported_incompatible(reported: ReportedOperator, subject: CheckedOperator) -> UpgradeBlocker:
    """The cluster names an installed operator that the stored facts don't show as incompatible."""
    return UpgradeBlocker(
        "reported-incompatible",
        Weight.BLOCKS,
        f"{subject.reported_by} names {reported.kind} {reported.words} as incompatible with the "
        f"next minor version; the stored facts of {subject.kind} {subject.name} don't confirm it.",
        (
            "Wait until OLM checks again: a message that is out of date clears automatically.",
            f"If it stays, read the annotations of {reported.kind} {reported.words} "
            f"({_get_command(reported)} -o yaml), then upgrade the operator or remove it.",
        ),
    )


def reported_missing(
    reported: ReportedOperator, reported_by: str, following: Minor | None
) -> UpgradeBlocker:
    """The cluster names an operator that the last sync did not find."""
    limit = f", which supports OpenShift up to {reported.maximum}" if reported.maximum else ""
    if reported.kind == "ClusterServiceVersion":
        upgrade = (
            "upgrade it through its Subscription (kubectl get subscriptions.operators.coreos.com "
            f"-n {reported.namespace})"
        )
    else:
        upgrade = "upgrade it through spec.source.catalog.version"
    return UpgradeBlocker(
        "reported-missing",
        Weight.BLOCKS,
        f"{reported_by} names {reported.kind} {reported.words}{limit}. The last sync of the "
        "cluster found no operator with it.",
        (
            f"Check whether it exists: {_get_command(reported)}",
            f"If it exists, {upgrade} to a version that supports OpenShift "
            f"{following or 'the next minor version'}, or remove it.",
            "If it does not exist, there is nothing to do: the message clears when OLM checks "
            "again.",
        ),
    )


def _get_command(reported: ReportedOperator) -> str:
    namespace = f" -n {reported.namespace}" if reported.namespace else ""
    return f"kubectl get {reported.kind.lower()} {reported.name}{namespace}"


def operator_condition(subject: CheckedOperator) -> UpgradeBlocker | None:
    if subject.refused is None:
        return None
    message = _quoted(subject.refused)
    return UpgradeBlocker(
        "operator-condition",
        Weight.HOLDS,
        f"OperatorCondition {subject.bundle} says Upgradeable=False{message} OLM does not "
        "upgrade it until the condition changes.",
        (
            "Do what the message asks for; the condition clears automatically.",
            f"Or override it at your own risk: add an entry of type Upgradeable with status True "
            f"in spec.overrides of OperatorCondition {subject.bundle} in {subject.namespace}.",
        ),
    )


def min_kube(subject: CheckedOperator, running: str) -> UpgradeBlocker:
    return UpgradeBlocker(
        "min-kube",
        Weight.PLAN,
        f"{subject.words} requires Kubernetes {subject.min_kube} or later; the cluster runs "
        f"{running}.",
        (f"Update the cluster to Kubernetes {subject.min_kube} or later.",),
    )


def deprecations(subject: CheckedOperator, offer: OfferedPackage) -> list[UpgradeBlocker]:
    """Deprecations of the package, of the channels that it follows, and of its version."""
    where = f"in catalog {offer.catalog}"
    blockers = []
    if offer.deprecated:
        blockers.append(
            UpgradeBlocker(
                "package-deprecated",
                Weight.PLAN,
                f"Package {offer.package} is deprecated {where}{_quoted(offer.deprecation)}",
                ("Plan to move to the package named in its message, or to another package.",),
            )
        )
    for channel in subject.channels:
        if channel in offer.deprecated_channels:
            message = _quoted(offer.deprecated_channels[channel])
            blockers.append(
                UpgradeBlocker(
                    "channel-deprecated",
                    Weight.PLAN,
                    f"Its channel {channel} is deprecated {where}{message}",
                )
            )
    if subject.bundle in offer.deprecated_bundles:
        message = _quoted(offer.deprecated_bundles[subject.bundle])
        blockers.append(
            UpgradeBlocker(
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


def listed(names: Sequence[str]) -> str:
    """`a, b, c, d and 2 more`."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
