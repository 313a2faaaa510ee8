"""How much of a catalog a cluster can run by one path, and why not the rest; beside what happened.

Reads the stored predictions (see `installs.predictions`) and the operators of the cluster: four
queries, no rule is run and no blob is read.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from catalogs.models import Catalog, Package, PredictionRun
from catalogs.predicted import KIND_OF, Predicted, chosen_rows, predicted, title_of, way_key
from catalogs.prediction import RULES_VERSION, Path, Target, Verdict
from installs.models import Health, Operator
from olmweb.models import Cluster

INSTALLED = (Health.HEALTHY, Health.DEGRADED, Health.UPGRADING)
NOT_INSTALLED = (Health.FAILED, Health.BLOCKED)
VERDICTS = (Verdict.INSTALLABLE, Verdict.NOT_INSTALLABLE, Verdict.UNKNOWN)
HISTORY = 20  # runs that are shown


@dataclass(frozen=True, slots=True)
class Row:
    """One package: the bundle that the path would choose, and the verdict on it."""

    package: str
    bundle: str
    version: str
    channel: str
    prediction: Predicted


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
class Past:
    """What came out before: at a revision of the catalog, by a version of the rules."""

    at: datetime
    revision: int
    rules_version: int
    counts: dict[str, int]  # by verdict


@dataclass(frozen=True, slots=True)
class Audit:
    """`rows` by package; `buckets` the largest first; `actual` disagreements first; `history` the
    newest first. `judged_at` is None when the catalog was not judged for this cluster yet."""

    catalog: str
    path: Path
    cluster: str
    target: Target
    rules_version: int
    judged_at: datetime | None
    rows: tuple[Row, ...]
    buckets: tuple[Bucket, ...]
    actual: tuple[Actual, ...]
    history: tuple[Past, ...]

    @property
    def counts(self) -> dict[str, int]:
        return {
            verdict.value: sum(row.prediction.verdict == verdict for row in self.rows)
            for verdict in VERDICTS
        }


def audit(
    catalog: Catalog, path: Path, *, cluster: Cluster | None = None, target: Target = Target.ALL
) -> Audit:
    """The audit of every package of `catalog` that was judged.

    Without a cluster from catalog facts alone. `target` is what the OperatorGroup of a Subscription
    selects; other paths have none.
    """
    target = target if path == Path.SUBSCRIPTION else Target.ALL
    cluster_id = cluster.pk if cluster else None
    found = chosen_rows(Package.objects.filter(catalog=catalog), path, cluster_id, target)
    rows = [
        Row(
            one.package.name,
            one.bundle.name if one.bundle else "",
            one.bundle.version if one.bundle else "",
            one.channel,
            predicted(one),
        )
        for one in found
    ]
    runs = list(PredictionRun.objects.filter(catalog=catalog, cluster=cluster_id)[:HISTORY])
    return Audit(
        catalog=str(catalog),
        path=path,
        cluster=cluster.name if cluster else "",
        target=target,
        rules_version=runs[0].rules_version if runs else RULES_VERSION,
        judged_at=runs[0].judged_at if runs else None,
        rows=tuple(rows),
        buckets=_buckets(rows),
        actual=_actual(rows, path, cluster) if cluster else (),
        history=_history(runs, way_key(path, target)),
    )


def _history(runs: Sequence[PredictionRun], way: str) -> tuple[Past, ...]:
    return tuple(
        Past(
            run.at,
            run.revision,
            run.rules_version,
            {verdict.value: run.counts.get(way, {}).get(verdict.value, 0) for verdict in VERDICTS},
        )
        for run in runs
    )


def _buckets(rows: list[Row]) -> tuple[Bucket, ...]:
    packages: dict[tuple[str, Verdict], list[str]] = defaultdict(list)
    for row in rows:
        packages[row.prediction.rule, row.prediction.verdict].append(row.package)
    found = [
        Bucket(rule, title_of(rule) if rule else "Installable", verdict, tuple(names))
        for (rule, verdict), names in packages.items()
    ]
    return tuple(sorted(found, key=lambda each: (-len(each.packages), each.rule)))


def _actual(rows: list[Row], path: Path, cluster: Cluster) -> tuple[Actual, ...]:
    """Operators that came to an end, either way, and whose package has a verdict."""
    verdicts = {row.package: row.prediction for row in rows}
    operators = Operator.objects.filter(
        cluster=cluster, kind=KIND_OF[path], health__in=(*INSTALLED, *NOT_INSTALLED)
    ).order_by("namespace", "name")
    found = []
    for one in operators:
        prediction = verdicts.get(one.package)
        if prediction is None:
            continue
        expected = Verdict.INSTALLABLE if one.health in INSTALLED else Verdict.NOT_INSTALLABLE
        unknown = prediction.verdict == Verdict.UNKNOWN
        found.append(
            Actual(
                *(one.package, one.namespace, one.name, one.health, one.finding),
                *(prediction.verdict, prediction.rule),
                None if unknown else prediction.verdict == expected,
            )
        )
    order = (False, None, True)
    return tuple(
        sorted(found, key=lambda each: (order.index(each.agrees), each.package, each.name))
    )
