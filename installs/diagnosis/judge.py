"""The class of one object by itself: which of its conditions decides, and what it says.

Knows nothing of chains; what the conditions mean is in states.py.
"""

from collections.abc import Sequence
from dataclasses import replace

from installs.diagnosis import workloads
from installs.diagnosis.classify import find
from installs.diagnosis.judgement import (
    Judgement,
    condition_of,
    judge_phase,
    judge_type,
    worst,
)
from installs.diagnosis.reading import rows, text
from installs.diagnosis.requirements import needs_a_person, requirement_rows
from installs.diagnosis.states import BROKEN, PHASE, Class, class_of
from installs.diagnosis.types import Observation, read_conditions

_RETRYING = "retrying execution due to error:"
# Says only that the real error stands in the Installed condition.
_SEE_INSTALLED = "retrying to get installed bundle"
_ORDER = {
    "PlatformOperator": ("Installed",),
    "BundleDeployment": ("Installed", "HasValidBundle", "Unpacked", "Healthy"),
    "ClusterObjectSet": ("Progressing", "Available"),
    "OperatorGroup": ("OperatorGroupServiceAccount", "MultipleOperatorGroup"),
    "OperatorCondition": ("Upgradeable",),
}
# An OperatorGroup without conditions has nothing to complain of.
_SILENT_IS_HEALTHY = frozenset(("OperatorGroup", "OperatorCondition"))


def judge(one: Observation) -> Judgement:
    """The class of any object; a kind that is not covered is UNKNOWN with its own words."""
    special = {
        "Bundle": judge_bundle,
        "ClusterExtension": judge_extension,
        "ClusterCatalog": judge_catalog,
        "CatalogSource": judge_catalog_source,
        "InstallPlan": judge_plan,
        "ClusterServiceVersion": judge_csv,
        "Deployment": workloads.judge_deployment,
    }.get(one.kind)
    if special:
        return special(one)
    order = _ORDER.get(one.kind)
    if order is None:
        return Judgement(Class.UNKNOWN, one.reason, one.message)
    verdict = worst([judge_type(one, type_) for type_ in order])
    if verdict.state is Class.ABSENT and one.kind in _SILENT_IS_HEALTHY:
        return Judgement(Class.HEALTHY)
    return verdict


def judge_bundle(one: Observation) -> Judgement:
    """A pending Bundle whose message names a cause (an image that can't be pulled) is stuck."""
    verdict = judge_type(one, "Unpacked")
    if (
        verdict.state is Class.PROGRESSING
        and verdict.message
        and find(verdict.message, kind="Bundle")
    ):
        return replace(verdict, state=Class.RETRYING)
    return verdict


def judge_extension(one: Observation) -> Judgement:
    """A ClusterExtension: Progressing speaks first, then Installed, then Available."""
    installed, progressing = judge_type(one, "Installed"), judge_type(one, "Progressing")
    available = judge_type(one, "Available")
    if progressing.state in (Class.RETRYING, Class.FAILED):
        told = (
            installed
            if progressing.message == _SEE_INSTALLED and installed.message
            else progressing
        )
        works = installed.state is Class.HEALTHY
        state = Class.DEGRADED if works else Class.FAILED
        return Judgement(state, progressing.reason, told.message)
    if progressing.state in (Class.BLOCKED, Class.PROGRESSING, Class.UNKNOWN):
        return progressing
    if installed.state is Class.HEALTHY and available.state in (Class.DEGRADED, Class.PROGRESSING):
        return available
    if installed.state is Class.ABSENT:
        return progressing
    return installed


def judge_catalog(one: Observation) -> Judgement:
    """A ClusterCatalog: old content that is still served makes a failed poll a degradation."""
    serving, progressing = judge_type(one, "Serving"), judge_type(one, "Progressing")
    if serving.state is Class.BLOCKED:  # switched off by its owner
        return serving
    if progressing.state in (Class.RETRYING, Class.FAILED):
        state = Class.DEGRADED if serving.state is Class.HEALTHY else Class.RETRYING
        return replace(progressing, state=state)
    if progressing.state in (Class.BLOCKED, Class.UNKNOWN):
        return progressing
    return serving if serving.state is not Class.ABSENT else progressing


def judge_catalog_source(one: Observation) -> Judgement:
    """A CatalogSource: its reason when that is an error, else the state of its connection.

    Before OLM has tried to connect nothing is known of it.
    """
    reason = one.reason or text(one.details, "reason")
    message = one.message or text(one.details, "message")
    if reason:
        told = class_of(one.kind, "reason", "", reason)
        if told in BROKEN:
            return Judgement(told, reason, message)
    state = text(one.details, "state")
    if not state:
        return Judgement(Class.ABSENT, reason, message)
    return Judgement(class_of(one.kind, "connectionState", state, ""), reason or state, message)


def judge_plan(one: Observation) -> Judgement:
    """An InstallPlan: an approval that is given but not yet seen, and retries, are told apart."""
    verdict = judge_phase(one, reason="")
    message = one.message or text(one.details, "message")
    installed = judge_type(one, "Installed")
    if verdict.state is Class.BLOCKED:
        if one.details.get("approved") is True:
            return Judgement(Class.PROGRESSING, one.phase)
        return Judgement(Class.BLOCKED, one.phase, message)
    if verdict.state is Class.FAILED:
        return Judgement(Class.FAILED, installed.reason or one.phase, installed.message or message)
    if verdict.state is not Class.HEALTHY:
        if installed.state in BROKEN:
            return installed
        if message.startswith(_RETRYING):
            return Judgement(Class.RETRYING, one.phase, message)
        if unpacking := _unpacking(one):
            return unpacking
    return replace(verdict, message=verdict.message or message)


def _unpacking(plan: Observation) -> Judgement | None:
    """What is wrong with the unpacking of the plan's bundles, None when nothing is."""
    for lookup in rows(plan.details, "lookups"):
        for condition in read_conditions(rows(lookup, "conditions")):
            state = class_of(plan.kind, condition.type, condition.status, condition.reason)
            if state is Class.FAILED:
                return Judgement(state, condition.reason or condition.type, condition.message)
            if state is Class.PROGRESSING and _names_a_cause(condition.message, plan.kind):
                return Judgement(Class.RETRYING, condition.reason, condition.message)
    return None


def _names_a_cause(message: str, kind: str) -> bool:
    found = find(message, kind=kind) if message else None
    return found is not None and found.entry.id.startswith(("image-", "olmv0-unpack-image-"))


def judge_csv(one: Observation) -> Judgement:
    """A ClusterServiceVersion by phase and reason; its conditions are a log and not read.

    A requirement that only a person can provide makes Pending a block.
    """
    reason = one.reason or text(one.details, "reason")
    message = one.message or text(one.details, "message")
    state = class_of(one.kind, PHASE, one.phase, reason)
    pending = state is Class.RETRYING and reason == "RequirementsNotMet"
    if pending and needs_a_person(requirement_rows(one.details)):
        state = Class.BLOCKED
    return Judgement(state, reason, message)


def abnormal(one: Observation) -> Sequence[tuple[str, Judgement]]:
    """The conditions of a Subscription that say that something is wrong or going on."""
    found = []
    for condition in one.conditions:
        state = class_of(one.kind, condition.type, condition.status, condition.reason)
        if state is Class.PROGRESSING and _names_a_cause(condition.message, one.kind):
            state = Class.RETRYING
        if state in BROKEN or state is Class.PROGRESSING:
            found.append((condition.type, Judgement(state, condition.reason, condition.message)))
    return found


def installed_before(one: Observation) -> bool:
    """Whether a ClusterExtension has something installed, whatever happens to it now."""
    condition = condition_of(one, "Installed")
    return condition is not None and condition.status == "True"
