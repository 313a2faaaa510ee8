"""What is worth knowing of an installation although it does not decide its health."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from installs.diagnosis import outdated
from installs.diagnosis.classify import DEPRECATIONS, classify
from installs.diagnosis.finding import Said, finding_of
from installs.diagnosis.judgement import judge_type
from installs.diagnosis.reading import moment, rows, text
from installs.diagnosis.states import Class
from installs.diagnosis.times import DELETING, stuck, usual_time
from installs.diagnosis.types import Diagnosis, Finding, Link, Observation

_GOING_ON = ("Installing", "Upgrading")
# OLM installs this one itself, so no Subscription is missing.
_PART_OF_OLM = "packageserver"
# Where the sync keeps since when an object of a kind is in its phase.
_SINCE = {"ClusterServiceVersion": "last_update", "InstallPlan": "start_time"}


def notes_of(
    subject: Observation,
    components: Sequence[Observation],
    found: Diagnosis,
    now: datetime | None,
) -> tuple[Finding, ...]:
    """The notes, most important first; empty when there is nothing to say.

    Without `now` nothing is said about how long something takes.
    """
    said = [*_deleting(subject, now)]
    if now is not None and not said:
        said += _slow(subject, components, found, now)
    said += _earlier(subject, components, found)
    said += _outdated(subject, components)
    said += _held(components, found)
    if subject.kind == "ClusterServiceVersion" and subject.name != _PART_OF_OLM:
        said.append(f"clusterserviceversion {subject.name} has no subscription")
    notes = [
        finding_of(subject, [Said(subject.kind, subject.namespace, subject.name, one)])
        for one in said
    ]
    return (*filter(None, notes), *_deprecated(subject))


def _deleting(subject: Observation, now: datetime | None) -> Iterator[str]:
    if not subject.deleting:
        return
    since = moment(text(subject.details, "deleted_at"))
    if now is not None and stuck(subject.kind, DELETING, since, now):
        minutes = int((now - since).total_seconds() // 60) if since else 0
        yield f"{subject.kind} {subject.name} waits for its finalizers for {minutes} minutes"
    else:
        yield f"{subject.kind} {subject.name} is being deleted"


def _slow(
    subject: Observation, components: Sequence[Observation], found: Diagnosis, now: datetime
) -> Iterator[str]:
    """The step that goes on now, when it takes longer than it usually does."""
    if found.health not in _GOING_ON:
        return
    objects = {(one.kind, one.namespace, one.name): one for one in (*components, subject)}
    going = [link for link in found.chain if link.state == "progressing"]
    if not going and found.health == "Installing":
        going = [link for link in found.chain[:1] if not link.reason]  # nobody has answered yet
    if not going:
        return
    link = going[-1]
    one = objects.get((link.kind, link.namespace, link.name))
    since = _since(one, link, subject) if one else None
    usual = usual_time(link.kind, link.reason)
    if since is None or usual is None or not stuck(link.kind, link.reason, since, now):
        return
    minutes = int((now - since).total_seconds() // 60)
    yield (
        f"{link.kind} {link.name} is at {link.reason or 'its start'} for {minutes} minutes, usually"
        f" at most {int(usual.total_seconds() // 60)}"
    )


def _since(one: Observation, link: Link, subject: Observation) -> datetime | None:
    """Since when the object is at its step: its own time of the phase, which is exact, then when
    we saw it, then its condition's, which moves only with the status, then its age."""
    if exact := moment(text(one.details, _SINCE.get(one.kind, ""))):
        return exact
    times = [
        at
        for condition in one.conditions
        if condition.reason == link.reason and (at := moment(condition.last_transition_time))
    ]
    return subject.since or max(times, default=None) or one.created_at


def _earlier(
    subject: Observation, components: Sequence[Observation], found: Diagnosis
) -> Iterator[str]:
    """An InstallPlan that failed before what it brought came up all the same."""
    if subject.kind != "Subscription" or found.health != "Healthy":
        return
    for link in found.chain:
        if link.kind == "InstallPlan" and link.state == "failed":
            yield f"installplan {link.name} failed earlier: {link.message or link.reason}"


def _outdated(subject: Observation, components: Sequence[Observation]) -> Iterator[str]:
    """A failed resolution that OLM still tells of although it is over."""
    if subject.kind != "Subscription":
        return
    csvs = [
        one
        for one in components
        if (one.kind, one.namespace) == ("ClusterServiceVersion", subject.namespace)
    ]
    if why := outdated.over(subject, csvs):
        # Without what makes it a list of constraints, whose worst would be told.
        told = outdated.told_by(subject).removeprefix("constraints not satisfiable: ")
        yield f"resolution failed before, and {why}: {told}"


def _held(components: Sequence[Observation], found: Diagnosis) -> Iterator[str]:
    """The running operator does not allow its next upgrade."""
    if found.health != "Healthy":
        return
    for one in components:
        if one.kind != "OperatorCondition":
            continue
        verdict = judge_type(one, "Upgradeable")
        overridden = any(
            text(override, "type") == "Upgradeable" and text(override, "status") == "True"
            for override in rows(one.details, "overrides")
        )
        if verdict.state is Class.BLOCKED and not overridden:
            why = verdict.message or verdict.reason
            yield f"operatorcondition {one.name} does not allow an upgrade: {why}"


def _deprecated(subject: Observation) -> Iterator[Finding]:
    """What OLM says is deprecated, each text once; judged by status alone.

    The condition Deprecated joins the messages of the others with newlines (operator-controller,
    clusterextension_controller.go): where it holds them all, it alone is told.
    """
    told = {
        one.message: one.type
        for one in subject.conditions
        if one.type in DEPRECATIONS and one.status == "True"
    }
    joined = next((message for message, type_ in told.items() if type_ == "Deprecated"), "")
    for message, type_ in told.items():
        if type_ != "Deprecated" and message and message in joined:
            continue
        note = classify(message or type_, kind=subject.kind, type=type_)
        if note is not None:
            yield replace(note, facts={"message": message, **note.facts})
