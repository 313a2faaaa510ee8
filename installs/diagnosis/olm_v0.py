"""The chain of a Subscription, and of a ClusterServiceVersion without one.

Subscription -> CatalogSource -> InstallPlan -> ClusterServiceVersion -> requirement, or Deployment
-> Pod. The first broken link is the cause: a ClusterServiceVersion that misses what its InstallPlan
could not create names the symptom, and a CatalogSource may be dead although it says READY.
"""

from collections.abc import Sequence
from dataclasses import replace

from installs.diagnosis import problems
from installs.diagnosis.finding import finding_of
from installs.diagnosis.judgement import Judgement, link_of
from installs.diagnosis.problems import Problem
from installs.diagnosis.reading import text
from installs.diagnosis.scene import Scene, scene_of
from installs.diagnosis.states import BROKEN, Class
from installs.diagnosis.types import Diagnosis, Link, Observation
from installs.diagnosis.workloads import judge_deployment

KINDS = frozenset(("Subscription", "ClusterServiceVersion"))


def diagnose_v0(subject: Observation, components: Sequence[Observation]) -> Diagnosis:
    """Health, cause and chain of a Subscription or of a ClusterServiceVersion without one."""
    scene = scene_of(subject, components)
    problem = problems.problem_of(scene)
    links = _links(scene, problem)
    if problem is None:
        verdict = _quiet_verdict(scene)
        return Diagnosis(_quiet_health(scene), verdict.reason, verdict.message, None, links)
    finding = finding_of(subject, problem.said)
    return Diagnosis(problem.health, problem.reason, problem.message, finding, links)


def _quiet_verdict(scene: Scene) -> Judgement:
    """What speaks for the whole while nothing is wrong: the furthest object that there is."""
    if scene.csv is not None:
        return scene.csv_verdict
    if scene.plan is not None:
        return scene.plan_verdict
    return scene.conditions[0][1] if scene.conditions else Judgement(Class.ABSENT)


def _quiet_health(scene: Scene) -> str:
    state = _quiet_verdict(scene).state
    if state is Class.UNKNOWN:
        return "Unknown"
    if scene.csv is None or state is not Class.HEALTHY:
        return "Upgrading" if scene.works or scene.upgrading else "Installing"
    planned = scene.plan_verdict.state is Class.PROGRESSING and scene.plan_is_next
    resolved = text(scene.subject.details, "current_csv") not in ("", scene.csv.name)
    coming = planned or resolved or scene.condition("BundleUnpacking") is not None
    return "Upgrading" if coming or scene.leaving else "Healthy"


def _links(scene: Scene, problem: Problem | None) -> tuple[Link, ...]:
    """The chain from top to bottom; the problem's links take the place of what they name."""
    links: list[Link] = []
    if scene.subject.kind == "Subscription":
        links.append(_subject_link(scene, problem))
        links += _catalog_links(scene)
        links += _plan_links(scene)
    links += _csv_links(scene, problem)
    links += [link_of(one, judge_deployment(one)) for one in scene.deployments]
    if problem is None:
        return tuple(links)
    behind: tuple[str, str] = (problem.after, "")
    for broken in problem.links:
        links = _put(links, broken, behind)
        behind = (broken.kind, broken.name)
    return tuple(links)


def _subject_link(scene: Scene, problem: Problem | None) -> Link:
    """The Subscription by itself: failed only when it is to blame, as most others only copy."""
    verdict = scene.conditions[0][1] if scene.conditions else Judgement(Class.HEALTHY)
    for _, told in scene.conditions:
        if told.state in BROKEN:
            verdict = told
            break
    if problem is None and verdict.state in BROKEN:
        verdict = replace(verdict, state=Class.INFORMATION)
    return link_of(scene.subject, verdict)


def _catalog_links(scene: Scene) -> list[Link]:
    namespace, name = scene.catalog_ref
    if not name:
        return []
    if scene.catalog is None:
        return [Link("CatalogSource", namespace, name, "absent")]
    return [link_of(scene.catalog, scene.catalog_verdict)]


def _plan_links(scene: Scene) -> list[Link]:
    if scene.plan is not None:
        return [link_of(scene.plan, scene.plan_verdict)]
    name = scene.plan_name
    return [Link("InstallPlan", scene.subject.namespace, name, "absent")] if name else []


def _csv_links(scene: Scene, problem: Problem | None) -> list[Link]:
    if scene.csv is not None:
        verdict = scene.csv_verdict
        if problem is None and verdict.state in BROKEN:
            # What it misses is just being created.
            verdict = replace(verdict, state=Class.PROGRESSING)
        return [link_of(scene.csv, verdict)]
    name = scene.csv_name
    kind = "ClusterServiceVersion"
    return [Link(kind, scene.subject.namespace, name, "absent")] if name else []


def _put(links: list[Link], new: Link, behind: tuple[str, str]) -> list[Link]:
    """The links with the new one in the place of the same object, else behind the last one of
    that kind and name (of any name when it is empty), else at the end."""
    for position, link in enumerate(links):
        if (link.kind, link.namespace, link.name) == (new.kind, new.namespace, new.name):
            return [*links[:position], new, *links[position + 1 :]]
    kind, name = behind
    before = [i for i, link in enumerate(links) if link.kind == kind and name in ("", link.name)]
    place = before[-1] + 1 if before else len(links)
    return [*links[:place], new, *links[place:]]
