"""The audit: verdicts on every package of a catalog for one install method, compared with the
operators of a cluster.

Reads the stored predictions (see `installs.facts.evaluate`), the operators of the cluster
and, for Subscriptions, its OperatorGroups and CatalogSources. Runs no rule on a bundle.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from catalogs.install_methods import InstallMethod
from catalogs.models import Catalog, Package, Prediction, PredictionRun
from catalogs.resolve import BadQuestion, resolve
from catalogs.resolve.facts import Resolution, ResolverPackage
from catalogs.resolve.stored import facts_of_all
from catalogs.verdicts.catalog_health import health_context, health_notes, source_of
from catalogs.verdicts.facts import WatchTarget
from catalogs.verdicts.read import (
    ANY_TARGET,
    TARGETS,
    StoredRuleResult,
    StoredVerdict,
    chosen_rows,
    method_key,
    over_targets,
    overlaid,
    stored_verdict,
    title_of,
)
from catalogs.verdicts.rules import RULES_VERSION, Verdict
from installs.audit.namespaces import UNCHECKED, NamespaceCheck, NamespaceChecks
from installs.models import Health, Operator
from olmweb.models import Cluster

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
    notes: tuple[StoredRuleResult, ...] = ()

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
    by_target: dict[WatchTarget, list[AuditRow]] = defaultdict(list)
    for prediction in chosen_rows(Package.objects.filter(catalog=catalog), path, cluster_id):
        bundle = (
            (prediction.bundle.name, prediction.bundle.version) if prediction.bundle else ("", "")
        )
        row = AuditRow(
            prediction.package.name, *bundle, prediction.channel, stored_verdict(prediction)
        )
        by_target[row.prediction.target].append(row)
    rows = [
        replace(row, prediction=namespace_check.apply_to(row.prediction))
        if namespace_check
        else row
        for row in (by_target[target] if target else _best(by_target))
    ]
    verdicts = {
        (target, row.package): row.prediction
        for target, target_rows in by_target.items()
        for row in target_rows
    }
    runs = list(PredictionRun.objects.filter(catalog=catalog, cluster=cluster_id)[:HISTORY])
    return Audit(
        catalog=str(catalog),
        path=path,
        cluster=cluster.name if cluster else "",
        target=target,
        namespace_check=namespace_check,
        rules_version=runs[0].rules_version if runs else RULES_VERSION,
        evaluated_at=runs[0].judged_at if runs else None,
        rows=tuple(rows),
        buckets=_buckets(rows),
        actual=_actual(catalog, verdicts, path, cluster, checks) if cluster else (),
        history=_history(
            runs,
            method_key(path, target or ANY_TARGET) if path == InstallMethod.SUBSCRIPTION else path,
        ),
        notes=(
            *health_notes(health_context(catalog, cluster_id))[path],
            *(namespace_check.notes if namespace_check else ()),
        ),
    )


def _best(by_target: Mapping[WatchTarget, Sequence[AuditRow]]) -> list[AuditRow]:
    rows: dict[str, dict[WatchTarget, AuditRow]] = defaultdict(dict)
    for target in TARGETS:
        for row in by_target.get(target, ()):
            rows[row.package][target] = row
    best = {
        package: over_targets(row.prediction for row in targets.values())[0].target
        for package, targets in rows.items()
    }
    return [rows[package][best[package]] for package in sorted(rows)]


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
    packages = {
        package.name: package
        for package in Package.objects.filter(catalog=catalog, name__in=wanted)
    }
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
    ids, stored = _stored(packages, chosen, path, cluster)
    result: dict[int, StoredVerdict | None] = {}
    for operator in operators:
        if operator.pk not in resolutions:
            continue
        resolution, target = resolutions[operator.pk], targets[operator.pk]
        if resolution is not None and not resolution.bundle:
            result[operator.pk] = _without_bundle(path, target, resolution)
        else:
            bundle = resolution.bundle if resolution else ""
            pk = ids.get((packages[operator.package].pk, bundle), 0)
            result[operator.pk] = stored.get((pk, target))
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


def _stored(
    packages: Mapping[str, Package], bundles: set[str], path: InstallMethod, cluster: int
) -> tuple[dict[tuple[int, str], int], Mapping[tuple[int, WatchTarget], StoredVerdict]]:
    """Keys of the bundles by package and name, and the stored verdicts on them."""
    rows = Prediction.objects.filter(
        package__in=packages.values(), bundle__name__in=bundles, path=path.value
    ).select_related("bundle")
    ids: dict[tuple[int, str], int] = {}
    verdicts: dict[tuple[int, WatchTarget], StoredVerdict] = {}
    for row in overlaid(rows, cluster):
        if row.bundle is not None:
            ids[row.package_id, row.bundle.name] = row.bundle.pk
            verdicts[row.bundle.pk, WatchTarget(row.target)] = stored_verdict(row)
    return ids, verdicts


def _without_bundle(
    path: InstallMethod, target: WatchTarget, resolution: Resolution
) -> StoredVerdict:
    rule = resolution.blocked_by or NO_BUNDLE
    sentence = resolution.message or resolution.reason or title_of(rule)
    result = StoredRuleResult(rule, Verdict.NOT_INSTALLABLE, sentence)
    return StoredVerdict(path, target, result.verdict, rule, sentence, (result,))
