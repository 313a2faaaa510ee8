"""The ClusterOperator `platform-operators-aggregated`: what its message and conditions mean.

Pure. The message lists each PlatformOperator that is not installed, in random order, and only with
its reason; the causes are in the PlatformOperators themselves.
"""

import re
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from datetime import datetime, timedelta

from installs.diagnosis.approvals import listing
from installs.diagnosis.types import Condition
from olmweb.kube.fields import read_time

NAME = "platform-operators-aggregated"
# While the ClusterVersion is Failing; oc pkg/cli/admin/upgrade/upgrade.go: checkForUpgrade.
REFUSED_WHILE_FAILING = "oc adm upgrade needs --allow-upgrade-with-warnings"
# Releases of the manager differ in their words.
_MEMBER = re.compile(
    r"encountered the failing (?P<name>\S{1,253}) platform operator"
    r' with reason "(?P<why>[^"]{0,1024})"'
    r"|platform operator unready: (?P<name2>\S{1,253}) platform operator"
    r" has (?P<why2>\w{0,1024}) reason"
)
_LISTED = 5
# The ClusterOperators of OLM v0, OLM v1, the catalogs of OpenShift and the PlatformOperators.
_OF_OLM = frozenset(
    {
        "marketplace",
        "olm",
        "operator-lifecycle-manager",
        "operator-lifecycle-manager-catalog",
        "operator-lifecycle-manager-packageserver",
        NAME,
    }
)
# A PlatformOperator without conditions is listed with this reason.
_SILENT = "InstallPending"
_PENDING = frozenset((_SILENT, "UnpackPending"))
# Clocks differ, and the message is written a moment after its members change.
_AT_ONCE = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class Member:
    """One PlatformOperator that the message names as failing."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class PlatformOperatorStatus:
    """The status of a PlatformOperator. `cause` is that of its finding, empty without one; `since`
    is when its reason was first observed, because its own time changes only with the status."""

    name: str
    installed: bool
    reason: str = ""
    cause: str = ""
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class MemberCause:
    """Members with one cause; `names` in alphabetical order."""

    cause: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """The meaning of the aggregated ClusterOperator, in sentences that may be empty.

    `age`: whether the message or the PlatformOperators are newer if they differ; `remarks` correct
    what its conditions seem to mean.
    """

    causes: tuple[MemberCause, ...]
    disagreement: str
    age: str
    remarks: tuple[str, ...]


def explain_aggregated(
    conditions: Iterable[Condition],
    members: Sequence[Member],
    operators: Iterable[PlatformOperatorStatus],
) -> Explanation:
    """Which members fail and why, and whether the message is out of date.

    `operators` are all PlatformOperators of the cluster; causes come from them, as the message has
    only their reasons, in random order.
    """
    conditions = tuple(conditions)
    by_name = {operator.name: operator for operator in operators}
    failing = {operator.name for operator in by_name.values() if not operator.installed}
    return Explanation(
        causes=_by_cause(members, by_name),
        disagreement=disagreement(members, failing),
        age=_age(_written_at(conditions), _differing(members, by_name)),
        remarks=_remarks(conditions, members),
    )


def _by_cause(
    members: Sequence[Member], by_name: dict[str, PlatformOperatorStatus]
) -> tuple[MemberCause, ...]:
    groups: dict[str, list[str]] = {}
    for member in members:
        operator = by_name.get(member.name)
        cause = (operator.cause or operator.reason if operator else "") or member.reason
        groups.setdefault(cause, []).append(member.name)
    causes = [MemberCause(cause, tuple(sorted(names))) for cause, names in groups.items()]
    return tuple(sorted(causes, key=lambda cause: (-len(cause.names), cause.cause)))


def _differing(
    members: Sequence[Member], by_name: dict[str, PlatformOperatorStatus]
) -> list[PlatformOperatorStatus]:
    """The PlatformOperators whose status differs from the message."""
    listed = {member.name: member.reason for member in members}
    return [
        operator
        for operator in by_name.values()
        if listed.get(operator.name) != (None if operator.installed else operator.reason or _SILENT)
    ]


def _written_at(conditions: Sequence[Condition]) -> datetime | None:
    """When the message was written, as its controller updates the time of all conditions."""
    available = (condition for condition in conditions if condition.type == "Available")
    return next((read_time(condition.last_transition_time) for condition in available), None)


def _age(written: datetime | None, differing: Sequence[PlatformOperatorStatus]) -> str:
    changes = [operator.since for operator in differing if operator.since is not None]
    gap = max(changes) - written if written is not None and changes else timedelta(0)
    if abs(gap) <= _AT_ONCE:
        return ""
    long = _long(abs(gap))
    if gap > timedelta(0):
        return (
            f"The PlatformOperators changed {long} after the message was written, so it is "
            "out of date: its controller is late or stopped."
        )
    return (
        f"The message was written {long} after the PlatformOperators last changed here, so it is "
        "the later word: the next sync shows what they say now."
    )


def _remarks(conditions: Sequence[Condition], members: Sequence[Member]) -> tuple[str, ...]:
    status = {condition.type: condition.status for condition in conditions}
    remarks: list[str] = []
    if status.get("Available") == "False" and status.get("Progressing") == "True":
        remarks.append(
            "Progressing=True does not say that work goes on, and Degraded is never True here: "
            "while any platform operator is not installed, this cluster operator says the same."
        )
    waiting = sorted(member.name for member in members if member.reason in _PENDING)
    if waiting:
        verb = "waits" if len(waiting) == 1 else "wait"
        remarks.append(f"{_names(waiting)} only {verb}; the message counts that as failing too.")
    return tuple(remarks)


def _long(gap: timedelta) -> str:
    """Whole days, hours or minutes; a gap is longer than a minute."""
    minutes = int(gap.total_seconds() // 60)
    size, word = next(
        unit for unit in ((1440, "day"), (60, "hour"), (1, "minute")) if minutes >= unit[0]
    )
    count = minutes // size
    return f"{count} {word}{'s' if count > 1 else ''}"


def parse_members(message: str) -> tuple[Member, ...]:
    """The members of the message, sorted by name; a list has brackets, a single item none."""
    members = {
        name: Member(name, match["why"] or match["why2"] or "")
        for match in _MEMBER.finditer(message)
        if (name := match["name"] or match["name2"])
    }
    return tuple(members[name] for name in sorted(members))


def disagreement(members: Sequence[Member], failing: Set[str]) -> str:
    """A sentence if the message and the PlatformOperators differ, else empty.

    `failing` are the names of those whose Installed condition is not True.
    """
    listed = {member.name for member in members}
    parts: list[str] = []
    if extra := sorted(listed - failing):
        parts.append(
            f"its message names {_names(extra)}, installed according to the PlatformOperators"
        )
    if missing := sorted(failing - listed):
        parts.append(f"its message leaves out {_names(missing)}, not installed according to them")
    if not parts:
        return ""
    return (
        "This ClusterOperator and the PlatformOperators disagree: "
        + "; ".join(parts)
        + ". It is rewritten on every reconcile, so its controller may be late or stopped."
    )


def explain_impact(conditions: Iterable[Condition]) -> tuple[str, str]:
    """Two sentences: what the conditions block, and what they don't block.

    Rules of the cluster version operator: an installation needs Available=True; the end of an
    update needs Available=True and Degraded not True; only Upgradeable=False stops the start of an
    update to the next minor version. With Available=False the ClusterVersion is Failing, which
    oc adm upgrade checks before it asks for any update.
    """
    conditions = tuple(conditions)
    blocked, free = _impact(
        conditions,
        "the completion of a cluster installation",
        "the completion of a running update",
        "the start of an update to the next minor version",
    )
    leaves = f"It does not block {listing(free)}." if free else ""
    if _is_unavailable(conditions):
        leaves = f"While it is unavailable the ClusterVersion is Failing: {REFUSED_WHILE_FAILING}."
    return (
        f"It blocks {listing(blocked)}." if blocked else "It blocks nothing.",
        leaves or "There is nothing that it leaves free.",
    )


def summarize_impact(conditions: Iterable[Condition]) -> str:
    """The facts of `explain_impact` in one short line, in one order for all."""
    conditions = tuple(conditions)
    operations = (
        "completing an installation",
        "completing an update",
        "starting a minor version update",
    )
    blocked, _ = _impact(conditions, *operations)
    if not blocked:
        return "Blocks nothing."
    states = (f"{name}: {'blocked' if name in blocked else 'not blocked'}" for name in operations)
    refusal = f" Meanwhile {REFUSED_WHILE_FAILING}." if _is_unavailable(conditions) else ""
    return "; ".join(states).capitalize() + "." + refusal


def blocks_completion(conditions: Iterable[Condition]) -> bool:
    """Whether an update does not complete while its conditions are so."""
    return "update" in _impact(conditions, "installation", "update", "next minor")[0]


def not_part_of_olm(name: str) -> str:
    """The reason, without its end, why the remedy for a ClusterOperator is elsewhere."""
    return f"ClusterOperator {name} is no part of OLM, so this console can't clear its conditions"


def external_remedy(name: str, conditions: Iterable[Condition]) -> tuple[str, ...]:
    """Steps and commands for a ClusterOperator that is no part of OLM; empty if it is one, or if
    its conditions block neither the completion nor the start of an update."""
    blocked, _ = _impact(conditions, "installation", "update", "next minor")
    if name in _OF_OLM or not {"update", "next minor"}.intersection(blocked):
        return ()
    return (
        f"{not_part_of_olm(name)}: they clear by themselves once the cause is resolved. See their "
        "messages, and the namespaces under Related Objects in the output of this command:",
        f"oc describe clusteroperator {name}",
        "If the messages do not name the cause, see the pods and logs of these namespaces. This "
        "collects them in a folder:",
        f"oc adm inspect clusteroperator/{name}",
        "For a support case, collect the data of the whole cluster:",
        "oc adm must-gather",
    )


def _is_unavailable(conditions: Iterable[Condition]) -> bool:
    return any((c.type, c.status) == ("Available", "False") for c in conditions)


def _impact(
    conditions: Iterable[Condition], installation: str, update: str, next_minor: str
) -> tuple[list[str], list[str]]:
    """Which of the three the conditions block, and which not."""
    status = {condition.type: condition.status for condition in conditions}
    unavailable = status.get("Available") != "True"
    degraded = status.get("Degraded") == "True"
    held = status.get("Upgradeable") == "False"
    blocked: list[str] = []
    free: list[str] = []
    (blocked if unavailable else free).append(installation)
    (blocked if unavailable or degraded else free).append(update)
    (blocked if held else free).append(next_minor)
    return blocked, free


def _names(names: Sequence[str]) -> str:
    rest = len(names) - _LISTED
    shown = ", ".join(names[:_LISTED])
    return f"{shown} and {rest} more" if rest > 0 else shown
