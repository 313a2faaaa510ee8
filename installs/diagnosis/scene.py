"""The objects around a Subscription, or around a ClusterServiceVersion without one.

Only finds and judges them; which one is to blame is decided in olm_v0.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from installs.diagnosis import outdated
from installs.diagnosis.judge import abnormal, judge_catalog_source, judge_csv, judge_plan
from installs.diagnosis.judgement import Judgement
from installs.diagnosis.reading import text, texts
from installs.diagnosis.states import Class
from installs.diagnosis.types import Observation

ABSENT = Judgement(Class.ABSENT)
_RUNNING = frozenset(("Succeeded", "Replacing"))


@dataclass(frozen=True, slots=True)
class Scene:
    """What there is of one installation of OLM v0. `csv` is the newest ClusterServiceVersion.

    `works` says that an installed version runs as far as its phase tells, `upgrading` that another
    one takes its place.
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
    conditions: tuple[tuple[str, Judgement], ...]
    works: bool
    upgrading: bool
    leaving: str = ""  # the version whose going OLM has not seen yet: see outdated.py

    @property
    def catalog_verdict(self) -> Judgement:
        return judge_catalog_source(self.catalog) if self.catalog else ABSENT

    @property
    def plan_verdict(self) -> Judgement:
        return judge_plan(self.plan) if self.plan else ABSENT

    @property
    def csv_verdict(self) -> Judgement:
        return judge_csv(self.csv) if self.csv else ABSENT

    @property
    def unfinished(self) -> bool:
        """Whether a version is still to come; an InstallPlan that did its work may be deleted."""
        return self.csv is None or self.upgrading

    @property
    def plan_is_next(self) -> bool:
        """Whether the plan brings another version than the one that is there."""
        if self.plan is None or self.csv is None:
            return self.plan is not None
        brings = texts(self.plan.details, "csvs")
        return bool(brings) and self.csv.name not in brings

    def condition(self, type_: str) -> Judgement | None:
        """The Subscription's condition of that type while it says that something is wrong."""
        return next((verdict for name, verdict in self.conditions if name == type_), None)


def scene_of(subject: Observation, components: Sequence[Observation]) -> Scene:
    """Finds the parts of a Subscription or ClusterServiceVersion among its components."""
    near = [one for one in components if one.namespace == subject.namespace]
    named_csvs = [one for one in near if one.kind == "ClusterServiceVersion"]
    csvs = _own_csvs(subject, named_csvs)
    if subject.kind == "ClusterServiceVersion":
        return _lone_csv(subject, csvs, near)
    current, installed = (text(subject.details, key) for key in ("current_csv", "installed_csv"))
    named = {one.name: one for one in csvs}
    csv = named.get(current) or named.get(installed)
    plan = _plan(subject, csv, near)
    catalog, catalog_ref = _catalog(subject, components)
    leaving = outdated.leaving(subject, csvs)
    past = bool(leaving or outdated.over(subject, named_csvs))
    return Scene(
        subject=subject,
        catalog=catalog,
        catalog_ref=catalog_ref,
        plan=plan,
        plan_name=plan.name if plan else text(subject.details, "plan"),
        csv=csv,
        csv_name=csv.name if csv else current or installed,
        groups=_of_kind(near, "OperatorGroup"),
        deployments=_deployments(near, csv),
        conditions=tuple(
            one for one in abnormal(subject) if not past or one[0] != outdated.RESOLUTION_FAILED
        ),
        works=any(one.phase in _RUNNING for one in csvs),
        upgrading=bool(current and installed and current != installed)
        or (csv is not None and _takes_over(csv, csvs)),
        leaving=leaving,
    )


def _own_csvs(subject: Observation, csvs: Sequence[Observation]) -> list[Observation]:
    """Without those of others, which are there because a failed resolution names them."""
    others = set(outdated.conflicting(subject.conditions, subject.namespace))
    others -= {text(subject.details, key) for key in ("current_csv", "installed_csv")}
    others -= {text(one.details, "replaces") for one in csvs if one.name not in others}
    return [one for one in csvs if one.name not in others]


def _lone_csv(
    subject: Observation, csvs: Sequence[Observation], near: Sequence[Observation]
) -> Scene:
    """The subject's own row has no phase; its twin among the components has."""
    csv = next((one for one in csvs if one.name == subject.name), subject)
    return Scene(
        subject=subject,
        catalog=None,
        catalog_ref=("", ""),
        plan=_plan(subject, csv, near),
        plan_name="",
        csv=csv,
        csv_name=csv.name,
        groups=_of_kind(near, "OperatorGroup"),
        deployments=_deployments(near, csv),
        conditions=(),
        works=csv.phase in _RUNNING,
        upgrading=_takes_over(csv, csvs),
    )


def _takes_over(csv: Observation, csvs: Sequence[Observation]) -> bool:
    replaces = text(csv.details, "replaces")
    return any(
        one.phase in ("Replacing", "Deleting") or one.name == replaces
        for one in csvs
        if one.name != csv.name
    )


def _of_kind(near: Sequence[Observation], kind: str) -> tuple[Observation, ...]:
    return tuple(sorted((one for one in near if one.kind == kind), key=lambda one: one.name))


def _deployments(near: Sequence[Observation], csv: Observation | None) -> tuple[Observation, ...]:
    """Those that the newest version names: an older one's go away while it is replaced."""
    found = _of_kind(near, "Deployment")
    named = set(texts(csv.details, "deployments")) if csv else set()
    return tuple(one for one in found if one.name in named) if named else found


def _plan(
    subject: Observation, csv: Observation | None, near: Sequence[Observation]
) -> Observation | None:
    """The InstallPlan that the Subscription names, else the newest one for its version.

    Several InstallPlans for one version are usual: OLM resolves again before the first is done.
    """
    plans = [one for one in near if one.kind == "InstallPlan"]
    named = text(subject.details, "plan")
    for one in plans:
        if one.name == named:
            return one
    wanted = {csv.name} if csv else {text(subject.details, "current_csv")}
    fitting = [one for one in plans if wanted & set(texts(one.details, "csvs"))]
    return max(fitting, key=_age_key, default=None)


def _age_key(plan: Observation) -> tuple[int, str, str]:
    generation = plan.details.get("generation")
    created = plan.created_at.isoformat() if plan.created_at else ""
    return (generation if isinstance(generation, int) else 0, created, plan.name)


def _catalog(
    subject: Observation, components: Sequence[Observation]
) -> tuple[Observation | None, tuple[str, str]]:
    sources = [one for one in components if one.kind == "CatalogSource"]
    name, namespace = (subject.extra.get(key, "") for key in ("catalog", "catalog_namespace"))
    if not name:
        found = sources[0] if len(sources) == 1 else None
        return found, (found.namespace, found.name) if found else ("", "")
    found = next((one for one in sources if (one.namespace, one.name) == (namespace, name)), None)
    return found, (namespace, name)
