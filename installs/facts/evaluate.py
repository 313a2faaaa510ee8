"""Evaluates the verdicts of catalogs again when a catalog, a cluster or the rules changed.

Passes the facts of clusters to `catalogs.verdicts.store`, which writes the rows, and stores a hash
of the inputs with each run. For tasks and commands; pages read with `verdicts`, which runs no rule.
"""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence

import msgspec
from django.db.models import Max, QuerySet
from django.utils import timezone

from catalogs.contents.stored import inspected_by_catalog
from catalogs.install_methods import InstallMethod
from catalogs.models import Bundle, Catalog, Package, PredictionRun
from catalogs.resolve.stored import full_catalogs
from catalogs.verdicts.facts import NO_CLUSTER, ClusterFacts, OperatorGroupFacts, WatchTarget
from catalogs.verdicts.read import StoredVerdict, verdicts
from catalogs.verdicts.rules import RULES_VERSION
from catalogs.verdicts.store import (
    EvaluationSummary,
    VerdictContext,
    evaluate_bundle,
    evaluate_catalog,
)
from installs.facts.cluster_facts import Contents, cluster_facts, market_of
from installs.facts.inventory import awaited
from installs.state.catalog_offers import is_usable
from olmweb.models import Cluster, configured_clusters
from olmweb.runtime.leases import fenced_transaction

EVALUATOR_VERSION = 6  # increase when the evaluation changes but not the rules
_EVALUATOR = f"{EVALUATOR_VERSION}-"  # begins the hash of inputs
STORED_RUNS = 200  # of one catalog and cluster
_STAMP = ("pk", "content_hash", "derivation", "changed_at", "priority", "availability")


class EvaluationInputs:
    """The inputs of verdicts, read once for many catalogs and clusters.

    A pass every few seconds compares them with those of the last verdicts, so the number of its
    queries must not grow with catalogs times clusters. What changes after it was read is an input
    of the next pass.
    """

    def __init__(self) -> None:
        self.contents: Contents = {}  # of catalogs
        self._catalogs = list(Catalog.objects.order_by("id").select_related("cluster"))
        self._by_name: dict[tuple[int | None, str], list[Catalog]] = defaultdict(list)
        for row in self._catalogs:
            self._by_name[row.cluster_id, row.name].append(row)
        self._inspected = inspected_by_catalog()
        self._usable: dict[int | None, str] = {None: ""}  # hashes
        self._facts: dict[int | None, tuple[ClusterFacts, str]] = {}  # with their hashes

    def facts_of(self, cluster: Cluster | None) -> ClusterFacts:
        """The first call with a cluster takes the queries of `cluster_facts`."""
        return self._read_facts(cluster)[0]

    def hash_of(self, catalog: Catalog, cluster: Cluster | None) -> str:
        """A hash of everything that the verdicts on the catalog depend on, for the cluster or from
        the catalog alone. No query but those of the facts."""
        of_name = self._by_name[catalog.cluster_id, catalog.name]
        own = [catalog, *full_catalogs(catalog, of_name)]
        content = [(_stamp(row), self._inspected.get(row.pk, ())) for row in own]
        usable, facts = self._hash_of_usable(cluster), self._read_facts(cluster)[1]
        return _EVALUATOR + _hash((RULES_VERSION, content, usable, facts))

    def outdated(self) -> list[tuple[Catalog, list[Cluster]]]:
        """The catalogs with content whose verdicts were made from other inputs, with the clusters
        that they are evaluated for. Two queries, and those of the facts."""
        clusters = list(evaluated_clusters())
        runs = _latest_runs().values_list("catalog", "cluster", "inputs")
        stored: dict[tuple[int, int | None], str] = {(run[0], run[1]): run[2] for run in runs}
        outdated = []
        for catalog in self._catalogs:
            evaluated = [row for row in clusters if catalog.cluster_id in (None, row.pk)]
            if catalog.revision and any(
                stored.get((catalog.pk, row.pk if row else None)) != self.hash_of(catalog, row)
                for row in (None, *evaluated)
            ):
                outdated.append((catalog, evaluated))
        return outdated

    def _read_facts(self, cluster: Cluster | None) -> tuple[ClusterFacts, str]:
        pk = cluster.pk if cluster else None
        if pk not in self._facts:
            facts = cluster_facts(cluster) if cluster else NO_CLUSTER
            self._facts[pk] = facts, _hash(facts)
        return self._facts[pk]

    def _hash_of_usable(self, cluster: Cluster | None) -> str:
        pk = cluster.pk if cluster else None
        if pk is not None and pk not in self._usable:
            usable = [_stamp(row) for row in self._catalogs if is_usable(row, pk)]
            self._usable[pk] = _hash(usable)
        return self._usable[pk]


def _stamp(catalog: Catalog) -> list[object]:
    return [getattr(catalog, name) for name in _STAMP]


def _hash(values: object) -> str:
    encoded = msgspec.json.encode(values, order="deterministic")
    return hashlib.sha256(encoded).hexdigest()[: 64 - len(_EVALUATOR)]


def evaluated_clusters() -> QuerySet[Cluster]:
    """The clusters that catalogs are evaluated for. Excludes those whose first reading is still
    expected."""
    synced = Cluster.objects.filter(configured_clusters(), synced_at__isnull=False)
    return synced.exclude(awaited())


def refresh_all(still_ours: Callable[[], bool] = lambda: True) -> int:
    """Refreshes every catalog with outdated verdicts; returns the number of rows written."""
    inputs = EvaluationInputs()
    written = 0
    for catalog, clusters in inputs.outdated():
        if not still_ours():
            break
        done = refresh(catalog, clusters, inputs)
        written += done.written if done else 0
    return written


def refresh(
    catalog: Catalog,
    clusters: Sequence[Cluster] | None = None,
    inputs: EvaluationInputs | None = None,
) -> EvaluationSummary | None:
    """Evaluates the catalog, alone and for `clusters` (None: its own, or all of
    `evaluated_clusters` for a catalog of no cluster), if an input changed.

    Returns None if no input changed. A killed pass leaves runs without the hash of their inputs,
    so the next pass evaluates the catalog again and counts the verdicts as changed, whichever of
    the two wrote them; likewise after a pass of another version, which does not record what it
    changed.
    """
    catalog.refresh_from_db()
    inputs = EvaluationInputs() if inputs is None else inputs
    if clusters is None:
        evaluated = evaluated_clusters()
        if catalog.cluster_id:
            evaluated = evaluated.filter(pk=catalog.cluster_id)
        clusters = list(evaluated)
    rows: dict[int | None, Cluster | None] = {None: None} | {row.pk: row for row in clusters}
    hashes = {pk: inputs.hash_of(catalog, row) for pk, row in rows.items()}
    before = {run.cluster_id: run for run in _latest_runs(catalog=catalog)}
    due = [pk for pk in rows if pk not in before or before[pk].inputs != hashes[pk]]
    if not due:
        return None
    due = [*dict.fromkeys((None, *due))]  # the verdicts from the catalog alone are written, too
    contexts = [
        VerdictContext(pk, inputs.facts_of(rows[pk]), market_of(catalog, rows[pk], inputs.contents))
        for pk in due
    ]
    stored = [before[pk].pk for pk in due if pk in before]
    with fenced_transaction():
        PredictionRun.objects.filter(pk__in=stored).update(inputs="")
    summary = evaluate_catalog(catalog, contexts)
    with fenced_transaction():
        for pk in due:
            _record(catalog, pk, hashes[pk], summary, before.get(pk))
    return summary


def _latest_runs(**filters: object) -> QuerySet[PredictionRun]:
    """The newest run of each catalog and cluster that pass the filters."""
    runs = PredictionRun.objects.filter(**filters).order_by().values("catalog", "cluster")
    return PredictionRun.objects.filter(pk__in=runs.annotate(newest=Max("pk")).values("newest"))


def _record(
    catalog: Catalog,
    cluster_id: int | None,
    inputs: str,
    summary: EvaluationSummary,
    before: PredictionRun | None,
) -> None:
    counts = {method: dict(verdicts) for method, verdicts in summary.counts[cluster_id].items()}
    values = {"revision": catalog.revision, "rules_version": RULES_VERSION, "counts": counts}
    if before is not None and all(getattr(before, name) == value for name, value in values.items()):
        now = timezone.now()
        changed = summary.written_for[cluster_id] or not before.inputs.startswith(_EVALUATOR)
        times = {"evaluated_at": now} | ({"changed_at": now} if changed else {})
        PredictionRun.objects.filter(pk=before.pk).update(inputs=inputs, **times)
        return
    PredictionRun.objects.create(catalog=catalog, cluster_id=cluster_id, inputs=inputs, **values)
    runs = PredictionRun.objects.filter(catalog=catalog, cluster=cluster_id).order_by("-id")
    old = list(runs.values_list("id", flat=True)[STORED_RUNS:])
    PredictionRun.objects.filter(pk__in=old).delete()


# -- verdicts of a form ----------------------------------------------------------------------------


def target_of(namespaces: tuple[str, ...], namespace: str) -> WatchTarget:
    """The target of an OperatorGroup in `namespace` that selects `namespaces` (none: all)."""
    return (
        OperatorGroupFacts(namespace, "", frozenset(namespaces or ("",))).target or WatchTarget.ALL
    )


def verdict_for(
    cluster: Cluster, package: Package, bundle: str, path: str, target: WatchTarget
) -> StoredVerdict | None:
    """The verdict for `path` (a kind) on one bundle; None when it was not evaluated yet.

    Two queries for a stored verdict. Verdicts for OperatorGroups that select single or several
    namespaces are stored only where the cluster has such a group; else the bundle is evaluated
    now, in some fifteen queries.
    """
    stored = verdicts_on(cluster, package, [bundle], path, target).get(bundle)
    if stored is not None or target in (WatchTarget.ALL, WatchTarget.OWN):
        return stored
    row = package.bundles.filter(name=bundle).order_by("-version_key").first()
    if row is None:
        return None
    context = VerdictContext(
        cluster.pk, cluster_facts(cluster), market_of(package.catalog, cluster)
    )
    return evaluate_bundle(row, context, InstallMethod(path), target)


def verdicts_on(
    cluster: Cluster,
    package: Package,
    names: Collection[str],
    path: str,
    target: WatchTarget = WatchTarget.ALL,
) -> dict[str, StoredVerdict]:
    """Bundle name -> stored verdict for `path` (a kind) on the cluster; bundles that were not
    evaluated are left out. Two queries."""
    if not names:
        return {}
    rows = Bundle.objects.filter(package=package, name__in=names).order_by("version_key")
    ids = dict(rows.values_list("name", "pk"))  # of one name the highest version
    stored = verdicts(ids.values(), cluster.pk, target=target)
    method = InstallMethod(path)
    return {name: stored[pk][method] for name, pk in ids.items() if method in stored.get(pk, {})}
