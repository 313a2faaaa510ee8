"""Evaluates the verdicts of catalogs again when a catalog, a cluster or the rules changed.

Passes the facts of clusters to `catalogs.verdicts.store`, which writes the rows, and stores a hash
of the inputs with each run. For tasks and commands; pages read with `verdicts`, which runs no rule.
"""

import hashlib
from collections.abc import Callable, Collection, Sequence

import msgspec
from django.db.models import Q
from django.utils import timezone

from catalogs.contents.stored import inspected_in
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
from installs.state.catalog_offers import usable_catalogs
from olmweb.models import Cluster, configured_clusters
from olmweb.runtime.leases import fenced_transaction

EVALUATOR_VERSION = 6  # increase when the evaluation changes but not the rules
_EVALUATOR = f"{EVALUATOR_VERSION}-"  # begins the hash of inputs
STORED_RUNS = 200  # of one catalog and cluster


def clusters_of(catalog: Catalog) -> list[Cluster]:
    """The clusters that the catalog is evaluated for: its own, or all for a catalog of no cluster.
    Excludes clusters whose first reading is still expected."""
    of = Cluster.objects.filter(configured_clusters(), synced_at__isnull=False)
    of = of.exclude(awaited())
    return list(of.filter(pk=catalog.cluster_id) if catalog.cluster_id else of)


def refresh_all(still_ours: Callable[[], bool] = lambda: True) -> int:
    """Refreshes every catalog with outdated verdicts; returns the number of rows written."""
    facts: dict[int, ClusterFacts] = {}
    contents: Contents = {}
    written = 0
    for catalog in Catalog.objects.filter(revision__gt=0).select_related("cluster"):
        if not still_ours():
            break
        done = refresh(catalog, facts=facts, contents=contents)
        written += done.written if done else 0
    return written


def refresh(
    catalog: Catalog,
    clusters: Sequence[Cluster] | None = None,
    *,
    facts: dict[int, ClusterFacts] | None = None,
    contents: Contents | None = None,
) -> EvaluationSummary | None:
    """Evaluates the catalog, alone and for `clusters` (None: `clusters_of`), if an input changed.

    Returns None if no input changed. `facts` caches cluster facts by key between catalogs,
    `contents` the content of catalogs. A killed pass leaves runs without the hash of their inputs,
    so the next pass evaluates the catalog again and counts the verdicts as changed, whichever of
    the two wrote them; likewise after a pass of another version, which does not record what it
    changed.
    """
    catalog.refresh_from_db()
    facts_by_cluster = {} if facts is None else facts
    all_facts: dict[int | None, ClusterFacts] = {None: NO_CLUSTER}
    rows: dict[int | None, Cluster | None] = {None: None}
    for cluster in clusters_of(catalog) if clusters is None else clusters:
        if cluster.pk not in facts_by_cluster:
            facts_by_cluster[cluster.pk] = cluster_facts(cluster)
        all_facts[cluster.pk], rows[cluster.pk] = facts_by_cluster[cluster.pk], cluster
    inputs = {pk: _inputs(catalog, its_facts, pk) for pk, its_facts in all_facts.items()}
    runs = PredictionRun.objects.filter(catalog=catalog).order_by("id")
    before = {run.cluster_id: run for run in runs}
    due = [pk for pk in all_facts if pk not in before or before[pk].inputs != inputs[pk]]
    if not due:
        return None
    due = [*dict.fromkeys((None, *due))]  # the verdicts from the catalog alone are written, too
    contents = {} if contents is None else contents
    contexts = [
        VerdictContext(pk, all_facts[pk], market_of(catalog, rows[pk], contents)) for pk in due
    ]
    stored = [before[pk].pk for pk in due if pk in before]
    with fenced_transaction():
        PredictionRun.objects.filter(pk__in=stored).update(inputs="")
    summary = evaluate_catalog(catalog, contexts)
    with fenced_transaction():
        for pk in due:
            _record(catalog, pk, inputs[pk], summary, before.get(pk))
    return summary


def _inputs(catalog: Catalog, facts: ClusterFacts, cluster_id: int | None) -> str:
    """A hash of everything that the verdicts depend on."""
    own = [catalog, *full_catalogs(catalog)]
    others = usable_catalogs(cluster_id) if cluster_id is not None else Q(pk__in=())
    offered = Catalog.objects.filter(Q(pk__in=[row.pk for row in own]) | others).order_by("id")
    fields = ("id", "content_hash", "derivation", "changed_at", "priority", "availability")
    stamps = offered.values_list(*fields)
    content = (RULES_VERSION, list(stamps), inspected_in(own), facts)
    encoded = msgspec.json.encode(content, order="deterministic")
    return _EVALUATOR + hashlib.sha256(encoded).hexdigest()[: 64 - len(_EVALUATOR)]


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
