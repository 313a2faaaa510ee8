"""The verdicts on the bundles of a form: stored rows, or an evaluation at request time."""

from collections.abc import Collection

from catalogs.install_methods import InstallMethod
from catalogs.models import Bundle, Package
from catalogs.verdicts.facts import OperatorGroupFacts, WatchTarget
from catalogs.verdicts.read import StoredVerdict, verdicts
from catalogs.verdicts.store import VerdictContext, evaluate_bundle
from installs.facts.verdict_context import cluster_facts, market_of
from olmweb.models import Cluster


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
    rows = Bundle.objects.filter(package=package, name__in=names).order_by("-version_key")
    ids: dict[str, int] = {}
    for name, pk in rows.values_list("name", "pk"):
        ids.setdefault(name, pk)
    stored = verdicts(ids.values(), cluster.pk, target=target)
    method = InstallMethod(path)
    return {name: stored[pk][method] for name, pk in ids.items() if method in stored.get(pk, {})}
