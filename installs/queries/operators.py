"""Reads behind the operators list: filters, causes, facets, why."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import chain
from operator import itemgetter
from shlex import quote
from sys import intern
from typing import Any, NamedTuple

from django.db.models import (
    Case,
    F,
    IntegerField,
    Q,
    QuerySet,
    Value,
    When,
    Window,
)
from django.db.models.functions import Coalesce, RowNumber
from django.utils import timezone

from catalogs.install_methods import InstallMethod
from catalogs.models import Catalog, Package
from installs.diagnosis.entries import by_id, knowledge
from installs.diagnosis.knowledge import Finding, finding_for, title_for
from installs.diagnosis.notes import DAY, flaps, stuck
from installs.diagnosis.remedies import is_command, is_filled
from installs.methods import METHODS
from installs.models import NEEDS_ATTENTION, Health, Operator, Transition
from installs.queries import narrow, search
from installs.queries.operator_index import (
    OPERATOR_INDEX,
    AttentionRow,
    CauseFacts,
    CauseRows,
    ClusterIndex,
    facts_of,
    only,
)
from installs.state.observation import details_of
from olmweb.models import Cluster
from olmweb.web.revisions import PerRevision

ATTENTION = "attention"  # stands for every health that needs a person
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
NAMES_SHOWN = 12  # of each cause
NAMES_OF_SEVERAL = 3  # of each cause, where several clusters are shown
REMEDIES_SHOWN = 200  # operators of each cause with commands
NO_REASON = "No reason given"
FLAPPING = 4  # changes in a day: two failures that went away by themselves
# Kinds whose reason a Subscription or PlatformOperator in progress shows as its own.
CHAIN_KINDS = ("ClusterServiceVersion", "InstallPlan", "BundleDeployment", "ClusterObjectSet")
_RANK: Any = Case(
    *(When(health=value, then=Value(rank)) for rank, value in enumerate(Health.values)),
    default=Value(len(Health.values)),
    output_field=IntegerField(),
)
# What is known of a cause: its finding, or the operator's reason where there is none.
_CAUSE = ("finding", "own_reason")
# Of the operators of a cause: whole rows have thirty columns.
_MEMBER_FIELDS = (
    *("kind", "namespace", "name", "package", "health", "reason", "message", "finding", "facts"),
    *("since", "details", "version", "upgrade"),
)
_OWN_REASON: Any = Case(When(finding="", then=F("reason")), default=Value(""))


@dataclass(frozen=True, slots=True)
class OperatorFilters:
    """The filters of the operators list; empty ones filter nothing.

    `namespace` is `-` for cluster-scoped objects, `finding` is `-` for unknown causes, `upgrade` is
    `yes` for operators with an upgrade.
    """

    cluster: str = ""
    kind: str = ""
    namespace: str = ""
    health: str = ""
    reason: str = ""
    finding: str = ""
    package: str = ""
    upgrade: str = ""
    q: str = ""

    def chosen(self) -> list[tuple[str, str]]:
        """(name, value) of every filter in use, in the order of the fields."""
        pairs = [(field.name, getattr(self, field.name)) for field in fields(self)]
        return [pair for pair in pairs if pair[1]]


@dataclass(frozen=True, slots=True)
class CauseTarget:
    """The operators of one cause that are of one kind, on one cluster; `migratable` is the number
    of those that could get a Subscription, `replaced` of those whose package has one already."""

    cluster: str
    kind: str
    count: int
    migratable: int = 0
    replaced: int = 0


@dataclass(frozen=True, slots=True)
class CauseRemedy:
    """What to do about a cause for those of its operators that `names` lists. A step has a line for
    each of them where their facts or names differ; `templates` are the steps before names and facts
    are filled in."""

    names: tuple[str, ...]
    steps: tuple[str, ...]
    templates: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CauseGroup:
    """Operators that need attention for the same cause.

    `id` is that of the finding, empty for unknown messages, which `reason` and `sample`, the
    message of the first of `operators`, describe. `sentence` describes the cause, with facts of the
    operator `example` if the facts of the operators differ. `remedies` are several where the
    remedies of the operators differ in more than names and facts.
    """

    id: str
    title: str
    finding: Finding | None
    sentence: str
    example: str
    reason: str
    sample: str
    count: int
    operators: tuple[Operator, ...]
    remedies: tuple[CauseRemedy, ...] = ()
    targets: tuple[CauseTarget, ...] = ()

    @property
    def clusters(self) -> list[str]:
        """The names of the clusters with these operators, most of them first."""
        numbers: Counter[str] = Counter()
        for target in self.targets:
            numbers[target.cluster] += target.count
        return [name for name, _ in numbers.most_common()]

    @property
    def key(self) -> str:
        return self.id or f"reason-{self.reason or 'none'}"

    @property
    def has_commands(self) -> bool:
        steps = [step for remedy in self.remedies for step in remedy.steps]
        return any(is_command(step) and is_filled(step) for step in steps)

    @property
    def remedied(self) -> int:
        """The number of operators that the commands are for."""
        return sum(len(remedy.names) for remedy in self.remedies)


def operators_matching(filters: OperatorFilters) -> QuerySet[Operator]:
    """Operators with their cluster; `rank` (worst first) and `since_or_never` to sort by."""
    rows = Operator.objects.select_related("cluster").annotate(
        rank=_RANK, since_or_never=Coalesce("since", Value(LONG_AGO))
    )
    rows = narrow(
        rows,
        cluster__name=filters.cluster,
        kind=filters.kind,
        namespace="" if filters.namespace == "-" else filters.namespace,
        reason=filters.reason,
        package=filters.package,
    )
    if filters.namespace == "-":
        rows = rows.filter(namespace="")
    if filters.finding:
        rows = rows.filter(finding="" if filters.finding == "-" else filters.finding)
    if filters.health == ATTENTION:
        rows = rows.filter(health__in=NEEDS_ATTENTION)
    elif filters.health:
        rows = rows.filter(health=filters.health)
    if filters.upgrade:
        rows = rows.exclude(upgrade="").exclude(upgrade=F("version"))
    return search(rows, filters.q, "name", "package", "message")


def causes(
    clusters: Sequence[Cluster],
    filters: OperatorFilters,
    *,
    names: int,
    remedies: int = REMEDIES_SHOWN,
) -> list[CauseGroup]:
    """Why the matching operators of these clusters need attention, most operators first; at most
    three queries, and one more if clusters changed.

    Each cause carries up to `names` of its operators, and the remedies of up to `remedies`.
    """
    indexes = OPERATOR_INDEX.of(clusters)
    chosen = [row for row in clusters if not filters.cluster or row.name == filters.cluster]
    causes_of: dict[int, Sequence[CauseRows]] = {row.pk: indexes[row.pk].causes for row in chosen}
    if replace(filters, cluster="").chosen():
        rows = operators_matching(filters).filter(health__in=NEEDS_ATTENTION)
        matching = set(rows.order_by().values_list("pk", flat=True))
        causes_of = {pk: only(of_cluster, matching) for pk, of_cluster in causes_of.items()}
    offers = _offers()
    targets: dict[tuple[str, str], list[CauseTarget]] = defaultdict(list)
    first: dict[tuple[str, str], list[tuple[AttentionRow, str, Cluster]]] = defaultdict(list)
    for row in chosen:
        for cause in causes_of[row.pk]:
            key = cause.finding, cause.reason
            numbers = (0, 0)
            if cause.finding in _replaceable():
                numbers = _migratable(cause, indexes[row.pk], offers.get(row.pk, frozenset()))
            targets[key].append(CauseTarget(row.name, cause.kind, len(cause.rows), *numbers))
            shown = cause.rows[: max(names, remedies)]
            first[key] += ((member, cause.kind, row) for member in shown)
    for of_cause in first.values():
        of_cause.sort(key=itemgetter(0))
    members = [member.pk for rows in first.values() for member, _, _ in rows[:names]]
    groups = group_by_cause(
        [(*key, sum(target.count for target in of_cause)) for key, of_cause in targets.items()],
        facts_of(chain.from_iterable(causes_of.values())),
        _members(members),
        names=names,
    )
    return [
        replace(
            group,
            targets=tuple(sorted(targets[group.id, group.reason], key=_by_target)),
            remedies=cause_remedies(
                (
                    member.name,
                    _finding_of_member(group.id, member, kind),
                    cluster if len(chosen) > 1 else None,
                )
                for member, kind, cluster in first[group.id, group.reason][:remedies]
            ),
        )
        for group in groups
    ]


def _finding_of_member(finding: str, row: AttentionRow, kind: str) -> Finding | None:
    if not finding:
        return None
    names = _subject_names(kind, row.namespace, row.name, row.package)
    return finding_for(finding, dict(row.facts), names, reason=row.reason)


@cache
def _replaceable() -> frozenset[str]:
    """Ids of the findings whose remedy is a Subscription."""
    return frozenset(e.id for e in knowledge() if InstallMethod.SUBSCRIPTION in e.instead)


def _migratable(cause: CauseRows, index: ClusterIndex, offered: Collection[str]) -> tuple[int, int]:
    """The number of those that could get a Subscription, as a catalog of their cluster offers their
    package, and of those whose package has one already."""
    if cause.kind != InstallMethod.PLATFORM_OPERATOR:
        return 0, 0
    packages = [row.package for row in cause.rows if row.package]
    replaced = sum(package in index.subscribed for package in packages)
    free = [package for package in packages if package not in index.subscribed]
    return sum(package in offered for package in free), replaced


def _offers() -> dict[int, set[str]]:
    """Cluster id -> names of the packages of its catalogs; one query, and one more if catalogs
    changed."""
    catalogs = Catalog.objects.exclude(state=Catalog.State.DISABLED).filter(cluster__isnull=False)
    rows = catalogs.order_by().values_list("pk", "revision", "cluster")
    stamps = [_CatalogStamp(*row) for row in rows]
    names = _PACKAGES.of(stamps)
    offers: dict[int, set[str]] = defaultdict(set)
    for catalog in stamps:
        offers[catalog.cluster] |= names[catalog.pk]
    return offers


class _CatalogStamp(NamedTuple):
    pk: int
    revision: int
    cluster: int


def _read_packages(ids: Collection[int]) -> dict[int, frozenset[str]]:
    """Catalog id -> names of its packages; one query."""
    names: dict[int, list[str]] = {pk: [] for pk in ids}
    rows = Package.objects.filter(catalog__in=ids).order_by()
    for catalog, name in rows.values_list("catalog", "name"):
        names[catalog].append(intern(name))
    return {pk: frozenset(of_catalog) for pk, of_catalog in names.items()}


_PACKAGES = PerRevision(_read_packages)


def conflict_owners(causes: Iterable[CauseGroup]) -> dict[tuple[int, str], Operator]:
    """(cluster id, name) -> the operator that owns an object which the operators of a cause bring,
    too: that of the Helm release with this name; a query if a finding names an owner."""
    wanted = {
        (row.cluster_id, str(row.facts["owner"]))
        for cause in causes
        for row in cause.operators
        if row.facts.get("owner")
    }
    if not wanted:
        return {}
    rows = Operator.objects.filter(
        cluster__in={cluster for cluster, _ in wanted},
        kind__in=(InstallMethod.PLATFORM_OPERATOR, InstallMethod.CLUSTER_EXTENSION),
        name__in={name for _, name in wanted},
    )
    rows = rows.select_related("cluster").only("cluster__name", "kind", "namespace", "name")
    owners = {(row.cluster_id, row.name): row for row in rows.order_by("pk")}
    return {key: row for key, row in owners.items() if key in wanted}


def _members(pks: Collection[int]) -> list[Operator]:
    """These operators with their cluster, by name; one query."""
    rows = Operator.objects.filter(pk__in=pks).select_related("cluster")
    return list(rows.only("cluster__name", *_MEMBER_FIELDS).order_by("name", "pk"))


def _by_target(target: CauseTarget) -> tuple[str, str]:
    return target.cluster, target.kind


def cause_members(
    rows: QuerySet[Operator], *, names: int, of_each_cluster: bool = False, also: Q | None = None
) -> list[Operator]:
    """The first `names` operators of each cause, or of each cause on each cluster, and those that
    match `also`, by name; one query.

    They are numbered in a subquery of keys: whole rows of all operators would have to be sorted.
    """
    wanted = also or Q(pk__in=())
    if names:
        per = ("cluster", *_CAUSE) if of_each_cluster else _CAUSE
        place = Window(RowNumber(), partition_by=per, order_by=("name", "pk"))
        keys = rows.order_by().annotate(own_reason=_OWN_REASON, place=place)
        wanted |= Q(pk__in=keys.filter(place__lte=names).values("pk"))
    members = rows.filter(wanted).select_related("cluster").only("cluster__name", *_MEMBER_FIELDS)
    return list(members.order_by("name", "pk"))


def group_by_cause(
    counts: Iterable[tuple[str, str, int]],
    facts: Iterable[CauseFacts],
    members: Iterable[Operator],
    *,
    names: int,
) -> list[CauseGroup]:
    """Groups by finding, or by reason where there is none; most operators first; no query.

    `facts` are those of the operators of each cause, each once; each cause carries up to `names` of
    the members.
    """
    numbers: Counter[tuple[str, str]] = Counter()
    for finding, reason, number in counts:
        numbers[finding, reason] += number
    facts_of: dict[tuple[str, str], list[CauseFacts]] = defaultdict(list)
    for entry in facts:
        facts_of[entry.finding, entry.reason].append(entry)
    members_of: dict[tuple[str, str], list[Operator]] = defaultdict(list)
    for row in members:
        members_of[row.finding, "" if row.finding else row.reason].append(row)
    grouped = [
        _cause(key, members_of[key][:names], number, facts_of[key])
        for key, number in numbers.items()
    ]
    return sorted(grouped, key=lambda cause: (-cause.count, cause.title, cause.reason))


def _cause(
    key: tuple[str, str], members: Sequence[Operator], count: int, facts: Sequence[CauseFacts]
) -> CauseGroup:
    """`facts` are those of the operators, each once."""
    finding_id, reason = key
    shared = {
        name: value
        for name, value in facts[0].facts.items()
        if all(other.facts.get(name) == value for other in facts)
    }
    first = members[0] if members else None
    subject: dict[str, str] = {}
    if first:
        subject = subject_names(first) if count == 1 else {"kind": first.kind}
    finding = finding_for(finding_id, shared, subject) if finding_id else None
    own = finding_of(first) if first else None
    differs = finding is not None and own is not None and own.cause != finding.cause
    shown = own if differs else finding
    cause = shown.cause if shown else ""
    return CauseGroup(
        id=finding_id,
        title=own.title if own and count == 1 else cause_title(finding_id, reason, facts),
        finding=finding,
        sentence=_of_many(cause) if count > 1 and not differs else cause,
        example=first.name if first and differs else "",
        reason=reason,
        sample=first.message if first else "",
        count=count,
        operators=tuple(members),
    )


def cause_title(finding_id: str, reason: str, facts: Iterable[CauseFacts]) -> str:
    """The title of the operators' finding if they share one, else the one that is true of all; the
    reason where there is no finding. `facts` are read only if variants have titles of their own."""
    if finding_id in _with_several_titles():
        titles = {title_for(finding_id, entry.facts, entry.kind) for entry in facts}
        if len(titles) == 1:
            return titles.pop()
    return finding_titles().get(finding_id, finding_id) or reason or NO_REASON


@cache
def _with_several_titles() -> frozenset[str]:
    return frozenset(e.id for e in knowledge() if any(variant.title for variant in e.variants))


_MANY = (
    ("This bundle does not support ", "None of these bundles supports "),
    ("This bundle ", "Each of these bundles "),
    (" this bundle ", " each of these bundles "),
)


def _of_many(cause: str) -> str:
    """The cause of one bundle, said of the bundles of several operators."""
    for singular, plural in _MANY:
        if singular in cause:
            return cause.replace(singular, plural)
    return cause


def _on_cluster(step: str, cluster: Cluster) -> str:
    """A command with the context of the cluster, or with its name behind it."""
    if not is_command(step):
        return step
    if not cluster.context:
        return f"{step}  # on cluster {cluster.name}"
    program, _, arguments = step.partition(" ")
    return f"{program} --context={quote(cluster.context)} {arguments}"


def cause_remedies(
    findings: Iterable[tuple[str, Finding | None, Cluster | None]],
) -> tuple[CauseRemedy, ...]:
    """The remedies for operators with findings of the same cause, given with their names; that of
    most operators first. Commands name the cluster that is given. Equal remedies are merged, unless
    a command lacks a name or they are for several errors of one message."""
    alike: dict[tuple[Any, ...], list[tuple[str, tuple[str, ...]]]] = defaultdict(list)
    for name, finding, cluster in findings:
        if finding is not None:
            steps = finding.remedy
            if cluster is not None:
                steps = tuple(_on_cluster(step, cluster) for step in steps)
            lacking = tuple(is_command(step) and not is_filled(step) for step in steps)
            whole = steps if finding.others else ()
            alike[finding.remedy_templates, lacking, whole].append((name, steps))
    remedies = [
        CauseRemedy(
            tuple(name for name, _ in group),
            tuple(
                "\n".join(dict.fromkeys(step))
                for step in zip(*(steps for _, steps in group), strict=True)
            ),
            key[0],
        )
        for key, group in alike.items()
    ]
    return tuple(sorted(remedies, key=lambda remedy: -len(remedy.names)))


def facets(
    clusters: Sequence[Cluster], filters: OperatorFilters
) -> tuple[dict[str, list[tuple[str, str]]], int]:
    """((value, words) of the choices of the filters cluster, kind, namespace and health (ATTENTION
    first), the words with the counts of all operators, the number of matching operators); one query
    if anything is filtered, and one more if clusters changed."""
    indexes = OPERATOR_INDEX.of(clusters)
    names = ("cluster", "kind", "namespace", "health")
    counts: dict[str, Counter[str]] = {name: Counter() for name in names}
    for row in clusters:
        index = indexes[row.pk]
        if index.by_kind:
            counts["cluster"][row.name] = sum(index.by_kind.values())
        counts["kind"].update(index.by_kind)
        counts["namespace"].update(index.by_namespace)
        counts["health"].update(index.by_health)
    total = counts["cluster"].total()
    if filters.chosen():
        total = operators_matching(filters).order_by().count()
    cluster_scoped = counts["namespace"].pop("", 0)
    choices = {
        name: [(value, f"{value} ({number})") for value, number in sorted(values.items())]
        for name, values in counts.items()
        if name != "health"
    }
    if cluster_scoped:
        choices["namespace"].insert(0, ("-", f"cluster-scoped ({cluster_scoped})"))
    attention = sum(counts["health"][health] for health in NEEDS_ATTENTION)
    choices["health"] = [(ATTENTION, f"Needs attention ({attention})")]
    choices["health"] += [
        (value, f"{label} ({counts['health'][value]})")
        for value, label in Health.choices
        if value in counts["health"]
    ]
    return choices, total


def is_slow(operator: Operator) -> bool:
    """Whether its step lasts longer than usual, by the row alone: its reason is that of an object
    of its chain."""
    if operator.health not in (Health.INSTALLING, Health.UPGRADING):
        return False
    now = timezone.now()
    return any(
        stuck(kind, operator.reason, operator.since, now)
        for kind in (operator.kind, *CHAIN_KINDS)
        if operator.reason or kind == operator.kind
    )


def flapping(operators: Sequence[Operator]) -> dict[int, int]:
    """Id of each operator that repeatedly fails and recovers -> changes in 24 h; one query."""
    wanted = {(row.cluster_id, row.kind, row.namespace, row.name): row.pk for row in operators}
    if not wanted:
        return {}
    now = timezone.now()
    rows = Transition.objects.filter(
        type="Health",
        at__gte=now - DAY,
        cluster__in={row.cluster_id for row in operators},
        name__in={row.name for row in operators},
    ).order_by("at", "pk")
    healths_of: dict[int, list[tuple[datetime, str]]] = defaultdict(list)
    for cluster, kind, namespace, name, before, after, at in rows.values_list(
        "cluster", "kind", "namespace", "name", "from_status", "to_status", "at"
    ):
        if (pk := wanted.get((cluster, kind, namespace, name))) is not None:
            if not healths_of[pk]:
                healths_of[pk].append((at - timedelta(microseconds=1), before))
            healths_of[pk].append((at, after))
    counts = {pk: flaps(healths, now) for pk, healths in healths_of.items()}
    return {pk: count for pk, count in counts.items() if count >= FLAPPING}


def why(operator: Operator) -> str:
    """The finding's title, else the first line of the message, else the reason."""
    title = title_for(operator.finding, operator.facts, operator.kind, operator.reason)
    if title:
        return title
    if operator.health == Health.HEALTHY:
        return ""
    return operator.message.strip().split("\n", 1)[0][:300] or operator.reason


@cache
def finding_titles() -> dict[str, str]:
    """Finding id -> title."""
    return {entry.id: entry.title for entry in knowledge()}


def subject_names(operator: Operator) -> dict[str, str]:
    """The names that remedies are filled with."""
    return _subject_names(operator.kind, operator.namespace, operator.name, operator.package)


def _subject_names(kind: str, namespace: str, name: str, package: str) -> dict[str, str]:
    names = {"name": name, "namespace": namespace, "kind": kind}
    return names | {"package": package} if package else names


def has_installed_nothing(operator: Operator) -> bool:
    """Whether it failed before anything of its first version was installed, by its finding."""
    entry = by_id().get(operator.finding)
    # A failed upgrade leaves the version before it; without upgrades it is that of the first try.
    method = METHODS.get(operator.kind)
    before = (method is None or method.upgradable) and operator.version
    return entry is not None and entry.installs_nothing and not before


def awaits_first_approval(operator: Operator) -> bool:
    """Whether its first InstallPlan requires approval: its version is that of the plan."""
    waits = operator.kind == "Subscription" and operator.health == Health.NEEDS_APPROVAL
    return waits and not details_of(operator).get("installed_csv")


def finding_of(operator: Operator) -> Finding | None:
    """The stored finding with this operator's own names in its commands."""
    if not operator.finding:
        return None
    names = subject_names(operator)
    return finding_for(operator.finding, operator.facts, names, reason=operator.reason)
