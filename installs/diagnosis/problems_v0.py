"""Problems of OLM v0: the objects of a Subscription or lone CSV, and which of them is the cause.

Subscription -> CatalogSource -> InstallPlan -> ClusterServiceVersion -> requirement, or Deployment
-> Pod. Checks are in the order of causes: a CSV with a missing requirement may only show the
symptom of a failed InstallPlan, and a CatalogSource may not answer although it says READY. An
installed version is checked for whether it runs, then whether it can be updated; a missing one is
checked from its InstallPlan up to its catalog.
"""

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from installs.diagnosis import resolution
from installs.diagnosis.evaluate import (
    APPROVAL,
    DeploymentFailure,
    Evaluation,
    ReportedMessage,
    abnormal,
    condition_of,
    deployment_failure,
    evaluate,
    evaluate_catalog_source,
    evaluate_csv,
    evaluate_plan,
    link_of,
    requirement_rows,
)
from installs.diagnosis.resolution import blamed_catalog, blocked_by
from installs.diagnosis.states import BROKEN, State
from installs.diagnosis.types import ChainLink, Observation
from olmweb.kube.fields import items, read_time, text, texts

ABSENT = Evaluation(State.ABSENT)
CSV, GROUP = "ClusterServiceVersion", "OperatorGroup"
_RUNNING = frozenset(("Succeeded", "Replacing"))
_EVENTS_ON_THE_WAY = timedelta(seconds=10)


@dataclass(frozen=True, slots=True)
class V0Installation:
    """The objects of one installation. `csv` is the newest ClusterServiceVersion.

    `works`: an installed version runs, by its phase. `upgrading`: another version replaces it.
    `unread`: see `diagnose`.
    """

    subject: Observation
    catalog: Observation | None
    catalog_ref: tuple[str, str]  # namespace, name; empty when not known
    plan: Observation | None
    plan_name: str
    csv: Observation | None
    csv_name: str
    groups: tuple[Observation, ...]
    deployments: tuple[Observation, ...]
    conditions: tuple[tuple[str, Evaluation], ...]
    works: bool
    upgrading: bool
    leaving: str = ""  # the old version that is being deleted: see resolution.py
    sources: tuple[Observation, ...] = ()  # the CatalogSources that it names
    just_installed: bool = False  # the event of the ClusterServiceVersion may be on the way
    unread: Callable[[], Container[str]] = frozenset

    @property
    def catalog_verdict(self) -> Evaluation:
        return evaluate_catalog_source(self.catalog) if self.catalog else ABSENT

    @property
    def plan_verdict(self) -> Evaluation:
        return evaluate_plan(self.plan) if self.plan else ABSENT

    @property
    def csv_verdict(self) -> Evaluation:
        return evaluate_csv(self.csv) if self.csv else ABSENT

    @property
    def unfinished(self) -> bool:
        """Whether a version is yet to be installed; completed InstallPlans may be deleted."""
        return self.csv is None or self.upgrading

    @property
    def plan_is_next(self) -> bool:
        """Whether the plan installs another version than the present one."""
        if self.plan is None or self.csv is None:
            return self.plan is not None
        brings = texts(self.plan.details, "csvs")
        return bool(brings) and self.csv.name not in brings

    def source(self, namespace: str, name: str) -> Observation | None:
        named = (obj for obj in self.sources if (obj.namespace, obj.name) == (namespace, name))
        return next(named, None)

    def condition(self, type_: str) -> Evaluation | None:
        """The Subscription's condition of that type if it is broken or in progress."""
        return next((verdict for name, verdict in self.conditions if name == type_), None)


def v0_installation(
    subject: Observation,
    components: Sequence[Observation],
    now: datetime | None = None,
    unread: Callable[[], Container[str]] = frozenset,
) -> V0Installation:
    """Finds the objects of a Subscription or ClusterServiceVersion among its components."""
    near = [component for component in components if component.namespace == subject.namespace]
    named_csvs = [component for component in near if component.kind == "ClusterServiceVersion"]
    csvs = _own_csvs(subject, named_csvs)
    if subject.kind == "ClusterServiceVersion":
        return _lone_csv(subject, csvs, near)
    current, installed = (text(subject.details, key) for key in ("current_csv", "installed_csv"))
    named = {csv.name: csv for csv in csvs}
    csv = named.get(current) or named.get(installed)
    plan = _find_plan(subject, csv, near)
    catalog, catalog_ref = _find_catalog(subject, components)
    leaving = resolution.leaving_csv(subject, csvs)
    past = bool(leaving or resolution.why_over(subject, named_csvs))
    return V0Installation(
        subject=subject,
        catalog=catalog,
        catalog_ref=catalog_ref,
        plan=plan,
        plan_name=plan.name if plan else text(subject.details, "plan"),
        csv=csv,
        csv_name=csv.name if csv else current or installed,
        groups=of_kind(near, "OperatorGroup"),
        deployments=_deployments(near, csv),
        conditions=tuple(
            condition
            for condition in abnormal(subject)
            if not past or condition[0] != resolution.RESOLUTION_FAILED
        ),
        works=any(csv.phase in _RUNNING for csv in csvs),
        upgrading=bool(current and installed and current != installed)
        or (csv is not None and _takes_over(csv, csvs)),
        leaving=leaving,
        sources=of_kind(components, "CatalogSource"),
        just_installed=plan is not None and now is not None and _ended_just_now(plan, now),
        unread=unread,
    )


def missing_link(
    kind: str, namespace: str, name: str, unread: Callable[[], Container[str]]
) -> ChainLink:
    """The link of an object that is not stored."""
    return ChainLink(kind, namespace, name, "unknown" if kind in unread() else "absent")


def _ended_just_now(plan: Observation, now: datetime) -> bool:
    """Each kind has a watch of its own, so that the Subscription may say that a version is
    installed before the event of its ClusterServiceVersion arrives."""
    times = [
        read_time(condition.last_transition_time)
        for condition in plan.conditions
        if condition.type == "Installed"
    ]
    return any(time is not None and abs(now - time) < _EVENTS_ON_THE_WAY for time in times)


def _own_csvs(subject: Observation, csvs: Sequence[Observation]) -> list[Observation]:
    """The CSVs without those of other installations that a failed resolution names."""
    others = set(resolution.conflicting(subject.conditions, subject.namespace))
    others -= {text(subject.details, key) for key in ("current_csv", "installed_csv")}
    others -= {text(csv.details, "replaces") for csv in csvs if csv.name not in others}
    return [csv for csv in csvs if csv.name not in others]


def _lone_csv(
    subject: Observation, csvs: Sequence[Observation], near: Sequence[Observation]
) -> V0Installation:
    """A CSV without a Subscription. The phase is in its component, not in the subject."""
    csv = next((csv for csv in csvs if csv.name == subject.name), subject)
    return V0Installation(
        subject=subject,
        catalog=None,
        catalog_ref=("", ""),
        plan=_find_plan(subject, csv, near),
        plan_name="",
        csv=csv,
        csv_name=csv.name,
        groups=of_kind(near, "OperatorGroup"),
        deployments=_deployments(near, csv),
        conditions=(),
        works=csv.phase in _RUNNING,
        upgrading=_takes_over(csv, csvs),
    )


def _takes_over(csv: Observation, csvs: Sequence[Observation]) -> bool:
    replaces = text(csv.details, "replaces")
    return any(
        other.phase in ("Replacing", "Deleting") or other.name == replaces
        for other in csvs
        if other.name != csv.name
    )


def of_kind(near: Sequence[Observation], kind: str) -> tuple[Observation, ...]:
    return tuple(sorted((obj for obj in near if obj.kind == kind), key=lambda obj: obj.name))


def _deployments(near: Sequence[Observation], csv: Observation | None) -> tuple[Observation, ...]:
    """The Deployments of the newest version, as those of a replaced one are being deleted."""
    deployments = of_kind(near, "Deployment")
    named = set(texts(csv.details, "deployments")) if csv else set()
    return tuple(deployment for deployment in deployments if not named or deployment.name in named)


def _find_plan(
    subject: Observation, csv: Observation | None, near: Sequence[Observation]
) -> Observation | None:
    """The InstallPlan that the Subscription names, else the newest one for its version.

    Several InstallPlans for one version are normal, as OLM resolves again before the first is done.
    """
    plans = [component for component in near if component.kind == "InstallPlan"]
    named = text(subject.details, "plan")
    for plan in plans:
        if plan.name == named:
            return plan
    wanted = {csv.name} if csv else {text(subject.details, "current_csv")}
    fitting = [plan for plan in plans if wanted & set(texts(plan.details, "csvs"))]
    return max(fitting, key=_age_key, default=None)


def _age_key(plan: Observation) -> tuple[int, str, str]:
    generation = plan.details.get("generation")
    created = plan.created_at.isoformat() if plan.created_at else ""
    return (generation if isinstance(generation, int) else 0, created, plan.name)


def _find_catalog(
    subject: Observation, components: Sequence[Observation]
) -> tuple[Observation | None, tuple[str, str]]:
    sources = [component for component in components if component.kind == "CatalogSource"]
    name, namespace = (subject.extra.get(key, "") for key in ("catalog", "catalog_namespace"))
    if not name:
        catalog = sources[0] if len(sources) == 1 else None
        return catalog, (catalog.namespace, catalog.name) if catalog else ("", "")
    named = (obj for obj in sources if (obj.namespace, obj.name) == (namespace, name))
    return next(named, None), (namespace, name)


# -- problems --------------------------------------------------------------------------------------

NOT_RUNNING = "Installed, not running"
_WAITS_FOR_PODS = frozenset(
    ("InstallWaiting", "InstallSucceeded", "InstallCheckFailed", "ComponentUnhealthy")
)
_GROUP_COUNT = "expected 1 OperatorGroup in the namespace, found {}"


@dataclass(frozen=True, slots=True)
class V0Problem:
    """The cause. `links` are the objects involved, in the order of the chain, with the broken one
    marked. Links that are not in the chain yet are inserted after the last link of kind `after`."""

    health: str
    reason: str
    message: str
    messages: tuple[ReportedMessage, ...]
    links: tuple[ChainLink, ...]
    after: str = ""


def _problem(
    installation: V0Installation,
    verdict: Evaluation,
    messages: Sequence[ReportedMessage],
    *links: ChainLink,
    message: str = "",
    after: str = "",
) -> V0Problem:
    health = _health(installation, verdict.state)
    message = message or verdict.message
    return V0Problem(health, verdict.reason, message, tuple(messages), links, after)


def problem_of(installation: V0Installation) -> V0Problem | None:
    """The problem of the installation, None without one."""
    verdict = installation.csv_verdict
    if installation.csv is None:
        return _before_csv(installation)
    if verdict.state is State.HEALTHY:
        return _not_running(installation) or _no_update(installation)
    if verdict.state is State.UNKNOWN:
        return None
    return _installing(installation, installation.csv, verdict)


def _installing(
    installation: V0Installation, csv: Observation, verdict: Evaluation
) -> V0Problem | None:
    """A ClusterServiceVersion that is being installed or has failed."""
    if csv.phase in ("", "Pending"):
        plan = installation.plan_verdict
        if installation.plan is not None and not installation.plan_is_next and plan.state in BROKEN:
            return _plan(installation, installation.plan, plan)
        if verdict.reason == "RequirementsNotMet" and plan.state is State.PROGRESSING:
            return None  # the plan is still creating what is missing
    if verdict.reason == "RequirementsNotMet":
        return _requirement(installation, csv, verdict)
    waits = verdict.reason in _WAITS_FOR_PODS
    failure = deployment_failure(installation.deployments) if waits else None
    if failure and (failure.certain or csv.phase == "Failed"):
        state = verdict.state if csv.phase == "Failed" else State.FAILED
        return _pods(failure, _health(installation, state), failure.message)
    if verdict.state in BROKEN:
        return _csv(installation, csv, verdict)
    return None


def _not_running(installation: V0Installation) -> V0Problem | None:
    failure = deployment_failure(installation.deployments)
    if failure is None:
        return None
    message = ": ".join(filter(None, (NOT_RUNNING, failure.reason, failure.message)))
    return _pods(failure, "Degraded", message)


def _pods(failure: DeploymentFailure, health: str, message: str) -> V0Problem:
    deployment = failure.deployment
    text = ReportedMessage(failure.kind, deployment.namespace, deployment.name, failure.line)
    return V0Problem(
        health, failure.reason, message, (text,), failure.links, after="ClusterServiceVersion"
    )


def _no_update(installation: V0Installation) -> V0Problem | None:
    """An installed version runs: whether the next one can be installed."""
    plan = installation.plan_verdict
    if installation.plan is not None and installation.plan_is_next and plan.state in BROKEN:
        return _plan(installation, installation.plan, plan)
    return _above(installation)


def _before_csv(installation: V0Installation) -> V0Problem | None:
    """Without a ClusterServiceVersion the InstallPlan is checked first, then what is above it."""
    plan = installation.plan_verdict
    if installation.plan is not None and plan.state in BROKEN:
        return _plan(installation, installation.plan, plan)
    if problem := _above(installation):
        return problem
    # Only if the Subscription reports it as installed: before, its event may be on the way.
    was_there = installation.csv_name == text(installation.subject.details, "installed_csv") != ""
    if was_there and not installation.just_installed and CSV in installation.unread():
        return _csv_unread(installation)
    completed = installation.plan is not None and plan.state is State.HEALTHY
    if completed and was_there and not installation.just_installed:
        return _csv_gone(installation)
    if installation.plan is not None or installation.csv_name:
        return None
    return _groups(installation) or _own_catalog(installation)


def _groups(installation: V0Installation) -> V0Problem | None:
    """OLM resolves only with exactly one OperatorGroup, and does not report that.

    A broken group is a problem at once. The number of groups counts only after OLM has processed
    the Subscription, as a group may be created together with it.
    """
    for group in installation.groups:
        verdict = evaluate(group)
        if verdict.state in BROKEN:
            return _group(installation, group, verdict)
    count = len(installation.groups)
    if count == 1 or condition_of(installation.subject, "CatalogSourcesUnhealthy") is None:
        return None
    if not count and GROUP in installation.unread():
        return None
    reason = "MultipleOperatorGroupsFound" if count else "NoOperatorGroup"
    count_verdict = Evaluation(State.BLOCKED, reason, _GROUP_COUNT.format(count))
    return (
        _group(installation, installation.groups[0], count_verdict)
        if count
        else _own(installation, count_verdict)
    )


def _group(installation: V0Installation, group: Observation, verdict: Evaluation) -> V0Problem:
    objects = (group, installation.subject)
    messages = [ReportedMessage.of(obj, verdict.message) for obj in objects]
    link = link_of(group, verdict, first_broken=True)
    problem = _problem(installation, verdict, messages, link, after="Subscription")
    return replace(problem, health="Blocked")


def _above(installation: V0Installation) -> V0Problem | None:
    """The Subscription's own conditions: resolution, unpacking, plan, catalogs, in this order."""
    for type_ in ("ResolutionFailed", "BundleUnpackFailed", "BundleUnpacking"):
        verdict = installation.condition(type_)
        if verdict and verdict.state in BROKEN:
            if type_ == "ResolutionFailed":
                return _resolution(installation, verdict)
            return _own(installation, verdict)
    for type_ in ("InstallPlanMissing", "InstallPlanFailed", "InstallPlanPending"):
        verdict = installation.condition(type_)
        unseen = installation.plan is None and installation.unfinished
        if verdict and verdict.state in BROKEN and unseen:
            return _plan_unseen(installation, verdict)
    verdict = installation.condition("CatalogSourcesUnhealthy")
    if verdict and verdict.state in BROKEN:
        return _catalog(installation, verdict)
    return None


def _resolution(installation: V0Installation, verdict: Evaluation) -> V0Problem:
    subject, message = installation.subject, verdict.message
    if catalog := blamed_catalog(message):
        return _dead_catalog(installation, verdict, *catalog)
    if other := blocked_by(subject, message):
        sentence = f"another Subscription of this namespace blocks resolution: {other}"
        problem = _problem(
            installation,
            verdict,
            [ReportedMessage.of(subject, sentence)],
            link_of(subject, Evaluation(State.ABSENT, verdict.reason)),
            ChainLink(
                "Subscription",
                subject.namespace,
                other.removeprefix("the one for package "),
                "failed",
                verdict.reason,
                message,
                first_broken=True,
            ),
            message=f"{sentence}: {message}",
            after="Subscription",
        )
        return replace(problem, health="Degraded" if installation.works else "Blocked")
    return _own(installation, verdict)


def _dead_catalog(
    installation: V0Installation, verdict: Evaluation, namespace: str, name: str
) -> V0Problem:
    """The resolver could not use a CatalogSource, whatever its own state. What its pods say comes
    before the words of the resolver."""
    subject, message = installation.subject, verdict.message
    messages = [ReportedMessage.of(subject, message)]
    itself = installation.catalog
    if (
        itself is not None
        and (itself.namespace, itself.name) == (namespace, name)
        and installation.catalog_verdict.state is State.HEALTHY
        and verdict.reason == "ErrorPreventedResolution"
    ):
        sentence = f"catalogsource {namespace}/{name} says READY and does not answer: {message}"
        messages.insert(0, ReportedMessage.of(subject, sentence))
    blamed = installation.source(namespace, name)
    own = evaluate_catalog_source(blamed) if blamed else ABSENT
    if blamed is not None and own.state in BROKEN and own.message:
        messages.insert(0, ReportedMessage.of(blamed, own.message))
    link = ChainLink(
        "CatalogSource", namespace, name, "failed", verdict.reason, message, first_broken=True
    )
    return _problem(installation, verdict, messages, link, after="Subscription")


def _catalog(installation: V0Installation, verdict: Evaluation) -> V0Problem:
    """A CatalogSource is unhealthy: the Subscription's own, else the first in its status."""
    subject = installation.subject
    unhealthy = [
        (text(entry, "namespace"), text(entry, "name"))
        for entry in items(subject.details, "catalog_health")
        if entry.get("healthy") is False
    ]
    named = installation.catalog_ref
    if unhealthy and named not in unhealthy:
        named = unhealthy[0]
    if not named[1]:
        return _own(installation, verdict)
    messages = [ReportedMessage.of(subject, verdict.message)]
    if installation.catalog and named == installation.catalog_ref:
        messages.insert(
            0, ReportedMessage("CatalogSource", *named, installation.catalog_verdict.message)
        )
    state = "absent" if verdict.message.endswith("missing") else "failed"
    link = ChainLink(
        "CatalogSource", *named, state, verdict.reason, verdict.message, first_broken=True
    )
    return _problem(installation, verdict, messages, link, after="Subscription")


def _own_catalog(installation: V0Installation) -> V0Problem | None:
    """Nothing is resolved and the Subscription's own catalog is broken.

    A catalog that is still connecting is no problem.
    """
    catalog, verdict = installation.catalog, installation.catalog_verdict
    if catalog is None or verdict.state not in BROKEN:
        return None
    message = verdict.message or verdict.reason
    link = link_of(catalog, verdict, first_broken=True)
    messages = [ReportedMessage.of(catalog, message)]
    return _problem(installation, verdict, messages, link, message=message)


def _own(installation: V0Installation, verdict: Evaluation) -> V0Problem:
    """The Subscription's own condition is the cause."""
    subject = installation.subject
    messages = [ReportedMessage.of(subject, verdict.message or verdict.reason)]
    return _problem(installation, verdict, messages, link_of(subject, verdict, first_broken=True))


def _plan(installation: V0Installation, plan: Observation, verdict: Evaluation) -> V0Problem:
    if verdict.reason != APPROVAL:
        messages = [ReportedMessage.of(plan, verdict.message)]
        link = link_of(plan, verdict, first_broken=True)
        return _problem(installation, verdict, messages, link, after="CatalogSource")
    names = ", ".join(texts(plan.details, "csvs")) or installation.csv_name
    message = f"InstallPlan {plan.name} requires manual approval to install {names}"
    link = link_of(plan, replace(verdict, message=message), first_broken=True)
    messages = [ReportedMessage.of(plan, message)]
    problem = _problem(
        installation, verdict, messages, link, message=message, after="CatalogSource"
    )
    return replace(problem, health="NeedsApproval")


def _plan_unseen(installation: V0Installation, verdict: Evaluation) -> V0Problem:
    """The InstallPlan can't be read or is deleted: the Subscription has a copy of its state."""
    subject, name = installation.subject, installation.plan_name
    approval = verdict.reason == APPROVAL
    state = {State.FAILED: "failed"}.get(verdict.state, "waiting")
    if verdict.reason == "ReferencedInstallPlanNotFound":
        state = "absent"
    csv = installation.csv_name or "?"
    sentence = f"InstallPlan {name or '?'} requires manual approval to install {csv}"
    message = sentence if approval else verdict.message or f"installplan {name} is missing"
    link = ChainLink(
        "InstallPlan", subject.namespace, name, state, verdict.reason, message, first_broken=True
    )
    messages = [ReportedMessage("InstallPlan", subject.namespace, name, message)]
    problem = _problem(
        installation, verdict, messages, link, message=message, after="CatalogSource"
    )
    return replace(problem, health="NeedsApproval") if approval else problem


def _csv(installation: V0Installation, csv: Observation, verdict: Evaluation) -> V0Problem:
    message = verdict.message
    if verdict.reason == "UnsupportedOperatorGroup":
        message = f"{message}; {_group_words(installation, csv)}"
    messages = [ReportedMessage.of(csv, message)]
    return _problem(installation, verdict, messages, link_of(csv, verdict, first_broken=True))


def _group_words(installation: V0Installation, csv: Observation) -> str:
    """The namespaces that the OperatorGroup selects, and the install modes of the operator."""
    modes = csv.details.get("install_modes")
    supported = sorted(
        name for name, yes in (modes.items() if isinstance(modes, dict) else ()) if yes is True
    )
    group = installation.groups[0] if installation.groups else None
    targets = texts(group.details, "namespaces") or texts(group.details, "targets") if group else []
    watched = "all namespaces" if "" in targets or not targets else ", ".join(targets)
    return (
        f"operatorgroup {group.name if group else '?'} selects {watched}"
        f"; the operator supports {', '.join(supported) or 'no install mode'}"
    )


def _csv_gone(installation: V0Installation) -> V0Problem:
    """The ClusterServiceVersion was installed and does not exist any more."""
    subject, name = installation.subject, installation.csv_name
    message = f"clusterserviceversion {name} was installed and does not exist any more"
    link = ChainLink(
        "ClusterServiceVersion", subject.namespace, name, "absent", "", message, first_broken=True
    )
    messages = (ReportedMessage.of(subject, message),)
    return V0Problem("Failed", "ClusterServiceVersionMissing", message, messages, (link,))


def _csv_unread(installation: V0Installation) -> V0Problem:
    """The ClusterServiceVersion is installed, and it is not known whether it works."""
    name = installation.csv_name
    message = f"the state of clusterserviceversion {name} is not known: its kind could not be read"
    return V0Problem("Unknown", "ClusterServiceVersionNotRead", message, (), ())


def _requirement(installation: V0Installation, csv: Observation, verdict: Evaluation) -> V0Problem:
    """The missing requirement is the broken link; without details the CSV itself."""
    missing = [requirement for requirement in requirement_rows(csv.details) if not requirement.met]
    general = ReportedMessage.of(csv, verdict.message)
    if not missing:
        return _csv(installation, csv, verdict)
    first = missing[0]
    shown = "; ".join(requirement.line for requirement in missing[:5])
    more = f"; and {len(missing) - 5} more" if len(missing) > 5 else ""
    return _problem(
        installation,
        verdict,
        [ReportedMessage.of(csv, first.line), general],
        link_of(csv, verdict),
        ChainLink(
            first.kind,
            "" if first.clusterwide else csv.namespace,
            first.name,
            "absent" if first.status == "NotPresent" else "failed",
            first.status,
            "\n".join((first.message, *first.rules)).strip(),
            first_broken=True,
        ),
        message=f"{verdict.message}: {shown}{more}",
        after="ClusterServiceVersion",
    )


def _health(installation: V0Installation, state: State) -> str:
    """Blocked and Degraded stay; a failure is Degraded while an installed version works."""
    if state is State.BLOCKED:
        return "Blocked"
    degraded = installation.works or (state is State.DEGRADED and installation.csv)
    return "Degraded" if degraded else "Failed"
