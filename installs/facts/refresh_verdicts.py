"""Keeps the stored predictions true: when catalogs, clusters or the rules changed, and only then.

Brings facts of clusters to `catalogs.verdicts.store`, which writes the rows; remembers by a hash
what they were made of. For tasks and commands. Pages read by `verdicts`, which runs no rule.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Any

from django.db.models import Q
from django.utils import timezone

from catalogs.contents.stored import inspected_in
from catalogs.models import Catalog, PredictionRun
from catalogs.verdicts import RULES_VERSION, ClusterFacts
from catalogs.verdicts.facts import NO_CLUSTER
from catalogs.verdicts.read import StoredVerdict, verdicts, verdicts_of
from catalogs.verdicts.store import Judged, Place, judge
from installs.facts.cluster import awaited
from installs.facts.verdict_context import cluster_facts, market_of
from installs.state.catalog_offers import usable_catalogs
from olmweb.clusters import NOT_CONFIGURED
from olmweb.models import Cluster

__all__ = ["StoredVerdict", "refresh", "refresh_all", "verdicts", "verdicts_of"]

JUDGED_BY = 5  # grows when code that judges changes without a new version of the rules
KEPT_RUNS = 200  # of one catalog and cluster


def clusters_of(catalog: Catalog) -> list[Cluster]:
    """Clusters whose facts the catalog is judged by: its own, or all where it is of none. Those
    that are read for the first time wait."""
    of = Cluster.objects.exclude(error_code=NOT_CONFIGURED).filter(synced_at__isnull=False)
    of = of.exclude(awaited())
    return list(of.filter(pk=catalog.cluster_id) if catalog.cluster_id else of)


def refresh_all(still_ours: Callable[[], bool] = lambda: True) -> int:
    """Refreshes every catalog whose predictions are not what they would be now; rows written."""
    facts: dict[int, ClusterFacts] = {}
    written = 0
    for catalog in Catalog.objects.filter(revision__gt=0).select_related("cluster"):
        if not still_ours():
            break
        done = refresh(catalog, facts=facts)
        written += done.written if done else 0
    return written


def refresh(
    catalog: Catalog,
    clusters: Sequence[Cluster] | None = None,
    *,
    facts: dict[int, ClusterFacts] | None = None,
) -> Judged | None:
    """Judges the catalog, alone and for `clusters` (None: `clusters_of`), if anything changed.

    None when nothing did. `facts` keeps what was read of clusters for the next catalog. A pass
    that is killed leaves rows and no run, so that it is made again.
    """
    catalog.refresh_from_db()
    known = {} if facts is None else facts
    asked: dict[int | None, ClusterFacts] = {None: NO_CLUSTER}
    rows: dict[int | None, Cluster | None] = {None: None}
    for each in clusters_of(catalog) if clusters is None else clusters:
        if each.pk not in known:
            known[each.pk] = cluster_facts(each)
        asked[each.pk], rows[each.pk] = known[each.pk], each
    inputs = {pk: _inputs(catalog, each, pk) for pk, each in asked.items()}
    before = _latest(catalog)
    due = [pk for pk in asked if pk not in before or before[pk].inputs != inputs[pk]]
    if not due:
        return None
    places = [Place(None, NO_CLUSTER, market_of(catalog, None))]
    places += [Place(pk, asked[pk], market_of(catalog, rows[pk])) for pk in due if pk is not None]
    judged = judge(catalog, places)
    for pk in due:
        _record(catalog, pk, inputs[pk], judged, before.get(pk))
    return judged


def _latest(catalog: Catalog) -> dict[int | None, PredictionRun]:
    runs = PredictionRun.objects.filter(catalog=catalog).order_by("id")
    return {run.cluster_id: run for run in runs}


def _inputs(catalog: Catalog, facts: ClusterFacts, cluster_id: int | None) -> str:
    """A hash of everything that the verdicts depend on."""
    others = usable_catalogs(cluster_id) if cluster_id is not None else Q(pk__in=())
    offered = Catalog.objects.filter(others | Q(pk=catalog.pk)).order_by("id")
    fields = ("id", "content_hash", "derivation", "changed_at", "priority", "availability")
    stamps = offered.values_list(*fields)
    told = [
        (JUDGED_BY, RULES_VERSION),
        [[str(part) for part in stamp] for stamp in stamps],
        inspected_in(catalog),
        sorted(facts.served) if facts.served is not None else None,
        sorted(facts.namespaces.items()) if facts.namespaces is not None else None,
        sorted(facts.roles.items()) if facts.roles is not None else None,
        facts.shared,
        _crds(facts),
        [str(facts.kube_version), str(facts.openshift_version)],
        sorted(
            (one.kind, one.namespace, one.name, one.package, one.bundle) for one in facts.installed
        ),
        sorted((one.namespace, one.name, sorted(one.selects)) for one in facts.groups),
        sorted(facts.apis.items()),
        sorted(facts.foreign_apis) if facts.foreign_apis is not None else None,
        sorted(facts.gates.items()) if facts.gates is not None else None,
    ]
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def _crds(facts: ClusterFacts) -> list[Any] | None:
    if facts.crds is None:
        return None
    return [
        [
            name,
            sorted(crd.served),
            sorted(crd.stored),
            crd.owner_kind,
            crd.owner_namespace,
            crd.owner,
            crd.objects,
        ]
        for name, crd in sorted(facts.crds.items())
    ]


def _record(
    catalog: Catalog,
    cluster_id: int | None,
    inputs: str,
    judged: Judged,
    before: PredictionRun | None,
) -> None:
    counts = {way: dict(found) for way, found in judged.counts[cluster_id].items()}
    told = {"revision": catalog.revision, "rules_version": RULES_VERSION, "counts": counts}
    if before is not None and all(getattr(before, name) == value for name, value in told.items()):
        PredictionRun.objects.filter(pk=before.pk).update(inputs=inputs, judged_at=timezone.now())
        return
    PredictionRun.objects.create(catalog=catalog, cluster_id=cluster_id, inputs=inputs, **told)
    _forget(PredictionRun.objects.filter(catalog=catalog, cluster=cluster_id))


def _forget(runs: Any) -> None:
    old = list(runs.order_by("-id").values_list("id", flat=True)[KEPT_RUNS:])
    PredictionRun.objects.filter(pk__in=old).delete()
