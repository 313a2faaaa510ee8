"""The stored verdict on the bundles that a form is about. Reads rows; runs no rule."""

from collections.abc import Collection

from catalogs.models import Bundle, Package
from catalogs.verdicts.engine import Path, Target
from catalogs.verdicts.stored import Predicted, verdicts
from olmweb.models import Cluster


def judged_target(targets: tuple[str, ...], namespace: str) -> Target | None:
    """Which of the judged OperatorGroups watches these namespaces (none: all); None for another."""
    if not targets:
        return Target.ALL
    return Target.OWN if targets == (namespace,) else None


def verdicts_on(
    cluster: Cluster,
    package: Package,
    names: Collection[str],
    path: str,
    target: Target | None = Target.ALL,
) -> dict[str, Predicted]:
    """Bundle name -> verdict for `path` (a kind) on the cluster; what was not judged is left out.

    Two queries.
    """
    if target is None or not names:
        return {}
    rows = Bundle.objects.filter(package=package, name__in=names).order_by("-version_key")
    ids: dict[str, int] = {}
    for name, pk in rows.values_list("name", "pk"):
        ids.setdefault(name, pk)
    found = verdicts(ids.values(), cluster.pk, target=target)
    way = Path(path.lower())
    return {name: found[pk][way] for name, pk in ids.items() if way in found.get(pk, {})}
