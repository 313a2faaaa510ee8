"""How much of a catalog a cluster can run by one path, and why not the rest; beside what happened.

Selection is `catalogs.resolve`'s and verdicts are `catalogs.prediction`'s: this brings the rows to
them, a package at a time. It reads blobs, so it is for commands and tasks, not for a page.
"""

from collections import defaultdict
from dataclasses import dataclass

from catalogs import fbc
from catalogs.blobs import read_blob
from catalogs.models import Bundle, Catalog, Package
from catalogs.prediction import (
    RULES_VERSION,
    Contents,
    Found,
    Path,
    Prediction,
    Target,
    Verdict,
    predict,
    read_contents,
)
from catalogs.prediction.surroundings import NO_CLUSTER
from catalogs.resolve import resolve
from catalogs.resolve.facts import Resolution
from catalogs.resolve.stored import facts_of
from installs.models import Health, Operator
from installs.surroundings import cluster_facts, market_of
from olmweb.models import Cluster

KINDS = {
    Path.PLATFORM_OPERATOR: "PlatformOperator",
    Path.CLUSTER_EXTENSION: "ClusterExtension",
    Path.SUBSCRIPTION: "Subscription",
}
NOT_READ = "not-read"
NO_CHOICE = {  # what resolution says was in the way -> title of the bucket
    "channel-graph": "The upgrade graph of its channel is broken",
    "no-bundles": "No bundle to choose",
}
INSTALLED = (Health.HEALTHY, Health.DEGRADED, Health.UPGRADING)
NOT_INSTALLED = (Health.FAILED, Health.BLOCKED)


@dataclass(frozen=True, slots=True)
class Row:
    """One package: the bundle that the path would choose, and the verdict on it."""

    package: str
    bundle: str
    version: str
    channel: str
    prediction: Prediction

    @property
    def sentence(self) -> str:
        return self.prediction.found[0].sentence if self.prediction.found else ""


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
class Audit:
    """`rows` by package; `buckets` the largest first; `actual` disagreements first."""

    catalog: str
    path: Path
    cluster: str
    target: Target
    rules_version: int
    rows: tuple[Row, ...]
    buckets: tuple[Bucket, ...]
    actual: tuple[Actual, ...]

    @property
    def counts(self) -> dict[str, int]:
        verdicts = (Verdict.INSTALLABLE, Verdict.NOT_INSTALLABLE, Verdict.UNKNOWN)
        return {
            verdict.value: sum(row.prediction.verdict == verdict for row in self.rows)
            for verdict in verdicts
        }


def audit(
    catalog: Catalog, path: Path, *, cluster: Cluster | None = None, target: Target = Target.ALL
) -> Audit:
    """The audit of every package of `catalog`.

    Without a cluster from catalog facts alone. `target` is what the OperatorGroup of a Subscription
    selects. About six queries a package.
    """
    surroundings = cluster_facts(cluster) if cluster else NO_CLUSTER
    market = market_of(catalog, cluster)
    rows = []
    for package in Package.objects.filter(catalog=catalog).order_by("name"):
        chosen = resolve(facts_of(package), path)
        # OLM v1 refuses the bundle that it settled on: the rules say why, with all other rules.
        tried = chosen.candidates[0] if chosen.blocked_by == "dependency" else chosen
        contents = _contents(package, tried.bundle) if tried.bundle else None
        if contents is not None:
            verdict = predict(contents, path, cluster=surroundings, market=market, target=target)
        else:
            verdict = _without_contents(path, chosen)
        rows.append(Row(package.name, tried.bundle, tried.version, chosen.channel, verdict))
    return Audit(
        catalog=str(catalog),
        path=path,
        cluster=cluster.name if cluster else "",
        target=target,
        rules_version=RULES_VERSION,
        rows=tuple(rows),
        buckets=_buckets(rows),
        actual=_actual(rows, path, cluster) if cluster else (),
    )


def _contents(package: Package, name: str) -> Contents | None:
    """None when the bundle isn't in the catalog, or isn't JSON."""
    bundle = Bundle.objects.filter(package=package, name=name).order_by("-ordinal").first()
    blob = read_blob(bundle.blob_id) if bundle and bundle.blob_id else None
    if bundle is None or blob is None:
        return None
    try:
        if not blob.lstrip().startswith(b"{"):
            blob = fbc.yaml_to_json(blob)
        return read_contents(blob, deprecated=bundle.deprecated)
    except (fbc.BadBlob, *fbc.DECODE_ERRORS):
        return None


def _without_contents(path: Path, chosen: Resolution) -> Prediction:
    if chosen.bundle:
        sentence = f"The catalog has no readable blob of {chosen.bundle}; its problems say why."
        found = Found(NOT_READ, "Not readable in the catalog", Verdict.UNKNOWN, sentence, {})
    else:
        sentence = chosen.message or chosen.reason
        title = NO_CHOICE.get(chosen.blocked_by, NO_CHOICE["no-bundles"])
        found = Found(
            chosen.blocked_by or "no-bundles", title, Verdict.NOT_INSTALLABLE, sentence, {}
        )
    return Prediction(path, found.verdict, (found,))


def _buckets(rows: list[Row]) -> tuple[Bucket, ...]:
    packages: dict[tuple[str, str, Verdict], list[str]] = defaultdict(list)
    for row in rows:
        deciding = row.prediction.deciding
        key = (
            (deciding.rule, deciding.title, deciding.verdict)
            if deciding
            else ("", "Installable", Verdict.INSTALLABLE)
        )
        packages[key].append(row.package)
    found = [Bucket(*key, tuple(names)) for key, names in packages.items()]
    return tuple(sorted(found, key=lambda each: (-len(each.packages), each.rule)))


def _actual(rows: list[Row], path: Path, cluster: Cluster) -> tuple[Actual, ...]:
    """Operators that came to an end, either way, and whose package has a verdict."""
    verdicts = {row.package: row.prediction for row in rows}
    operators = Operator.objects.filter(
        cluster=cluster, kind=KINDS[path], health__in=(*INSTALLED, *NOT_INSTALLED)
    ).order_by("namespace", "name")
    found = []
    for one in operators:
        prediction = verdicts.get(one.package)
        if prediction is None:
            continue
        expected = Verdict.INSTALLABLE if one.health in INSTALLED else Verdict.NOT_INSTALLABLE
        rule = prediction.deciding.rule if prediction.deciding else ""
        unknown = prediction.verdict == Verdict.UNKNOWN
        found.append(
            Actual(
                *(one.package, one.namespace, one.name, one.health, one.finding),
                *(prediction.verdict, rule, None if unknown else prediction.verdict == expected),
            )
        )
    order = (False, None, True)
    return tuple(
        sorted(found, key=lambda each: (order.index(each.agrees), each.package, each.name))
    )
