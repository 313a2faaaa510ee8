"""What is wrong with an installation of OLM v0, and which object is to blame.

The order of the questions is the order of causes. Something that runs is asked first whether it
runs, then whether it can be updated; something that does not exist yet is asked from its
InstallPlan up to its catalog.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from installs.diagnosis.finding import Said
from installs.diagnosis.judge import judge
from installs.diagnosis.judgement import APPROVAL, Judgement, condition_of, link_of
from installs.diagnosis.reading import rows, text, texts
from installs.diagnosis.requirements import Requirement, clusterwide, requirement_rows
from installs.diagnosis.resolution import blamed_catalog, blocked_by
from installs.diagnosis.scene import Scene
from installs.diagnosis.states import BROKEN, Class
from installs.diagnosis.types import Link, Observation
from installs.diagnosis.workloads import Trouble, trouble

NOT_RUNNING = "Installed, not running"
_WAITS_FOR_PODS = frozenset(
    ("InstallWaiting", "InstallSucceeded", "InstallCheckFailed", "ComponentUnhealthy")
)
_GROUP_COUNT = "expected 1 OperatorGroup in the namespace, found {}"
_GROUP_REASONS = frozenset(("UnsupportedOperatorGroup",))


@dataclass(frozen=True, slots=True)
class Problem:
    """The cause. `links` are the objects that it is about, one behind the other, the broken one
    marked; the first stands behind the last link of kind `after`. What is in the chain already
    keeps its place."""

    health: str
    reason: str
    message: str
    said: tuple[Said, ...]
    links: tuple[Link, ...]
    after: str = ""


def problem_of(scene: Scene) -> Problem | None:
    """The cause of what is wrong, None while nothing is."""
    verdict = scene.csv_verdict
    if scene.csv is None:
        return _before_csv(scene)
    if verdict.state is Class.HEALTHY:
        return _not_running(scene) or _no_update(scene)
    if verdict.state is Class.UNKNOWN:
        return None
    return _installing(scene, scene.csv, verdict)


def _installing(scene: Scene, csv: Observation, verdict: Judgement) -> Problem | None:
    """A ClusterServiceVersion that is not there yet or has failed."""
    if csv.phase in ("", "Pending"):
        plan = scene.plan_verdict
        if scene.plan is not None and not scene.plan_is_next and plan.state in BROKEN:
            return _plan(scene, scene.plan, plan)
        if verdict.reason == "RequirementsNotMet" and plan.state is Class.PROGRESSING:
            return None  # the plan is still creating what is missing
    if verdict.reason == "RequirementsNotMet":
        return _requirement(scene, csv, verdict)
    found = trouble(scene.deployments) if verdict.reason in _WAITS_FOR_PODS else None
    if found and (found.certain or csv.phase == "Failed"):
        state = verdict.state if csv.phase == "Failed" else Class.FAILED
        return _pods(found, _health(scene, state), found.message)
    if verdict.state in BROKEN:
        return _csv(scene, csv, verdict)
    return None


def _not_running(scene: Scene) -> Problem | None:
    found = trouble(scene.deployments)
    if found is None:
        return None
    told = ": ".join(filter(None, (NOT_RUNNING, found.reason, found.message)))
    return _pods(found, "Degraded", told)


def _pods(found: Trouble, health: str, message: str) -> Problem:
    one = found.deployment
    said = Said(found.kind, one.namespace, one.name, found.said)
    return Problem(
        health, found.reason, message, (said,), found.links, after="ClusterServiceVersion"
    )


def _no_update(scene: Scene) -> Problem | None:
    """An installed version runs: can the next one come?"""
    plan = scene.plan_verdict
    if scene.plan is not None and scene.plan_is_next and plan.state in BROKEN:
        return _plan(scene, scene.plan, plan)
    return _above(scene)


def _before_csv(scene: Scene) -> Problem | None:
    """There is no ClusterServiceVersion: the InstallPlan speaks first, then what is above it."""
    plan = scene.plan_verdict
    if scene.plan is not None and plan.state in BROKEN:
        return _plan(scene, scene.plan, plan)
    if found := _above(scene):
        return found
    # Only once the Subscription has seen it: before that it may just not have reached us.
    was_there = scene.csv_name == text(scene.subject.details, "installed_csv") != ""
    if scene.plan is not None and plan.state is Class.HEALTHY and was_there:
        return _csv_gone(scene)
    if scene.plan is not None or scene.csv_name:
        return None
    return _groups(scene) or _own_catalog(scene)


def _groups(scene: Scene) -> Problem | None:
    """OLM resolves nothing without exactly one OperatorGroup, and tells the Subscription nothing.

    How many there are is asked only once OLM has seen the Subscription: a group may be made with
    it. What a group itself complains of counts at once.
    """
    for group in scene.groups:
        verdict = judge(group)
        if verdict.state in BROKEN:
            return _group(scene, group, verdict)
    count = len(scene.groups)
    if count == 1 or condition_of(scene.subject, "CatalogSourcesUnhealthy") is None:
        return None
    reason = "MultipleOperatorGroupsFound" if count else "NoOperatorGroup"
    told = Judgement(Class.BLOCKED, reason, _GROUP_COUNT.format(count))
    return _group(scene, scene.groups[0], told) if count else _own(scene, told)


def _group(scene: Scene, group: Observation, verdict: Judgement) -> Problem:
    said = tuple(
        Said(one.kind, one.namespace, one.name, verdict.message) for one in (group, scene.subject)
    )
    link = link_of(group, verdict, first_broken=True)
    return Problem("Blocked", verdict.reason, verdict.message, said, (link,), after="Subscription")


def _above(scene: Scene) -> Problem | None:
    """What the Subscription itself says: resolution, unpacking, plan, catalogs, in this order."""
    for type_ in ("ResolutionFailed", "BundleUnpackFailed", "BundleUnpacking"):
        verdict = scene.condition(type_)
        if verdict and verdict.state in BROKEN:
            if type_ == "ResolutionFailed":
                return _resolution(scene, verdict)
            return _own(scene, verdict)
    for type_ in ("InstallPlanMissing", "InstallPlanFailed", "InstallPlanPending"):
        verdict = scene.condition(type_)
        if verdict and verdict.state in BROKEN and scene.plan is None and scene.unfinished:
            return _plan_unseen(scene, verdict)
    verdict = scene.condition("CatalogSourcesUnhealthy")
    if verdict and verdict.state in BROKEN:
        return _catalog(scene, verdict)
    return None


def _resolution(scene: Scene, verdict: Judgement) -> Problem:
    subject, message = scene.subject, verdict.message
    if catalog := blamed_catalog(message):
        return _dead_catalog(scene, verdict, *catalog)
    if other := blocked_by(subject, message):
        told = f"another Subscription of this namespace blocks resolution: {other}"
        health = "Degraded" if scene.works else "Blocked"
        return Problem(
            health,
            verdict.reason,
            f"{told}: {message}",
            (Said(subject.kind, subject.namespace, subject.name, told),),
            (
                link_of(subject, Judgement(Class.ABSENT, verdict.reason)),
                Link(
                    "Subscription",
                    subject.namespace,
                    other.removeprefix("the one for package "),
                    "failed",
                    verdict.reason,
                    message,
                    first_broken=True,
                ),
            ),
            after="Subscription",
        )
    return _own(scene, verdict)


def _dead_catalog(scene: Scene, verdict: Judgement, namespace: str, name: str) -> Problem:
    """The resolver could not use a CatalogSource, whatever that says of itself."""
    subject, message = scene.subject, verdict.message
    said = [Said(subject.kind, subject.namespace, subject.name, message)]
    itself = scene.catalog
    if (
        itself is not None
        and (itself.namespace, itself.name) == (namespace, name)
        and scene.catalog_verdict.state is Class.HEALTHY
        and verdict.reason == "ErrorPreventedResolution"
    ):
        told = f"catalogsource {namespace}/{name} says READY and does not answer: {message}"
        said.insert(0, Said(subject.kind, subject.namespace, subject.name, told))
    link = Link(
        "CatalogSource", namespace, name, "failed", verdict.reason, message, first_broken=True
    )
    return Problem(
        _health(scene, verdict.state),
        verdict.reason,
        message,
        tuple(said),
        (link,),
        after="Subscription",
    )


def _catalog(scene: Scene, verdict: Judgement) -> Problem:
    """The Subscription finds a CatalogSource unhealthy: its own, else the first that it lists."""
    subject = scene.subject
    unhealthy = [
        (text(one, "namespace"), text(one, "name"))
        for one in rows(subject.details, "catalog_health")
        if one.get("healthy") is False
    ]
    named = scene.catalog_ref
    if unhealthy and named not in unhealthy:
        named = unhealthy[0]
    if not named[1]:
        return _own(scene, verdict)
    said = [Said(subject.kind, subject.namespace, subject.name, verdict.message)]
    if scene.catalog and named == scene.catalog_ref:
        said.insert(0, Said("CatalogSource", *named, scene.catalog_verdict.message))
    state = "absent" if verdict.message.endswith("missing") else "failed"
    link = Link("CatalogSource", *named, state, verdict.reason, verdict.message, first_broken=True)
    return Problem(
        _health(scene, verdict.state),
        verdict.reason,
        verdict.message,
        tuple(said),
        (link,),
        after="Subscription",
    )


def _own_catalog(scene: Scene) -> Problem | None:
    """Nothing is resolved, and the Subscription's own catalog says what is wrong with it.

    One that only connects is given the time: every catalog starts like that.
    """
    catalog, verdict = scene.catalog, scene.catalog_verdict
    if catalog is None or verdict.state not in BROKEN or verdict.reason in ("CONNECTING", "IDLE"):
        return None
    told = verdict.message or verdict.reason
    return Problem(
        _health(scene, verdict.state),
        verdict.reason,
        told,
        (Said(catalog.kind, catalog.namespace, catalog.name, told),),
        (link_of(catalog, verdict, first_broken=True),),
    )


def _own(scene: Scene, verdict: Judgement) -> Problem:
    """The Subscription's own condition says it all."""
    subject = scene.subject
    return Problem(
        _health(scene, verdict.state),
        verdict.reason,
        verdict.message,
        (Said(subject.kind, subject.namespace, subject.name, verdict.message or verdict.reason),),
        (link_of(subject, verdict, first_broken=True),),
    )


def _plan(scene: Scene, plan: Observation, verdict: Judgement) -> Problem:
    said = [Said(plan.kind, plan.namespace, plan.name, verdict.message)]
    health = _health(scene, verdict.state)
    link = link_of(plan, verdict, first_broken=True)
    message = verdict.message
    if verdict.reason == APPROVAL:
        names = ", ".join(texts(plan.details, "csvs")) or scene.csv_name
        message = f"InstallPlan {plan.name} waits for approval to install {names}"
        said = [Said(plan.kind, plan.namespace, plan.name, message)]
        health = "NeedsApproval"
        link = Link(
            plan.kind, plan.namespace, plan.name, "waiting", APPROVAL, message, first_broken=True
        )
    return Problem(health, verdict.reason, message, tuple(said), (link,), after="CatalogSource")


def _plan_unseen(scene: Scene, verdict: Judgement) -> Problem:
    """The InstallPlan can't be read or is gone: the Subscription's copy of its state is left."""
    subject, name = scene.subject, scene.plan_name
    approval = verdict.reason == APPROVAL
    state = {Class.FAILED: "failed"}.get(verdict.state, "waiting")
    if verdict.reason == "ReferencedInstallPlanNotFound":
        state = "absent"
    told = f"InstallPlan {name or '?'} waits for approval to install {scene.csv_name or '?'}"
    message = told if approval else verdict.message or f"installplan {name} is missing"
    link = Link(
        "InstallPlan", subject.namespace, name, state, verdict.reason, message, first_broken=True
    )
    return Problem(
        "NeedsApproval" if approval else _health(scene, verdict.state),
        verdict.reason,
        message,
        (Said("InstallPlan", subject.namespace, name, message),),
        (link,),
        after="CatalogSource",
    )


def _csv(scene: Scene, csv: Observation, verdict: Judgement) -> Problem:
    said = verdict.message
    if verdict.reason in _GROUP_REASONS:
        said = f"{said}; {_group_words(scene, csv)}"
    return Problem(
        _health(scene, verdict.state),
        verdict.reason,
        verdict.message,
        (Said(csv.kind, csv.namespace, csv.name, said),),
        (link_of(csv, verdict, first_broken=True),),
    )


def _group_words(scene: Scene, csv: Observation) -> str:
    """Which OperatorGroup asks for what, and what the operator can do instead."""
    modes = csv.details.get("install_modes")
    supported = sorted(
        name for name, yes in (modes.items() if isinstance(modes, dict) else ()) if yes is True
    )
    group = scene.groups[0] if scene.groups else None
    targets = texts(group.details, "namespaces") or texts(group.details, "targets") if group else ()
    watched = "all namespaces" if "" in targets or not targets else ", ".join(targets)
    return (
        f"operatorgroup {group.name if group else '?'} selects {watched}"
        f"; the operator supports {', '.join(supported) or 'no install mode'}"
    )


def _csv_gone(scene: Scene) -> Problem:
    """Everything was created once, and the ClusterServiceVersion is not there any more."""
    subject, name = scene.subject, scene.csv_name
    told = f"clusterserviceversion {name} was installed and does not exist any more"
    link = Link(
        "ClusterServiceVersion", subject.namespace, name, "absent", "", told, first_broken=True
    )
    said = Said(subject.kind, subject.namespace, subject.name, told)
    return Problem("Failed", "ClusterServiceVersionMissing", told, (said,), (link,))


def _requirement(scene: Scene, csv: Observation, verdict: Judgement) -> Problem:
    """The requirement that is missing is the broken link; without details the CSV itself."""
    missing = [one for one in requirement_rows(csv.details) if not one.met]
    general = Said(csv.kind, csv.namespace, csv.name, verdict.message)
    if not missing:
        return _csv(scene, csv, verdict)
    first = missing[0]
    return Problem(
        _health(scene, verdict.state),
        verdict.reason,
        _told(verdict.message, missing),
        (Said(csv.kind, csv.namespace, csv.name, first.said), general),
        (
            link_of(csv, verdict),
            Link(
                first.kind,
                "" if clusterwide(first) else csv.namespace,
                first.name,
                "absent" if first.status == "NotPresent" else "failed",
                first.status,
                "\n".join((first.message, *first.rules)).strip(),
                first_broken=True,
            ),
        ),
        after="ClusterServiceVersion",
    )


def _told(message: str, missing: Sequence[Requirement]) -> str:
    shown = "; ".join(one.said for one in missing[:5])
    more = f"; and {len(missing) - 5} more" if len(missing) > 5 else ""
    return f"{message}: {shown}{more}"


def _health(scene: Scene, state: Class) -> str:
    """Blocked and Degraded speak for themselves; a failure leaves what runs degraded."""
    if state is Class.BLOCKED:
        return "Blocked"
    return "Degraded" if scene.works or (state is Class.DEGRADED and scene.csv) else "Failed"
