"""The audit: verdicts on every package of a catalog for one install method, compared with the
operators of a cluster.

Reads stored verdicts (see `installs.facts.evaluate`) and operators, and checks the
OperatorGroups and CatalogSources of a Subscription's namespace, which hold for every bundle.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property

from catalogs.install_methods import InstallMethod
from catalogs.models import Catalog, Package, Prediction, PredictionRun
from catalogs.resolve import BadQuestion, resolve
from catalogs.resolve.facts import Resolution, ResolverPackage
from catalogs.resolve.stored import facts_of_all
from catalogs.verdicts.catalog_health import (
    health_context,
    health_notes,
    source_of,
)
from catalogs.verdicts.evaluate import check_health
from catalogs.verdicts.facts import OperatorGroupFacts, WatchTarget
from catalogs.verdicts.health_checks import CATALOG_SOURCE, CheckedCatalog, HealthContext
from catalogs.verdicts.read import (
    ANY_TARGET,
    TARGETS,
    StoredVerdict,
    best_rows,
    chosen_rows,
    method_key,
    overlaid,
    stored_verdict,
)
from catalogs.verdicts.rules import RULES_VERSION, RuleResult, RuleScope, Verdict, title_of
from installs.diagnosis.entries import by_id as knowledge_by_id
from installs.facts.cluster_facts import groups_of
from installs.models import Component, Health, Operator
from installs.state.observation import details_of
from olmweb.models import Cluster

READY = "READY"  # connection state of a CatalogSource
INSTALLED = (Health.HEALTHY, Health.DEGRADED, Health.UPGRADING)
NOT_INSTALLED = (Health.FAILED, Health.BLOCKED)
VERDICTS = (Verdict.INSTALLABLE, Verdict.NOT_INSTALLABLE, Verdict.UNKNOWN)
HISTORY = 20  # runs shown
# Warnings only for installs by OLM Web, since these name a catalog.
AMBIGUOUS, OUTRANKED = "ce-ambiguous", "ce-outranked"
NO_BUNDLE = "no-bundles"
WATCHES = (ANY_TARGET, *(target.value for target in TARGETS))


def read_watch(value: str) -> WatchTarget | None:
    """Parses one of WATCHES; None for any target."""
    return None if value in ("", ANY_TARGET) else WatchTarget(value)


# --- namespaces ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NamespaceCheck:
    """The result for one namespace.

    `target` is None unless exactly one OperatorGroup exists and selects a namespace. `blocker`
    prevents every install in the namespace; `notes` change no verdict.
    """

    namespace: str
    groups: tuple[OperatorGroupFacts, ...] = ()
    target: WatchTarget | None = None
    blocker: RuleResult | None = None
    notes: tuple[RuleResult, ...] = ()

    def apply_to(self, verdict: StoredVerdict) -> StoredVerdict:
        """The verdict on a bundle, overridden by the blocker of the namespace."""
        if self.blocker is None:
            return verdict
        return replace(
            verdict,
            verdict=self.blocker.verdict,
            rule=self.blocker.rule,
            sentence=self.blocker.sentence,
            results=(self.blocker, *verdict.results),
        )


UNCHECKED = NamespaceCheck("")
NO_CATALOG = CheckedCatalog()


@dataclass
class NamespaceChecks:
    """Checks the namespaces of a cluster; its objects are read on first use. `catalog` is the
    catalog to install from, where that matters."""

    cluster: Cluster
    catalog: CheckedCatalog = NO_CATALOG
    _checks: dict[str, NamespaceCheck] = field(default_factory=dict)

    @cached_property
    def groups(self) -> Mapping[str, tuple[OperatorGroupFacts, ...]]:
        by_namespace: dict[str, list[OperatorGroupFacts]] = defaultdict(list)
        for group in groups_of(self.cluster):
            by_namespace[group.namespace].append(group)
        return {namespace: tuple(groups) for namespace, groups in by_namespace.items()}

    @cached_property
    def _groups_listed(self) -> bool:
        """Whether the cluster's OperatorGroups were ever listed: before that, a missing group is
        no finding."""
        watches = self.cluster.watches.filter(kind="OperatorGroup", listed_at__isnull=False)
        return watches.exists()

    @cached_property
    def _sources(self) -> tuple[CheckedCatalog, ...]:
        rows = Component.objects.filter(cluster=self.cluster, kind=CATALOG_SOURCE)
        return tuple(map(checked_source, rows.order_by("namespace", "name")))

    def of(self, namespace: str) -> NamespaceCheck:
        if namespace not in self._checks:
            self._checks[namespace] = check_namespace(
                self.catalog,
                self._sources,
                namespace,
                self.groups.get(namespace, ()),
                groups_listed=self._groups_listed,
            )
        return self._checks[namespace]


def check_namespace(
    catalog: CheckedCatalog,
    sources: tuple[CheckedCatalog, ...],
    namespace: str,
    groups: tuple[OperatorGroupFacts, ...],
    *,
    groups_listed: bool,
) -> NamespaceCheck:
    """Checks an install from `catalog` into the namespace; `groups` are its OperatorGroups,
    `sources` the CatalogSources of the cluster. No query."""
    target = groups[0].target if len(groups) == 1 else None
    context = HealthContext(
        catalog, sources, namespace=namespace, groups=groups if groups_listed else None
    )
    results = check_health(InstallMethod.SUBSCRIPTION, RuleScope.NAMESPACE, context)
    blocker = next((result for result in results if result.verdict != Verdict.WARNING), None)
    notes = tuple(result for result in results if result.verdict == Verdict.WARNING)
    return NamespaceCheck(namespace, groups, target, blocker, notes)


def checked_source(row: Component) -> CheckedCatalog:
    """The CatalogSource of the row. Without a connection state yet it counts as not answering."""
    state = details_of(row).get("state") or "no connection yet"
    trouble = "" if state == READY else state
    return CheckedCatalog(CATALOG_SOURCE, row.namespace, row.name, trouble=trouble)


# --- audit --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One package: the bundle that the install method would choose, and the verdict on it."""

    package: str
    bundle: str
    version: str
    channel: str
    prediction: StoredVerdict


@dataclass(frozen=True, slots=True)
class Bucket:
    """Packages whose verdict was decided by the same rule; the rule is empty if installable."""

    rule: str
    title: str
    verdict: Verdict
    packages: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AuditedOperator:
    """An operator of the cluster compared with the verdict on its package.

    `agrees` is None when the verdict is unknown.
    """

    package: str
    namespace: str
    name: str
    health: str
    finding: str
    verdict: Verdict
    rule: str
    agrees: bool | None

    @property
    def rule_title(self) -> str:
        return title_of(self.rule) if self.rule else ""

    @property
    def finding_title(self) -> str:
        entry = knowledge_by_id().get(self.finding)
        return entry.title if entry else self.finding


@dataclass(frozen=True, slots=True)
class RuleOutcome:
    """The number of operators with the same deciding rule, verdict and agreement."""

    rule: str
    title: str
    verdict: Verdict
    count: int
    agrees: bool | None


@dataclass(frozen=True, slots=True)
class PastCounts:
    """The counts of an earlier run: a revision of the catalog with a version of the rules."""

    at: datetime
    revision: int
    rules_version: int
    counts: dict[str, int]  # by verdict


@dataclass(frozen=True, slots=True)
class Audit:
    """The result of an audit.

    `rows` are sorted by package, `buckets` by size, `actual` with disagreements first, `history`
    newest first. `evaluated_at` is None before the first evaluation of the catalog for this
    cluster. `namespace_check` is that of the requested namespace. `notes` hold for every package,
    whatever its verdict.
    """

    catalog: str
    path: InstallMethod
    cluster: str
    target: WatchTarget | None
    namespace_check: NamespaceCheck | None
    rules_version: int
    evaluated_at: datetime | None
    rows: tuple[AuditRow, ...]
    buckets: tuple[Bucket, ...]
    actual: tuple[AuditedOperator, ...]
    history: tuple[PastCounts, ...]
    notes: tuple[RuleResult, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        return {
            verdict.value: sum(row.prediction.verdict == verdict for row in self.rows)
            for verdict in VERDICTS
        }

    @property
    def outcomes(self) -> tuple[RuleOutcome, ...]:
        """Sorted by agreement (disagreements, undecided, agreements), then by size."""
        counts = Counter(
            (operator.rule, operator.verdict, operator.agrees) for operator in self.actual
        )
        order = (False, None, True)
        return tuple(
            RuleOutcome(rule, title_of(rule) if rule else "Installable", verdict, count, agrees)
            for (rule, verdict, agrees), count in sorted(
                counts.items(), key=lambda item: (order.index(item[0][2]), -item[1], item[0][0])
            )
        )


def audit(
    catalog: Catalog,
    path: InstallMethod,
    *,
    cluster: Cluster | None = None,
    target: WatchTarget | None = None,
    namespace: str = "",
) -> Audit:
    """Audits every package of `catalog` that has stored verdicts.

    Without a cluster, the verdicts are from catalog facts alone. `target` and `namespace` apply to
    Subscriptions only: `target` is what the OperatorGroup selects, None for the result of
    `over_targets` for every package. With a `namespace` of the cluster, its OperatorGroup overrides
    `target`.
    """
    checks = (
        NamespaceChecks(cluster, source_of(catalog))
        if cluster and path == InstallMethod.SUBSCRIPTION
        else None
    )
    namespace_check = checks.of(namespace) if checks and namespace else None
    target = target if path == InstallMethod.SUBSCRIPTION else WatchTarget.ALL
    if namespace_check:
        target = namespace_check.target or target or WatchTarget.ALL
    cluster_id = cluster.pk if cluster else None
    check = namespace_check or UNCHECKED
    chosen = chosen_rows(Package.objects.filter(catalog=catalog), path, cluster_id)
    verdicts = {row.pk: stored_verdict(row) for row in chosen}
    if target:
        shown = [row for row in chosen if row.target == target]
    else:
        shown = sorted(best_rows(chosen), key=lambda row: row.package.name)
    rows = [
        AuditRow(
            package=row.package.name,
            bundle=row.bundle.name if row.bundle else "",
            version=row.bundle.version if row.bundle else "",
            channel=row.channel,
            prediction=check.apply_to(verdicts[row.pk]),
        )
        for row in shown
    ]
    by_package = {(verdicts[row.pk].target, row.package.name): verdicts[row.pk] for row in chosen}
    runs = list(PredictionRun.objects.filter(catalog=catalog, cluster=cluster_id)[:HISTORY])
    return Audit(
        catalog=str(catalog),
        path=path,
        cluster=cluster.name if cluster else "",
        target=target,
        namespace_check=namespace_check,
        rules_version=runs[0].rules_version if runs else RULES_VERSION,
        evaluated_at=runs[0].evaluated_at if runs else None,
        rows=tuple(rows),
        buckets=_buckets(rows),
        actual=_actual(catalog, by_package, path, cluster, checks) if cluster else (),
        history=_history(
            runs,
            method_key(path, target or ANY_TARGET) if path == InstallMethod.SUBSCRIPTION else path,
        ),
        notes=(
            *health_notes(health_context(catalog, cluster_id))[path],
            *check.notes,
        ),
    )


def _history(runs: Sequence[PredictionRun], key: str) -> tuple[PastCounts, ...]:
    """The counts under `key`, newest first. Runs that changed only the counts of other install
    methods or targets are left out."""
    result: list[PastCounts] = []
    for run in reversed(runs):
        counts = {
            verdict.value: run.counts.get(key, {}).get(verdict.value, 0) for verdict in VERDICTS
        }
        past = PastCounts(run.at, run.revision, run.rules_version, counts)
        if not result or replace(past, at=result[-1].at) != result[-1]:
            result.append(past)
    return tuple(reversed(result))


def _buckets(rows: list[AuditRow]) -> tuple[Bucket, ...]:
    packages: dict[tuple[str, Verdict], list[str]] = defaultdict(list)
    for row in rows:
        packages[row.prediction.rule, row.prediction.verdict].append(row.package)
    buckets = [
        Bucket(rule, title_of(rule) if rule else "Installable", verdict, tuple(names))
        for (rule, verdict), names in packages.items()
    ]
    return tuple(sorted(buckets, key=lambda bucket: (-len(bucket.packages), bucket.rule)))


def _actual(
    catalog: Catalog,
    rows: Mapping[tuple[WatchTarget, str], StoredVerdict],
    path: InstallMethod,
    cluster: Cluster,
    checks: NamespaceChecks | None,
) -> tuple[AuditedOperator, ...]:
    """The operators of this catalog that are installed or failed and whose package has a verdict.

    The verdict on a Subscription depends on the OperatorGroup of its namespace. An operator that
    requests a channel or a version is compared with the verdict on the bundle of that request.
    """
    operators = list(
        Operator.objects.filter(
            cluster=cluster,
            kind=path,
            health__in=(*INSTALLED, *NOT_INSTALLED),
            catalog__in=("", catalog.name),
        ).order_by("namespace", "name")
    )
    by_operator = {
        operator.pk: checks.of(operator.namespace) if checks else UNCHECKED
        for operator in operators
    }
    targets = {pk: check.target or WatchTarget.ALL for pk, check in by_operator.items()}
    requesting = [operator for operator in operators if operator.channel or operator.version_asked]
    requested = (
        _requested_verdicts(catalog, path, requesting, targets, cluster.pk) if requesting else {}
    )
    result = []
    for operator in operators:
        prediction = rows.get((targets[operator.pk], operator.package))
        if prediction is None:
            continue
        verdict = requested.get(operator.pk, prediction)
        if path == InstallMethod.CLUSTER_EXTENSION and not operator.catalog and verdict:
            verdict = _unpinned(verdict)
        result.append(
            _compare(operator, by_operator[operator.pk].apply_to(verdict) if verdict else None)
        )
    order = (False, None, True)
    return tuple(
        sorted(result, key=lambda actual: (order.index(actual.agrees), actual.package, actual.name))
    )


def _unpinned(prediction: StoredVerdict) -> StoredVerdict | None:
    """The verdict on a ClusterExtension that names no catalog: not installable when several
    catalogs have the same priority, None (unknown) when another catalog has a higher one."""
    rules = {result.rule: result for result in prediction.results}
    if OUTRANKED in rules:
        return None
    if (ambiguous := rules.get(AMBIGUOUS)) is None:
        return prediction
    refused = Verdict.NOT_INSTALLABLE
    return replace(prediction, verdict=refused, rule=AMBIGUOUS, sentence=ambiguous.sentence)


def _compare(operator: Operator, prediction: StoredVerdict | None) -> AuditedOperator:
    verdict = prediction.verdict if prediction else Verdict.UNKNOWN
    expected = Verdict.INSTALLABLE if operator.health in INSTALLED else Verdict.NOT_INSTALLABLE
    return AuditedOperator(
        *(operator.package, operator.namespace, operator.name, operator.health, operator.finding),
        *(verdict, prediction.rule if prediction else ""),
        None if verdict == Verdict.UNKNOWN else verdict == expected,
    )


def _requested_verdicts(
    catalog: Catalog,
    path: InstallMethod,
    operators: Sequence[Operator],
    targets: Mapping[int, WatchTarget],
    cluster: int,
) -> dict[int, StoredVerdict | None]:
    """Operator key -> the verdict on the bundle that the operator requests; None when unknown.

    Resolves the channel and version range of each operator as its controller would and takes the
    stored verdict on that bundle: six queries for all operators together. `targets` are by operator
    key. Operators whose package is not in the catalog are left out.
    """
    wanted = {operator.package for operator in operators}
    packages = {package.name: package for package in catalog.packages.filter(name__in=wanted)}
    facts = facts_of_all(list(packages.values()))
    resolutions = {
        operator.pk: _resolve(facts[packages[operator.package].pk], path, operator)
        for operator in operators
        if operator.package in packages
    }
    chosen = {
        resolution.bundle
        for resolution in resolutions.values()
        if resolution is not None and resolution.bundle
    }
    rows = Prediction.objects.filter(
        package__in=packages.values(), bundle__name__in=chosen, path=path.value
    ).select_related("bundle")
    stored = {
        (row.package_id, row.bundle.name, row.target): stored_verdict(row)
        for row in overlaid(rows, cluster)
        if row.bundle is not None
    }
    result: dict[int, StoredVerdict | None] = {}
    for operator in operators:
        if operator.pk not in resolutions:
            continue
        resolution, target = resolutions[operator.pk], targets[operator.pk]
        if resolution is not None and not resolution.bundle:
            result[operator.pk] = _without_bundle(path, target, resolution)
        else:
            bundle = resolution.bundle if resolution else ""
            result[operator.pk] = stored.get((packages[operator.package].pk, bundle, target))
    return result


def _resolve(facts: ResolverPackage, path: InstallMethod, operator: Operator) -> Resolution | None:
    """None when the requested version range is invalid."""
    channels = [channel.strip() for channel in operator.channel.split(",") if channel.strip()]
    try:
        resolution = resolve(facts, path, channels=channels, version=operator.version_asked)
    except BadQuestion:
        return None
    # OLM v1 refuses the bundle it has chosen; the stored verdict on it has the reason.
    if resolution.blocked_by == "dependency" and resolution.candidates:
        first = resolution.candidates[0]
        return Resolution(first.bundle, first.version, resolution.channel)
    return resolution


def _without_bundle(
    path: InstallMethod, target: WatchTarget, resolution: Resolution
) -> StoredVerdict:
    rule = resolution.blocked_by or NO_BUNDLE
    sentence = resolution.message or resolution.reason or title_of(rule)
    result = RuleResult(rule, Verdict.NOT_INSTALLABLE, sentence)
    return StoredVerdict(path, target, result.verdict, rule, sentence, (result,))
