"""How much of a catalog a cluster can run by one path, and why not the rest; beside what happened.

Reads the stored predictions (see `installs.facts.refresh_verdicts`), the operators of the cluster
and, for Subscriptions, its OperatorGroups and CatalogSources. No rule is run on a bundle.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from catalogs.install_methods import InstallMethod
from catalogs.models import Catalog, Package, PredictionRun
from catalogs.verdicts import RULES_VERSION, Target, Verdict
from catalogs.verdicts.catalog_health import notes_on, site_of, source_of
from catalogs.verdicts.read import (
    ANY_TARGET,
    TARGETS,
    StoredRuleResult,
    StoredVerdict,
    chosen_rows,
    over_targets,
    predicted,
    title_of,
    way_key,
)
from installs.audit.namespaces import NOWHERE, Spot, Spots
from installs.audit.requested import verdicts_on
from installs.models import Health, Operator
from olmweb.models import Cluster

INSTALLED = (Health.HEALTHY, Health.DEGRADED, Health.UPGRADING)
NOT_INSTALLED = (Health.FAILED, Health.BLOCKED)
VERDICTS = (Verdict.INSTALLABLE, Verdict.NOT_INSTALLABLE, Verdict.UNKNOWN)
HISTORY = 20  # runs that are shown
AMBIGUOUS, OUTRANKED = "ce-ambiguous", "ce-outranked"  # warnings: OLM Web names a catalog


WATCHES = (ANY_TARGET, *(target.value for target in TARGETS))


def read_watch(value: str) -> Target | None:
    """The target that a person asks for, one of WATCHES; None for any."""
    return None if value in ("", ANY_TARGET) else Target(value)


@dataclass(frozen=True, slots=True)
class Row:
    """One package: the bundle that the path would choose, and the verdict on it."""

    package: str
    bundle: str
    version: str
    channel: str
    prediction: StoredVerdict


@dataclass(frozen=True, slots=True)
class Bucket:
    """Packages whose verdict one rule decided. The rule is empty for the installable ones."""

    rule: str
    title: str
    verdict: Verdict
    packages: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Actual:
    """An operator that the cluster has, beside the verdict on its package.

    `agrees` is None when the verdict is unknown: that is no claim that could be wrong.
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
class Outcome:
    """How many operators one rule, or none, predicted; `agrees` as of Actual."""

    rule: str
    title: str
    verdict: Verdict
    count: int
    agrees: bool | None


@dataclass(frozen=True, slots=True)
class Past:
    """What came out before: at a revision of the catalog, by a version of the rules."""

    at: datetime
    revision: int
    rules_version: int
    counts: dict[str, int]  # by verdict


@dataclass(frozen=True, slots=True)
class Audit:
    """`rows` by package; `buckets` the largest first; `actual` disagreements first; `history` the
    newest first. `judged_at` is None when the catalog was not judged for this cluster yet. `spot`
    is the namespace asked for. `notes` hold for every package, whatever its verdict."""

    catalog: str
    path: InstallMethod
    cluster: str
    target: Target | None
    spot: Spot | None
    rules_version: int
    judged_at: datetime | None
    rows: tuple[Row, ...]
    buckets: tuple[Bucket, ...]
    actual: tuple[Actual, ...]
    history: tuple[Past, ...]
    notes: tuple[StoredRuleResult, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        return {
            verdict.value: sum(row.prediction.verdict == verdict for row in self.rows)
            for verdict in VERDICTS
        }

    @property
    def came_true(self) -> tuple[Outcome, ...]:
        """By deciding rule, the largest first; disagreements and unknown ones first of all."""
        found = Counter((one.rule, one.verdict, one.agrees) for one in self.actual)
        order = (False, None, True)
        return tuple(
            Outcome(rule, title_of(rule) if rule else "Installable", verdict, count, agrees)
            for (rule, verdict, agrees), count in sorted(
                found.items(), key=lambda item: (order.index(item[0][2]), -item[1], item[0][0])
            )
        )


def audit(
    catalog: Catalog,
    path: InstallMethod,
    *,
    cluster: Cluster | None = None,
    target: Target | None = None,
    namespace: str = "",
) -> Audit:
    """The audit of every package of `catalog` that was judged.

    Without a cluster from catalog facts alone. `target` is what the OperatorGroup of a Subscription
    selects, None: of each package the answer of `over_targets`. With a `namespace` of the cluster,
    the OperatorGroup that is there counts instead. Other paths have none.
    """
    spots = (
        Spots(cluster, source_of(catalog))
        if cluster and path == InstallMethod.SUBSCRIPTION
        else None
    )
    spot = spots.of(namespace) if spots and namespace else None
    target = target if path == InstallMethod.SUBSCRIPTION else Target.ALL
    if spot:
        target = spot.target or target or Target.ALL
    cluster_id = cluster.pk if cluster else None
    judged: dict[Target, list[Row]] = defaultdict(list)
    for one in chosen_rows(Package.objects.filter(catalog=catalog), path, cluster_id):
        bundle = (one.bundle.name, one.bundle.version) if one.bundle else ("", "")
        row = Row(one.package.name, *bundle, one.channel, predicted(one))
        judged[row.prediction.target].append(row)
    rows = [
        replace(row, prediction=spot.over(row.prediction)) if spot else row
        for row in (judged[target] if target else _best(judged))
    ]
    verdicts = {
        (target, row.package): row.prediction for target, found in judged.items() for row in found
    }
    runs = list(PredictionRun.objects.filter(catalog=catalog, cluster=cluster_id)[:HISTORY])
    return Audit(
        catalog=str(catalog),
        path=path,
        cluster=cluster.name if cluster else "",
        target=target,
        spot=spot,
        rules_version=runs[0].rules_version if runs else RULES_VERSION,
        judged_at=runs[0].judged_at if runs else None,
        rows=tuple(rows),
        buckets=_buckets(rows),
        actual=_actual(catalog, verdicts, path, cluster, spots) if cluster else (),
        history=_history(
            runs,
            way_key(path, target or ANY_TARGET) if path == InstallMethod.SUBSCRIPTION else path,
        ),
        notes=(*notes_on(site_of(catalog, cluster_id))[path], *(spot.notes if spot else ())),
    )


def _best(by_target: Mapping[Target, Sequence[Row]]) -> list[Row]:
    rows: dict[str, dict[Target, Row]] = defaultdict(dict)
    for target in TARGETS:
        for row in by_target.get(target, ()):
            rows[row.package][target] = row
    best = {
        package: over_targets(row.prediction for row in targets.values())[0].target
        for package, targets in rows.items()
    }
    return [rows[package][best[package]] for package in sorted(rows)]


def _history(runs: Sequence[PredictionRun], way: str) -> tuple[Past, ...]:
    """A run that only changed what other ways have is left out: it is none of this one's."""
    found: list[Past] = []
    for run in reversed(runs):
        counts = {
            verdict.value: run.counts.get(way, {}).get(verdict.value, 0) for verdict in VERDICTS
        }
        past = Past(run.at, run.revision, run.rules_version, counts)
        if not found or replace(past, at=found[-1].at) != found[-1]:
            found.append(past)
    return tuple(reversed(found))


def _buckets(rows: list[Row]) -> tuple[Bucket, ...]:
    packages: dict[tuple[str, Verdict], list[str]] = defaultdict(list)
    for row in rows:
        packages[row.prediction.rule, row.prediction.verdict].append(row.package)
    found = [
        Bucket(rule, title_of(rule) if rule else "Installable", verdict, tuple(names))
        for (rule, verdict), names in packages.items()
    ]
    return tuple(sorted(found, key=lambda each: (-len(each.packages), each.rule)))


def _actual(
    catalog: Catalog,
    rows: Mapping[tuple[Target, str], StoredVerdict],
    path: InstallMethod,
    cluster: Cluster,
    spots: Spots | None,
) -> tuple[Actual, ...]:
    """Operators of this catalog that came to an end, either way, and whose package has a verdict.

    A Subscription's is that by the OperatorGroup of its own namespace; and one that asks for a
    channel or a version gets the verdict on that.
    """
    operators = list(
        Operator.objects.filter(
            cluster=cluster,
            kind=path,
            health__in=(*INSTALLED, *NOT_INSTALLED),
            catalog__in=("", catalog.name),
        ).order_by("namespace", "name")
    )
    places = {each.pk: spots.of(each.namespace) if spots else NOWHERE for each in operators}
    targets = {pk: spot.target or Target.ALL for pk, spot in places.items()}
    choosy = [each for each in operators if each.channel or each.version_asked]
    asked = verdicts_on(catalog, path, choosy, targets, cluster.pk) if choosy else {}
    found = []
    for one in operators:
        prediction = rows.get((targets[one.pk], one.package))
        if prediction is None:
            continue
        known = asked.get(one.pk, prediction)
        if path == InstallMethod.CLUSTER_EXTENSION and not one.catalog and known:
            known = _unpinned(known)
        found.append(_compared(one, places[one.pk].over(known) if known else None))
    order = (False, None, True)
    return tuple(
        sorted(found, key=lambda each: (order.index(each.agrees), each.package, each.name))
    )


def _unpinned(prediction: StoredVerdict) -> StoredVerdict | None:
    """What becomes of the verdict where no catalog is named: refused when several are as good, not
    known when another one comes first."""
    rules = {each.rule: each for each in prediction.found}
    if OUTRANKED in rules:
        return None
    if (ambiguous := rules.get(AMBIGUOUS)) is None:
        return prediction
    refused = Verdict.NOT_INSTALLABLE
    return replace(prediction, verdict=refused, rule=AMBIGUOUS, sentence=ambiguous.sentence)


def _compared(one: Operator, prediction: StoredVerdict | None) -> Actual:
    verdict = prediction.verdict if prediction else Verdict.UNKNOWN
    expected = Verdict.INSTALLABLE if one.health in INSTALLED else Verdict.NOT_INSTALLABLE
    return Actual(
        *(one.package, one.namespace, one.name, one.health, one.finding),
        *(verdict, prediction.rule if prediction else ""),
        None if verdict == Verdict.UNKNOWN else verdict == expected,
    )
