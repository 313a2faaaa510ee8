"""Predictions as they are stored, for pages and the REST interface: one query, no rule is run.

`catalogs.verdicts.evaluate` wrote the rows. Knows no HTTP.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import Q, QuerySet

from catalogs.install_methods import InstallMethod
from catalogs.models import Bundle, Package, Prediction, PredictionRun
from catalogs.verdicts.engine import RULES, Target, Verdict

# In what ways a bundle can be installed: a Subscription's OperatorGroup has two common targets.
WAYS = (
    (InstallMethod.PLATFORM_OPERATOR, Target.ALL),
    (InstallMethod.CLUSTER_EXTENSION, Target.ALL),
    (InstallMethod.SUBSCRIPTION, Target.ALL),
    (InstallMethod.SUBSCRIPTION, Target.OWN),
)
NOT_READ = "not-read"
TITLES = {rule.id: rule.title for rule in RULES} | {
    NOT_READ: "Not readable in the catalog",
    "channel-graph": "The upgrade graph of its channel is broken",
}
NO_CHOICE = "No bundle to choose"


@dataclass(frozen=True, slots=True)
class Said:
    """What one rule says."""

    rule: str
    verdict: Verdict
    sentence: str

    @property
    def title(self) -> str:
        return title_of(self.rule)


@dataclass(frozen=True, slots=True)
class Predicted:
    """The verdict on a bundle and path. `rule` decides, empty for an installable one; `sentence`
    is the worst rule's, a warning's too, or empty; `found` has all rules, worst first. `notes` are
    of the catalog, where they were asked for: see `catalogs.verdicts.catalog_health`."""

    path: InstallMethod
    target: Target
    verdict: Verdict
    rule: str
    sentence: str
    found: tuple[Said, ...]
    notes: tuple[Said, ...] = ()

    @property
    def title(self) -> str:
        """Of the deciding rule, in a few words; empty for an installable one."""
        return title_of(self.rule) if self.rule else ""

    @property
    def warned(self) -> bool:
        return self.verdict == Verdict.INSTALLABLE and bool(self.found)


def title_of(rule: str) -> str:
    return TITLES.get(rule, NO_CHOICE)


def way_key(path: str, target: str) -> str:
    """Names a way in counts: the path, with another target than all namespaces that one, too."""
    return path if target == Target.ALL else f"{path}-{target}"


def verdicts(
    bundle_ids: Collection[int], cluster: int | None = None, *, target: Target = Target.ALL
) -> dict[int, dict[InstallMethod, Predicted]]:
    """Bundle key -> path -> verdict; `cluster` is a key, None: from the catalog alone.

    Bundles that were not judged yet are left out. `target` is what the OperatorGroup of a
    Subscription selects. One query.
    """
    rows = Prediction.objects.filter(bundle__in=bundle_ids)
    found: dict[int, dict[InstallMethod, Predicted]] = defaultdict(dict)
    for row in overlaid(rows, cluster, target):
        found[row.bundle_id or 0][InstallMethod(row.path)] = predicted(row)
    return dict(found)


def verdicts_of(bundle: Bundle, cluster: int | None = None) -> list[Predicted]:
    """The verdict on a bundle in every way, in the order of WAYS; empty when it was not judged."""
    rows = overlaid(Prediction.objects.filter(bundle=bundle), cluster)
    by_way = {(row.path, row.target): predicted(row) for row in rows}
    return [by_way[way] for way in WAYS if way in by_way]


def chosen_rows(
    packages: QuerySet[Package],
    path: InstallMethod,
    cluster: int | None = None,
    target: Target | None = None,
) -> list[Prediction]:
    """What `path` would take of each of these packages, by name; for one target or all of them.

    One query.
    """
    rows = Prediction.objects.filter(package__in=packages, path=path.value, chosen=True)
    rows = rows.select_related("package", "bundle").order_by("package__name")
    return overlaid(rows, cluster, target)


def overlaid(
    rows: QuerySet[Prediction], cluster: int | None, target: Target | None = None
) -> list[Prediction]:
    """The rows of the catalog alone, with those of the cluster in place of theirs. None of a
    catalog that was not judged for the cluster yet: by itself it would speak for what it does not
    know."""
    if target is not None:
        rows = rows.filter(Q(target=target.value) | ~Q(path=InstallMethod.SUBSCRIPTION.value))
    of = Q(cluster=None)
    if cluster is not None:
        judged = PredictionRun.objects.filter(cluster=cluster).values("catalog")
        rows = rows.filter(package__catalog__in=judged)
        of |= Q(cluster=cluster)
    found: dict[tuple[Any, ...], Prediction] = {}
    for row in rows.filter(of):
        key = (row.package_id, row.bundle_id, row.path, row.target)
        if row.cluster_id is not None or key not in found:
            found[key] = row  # a key that is there keeps its place in the order
    return list(found.values())


def predicted(row: Prediction) -> Predicted:
    found: list[Mapping[str, str]] = row.found
    return Predicted(
        InstallMethod(row.path),
        Target(row.target),
        Verdict(row.verdict),
        row.rule,
        row.sentence,
        tuple(Said(one["rule"], Verdict(one["verdict"]), one["sentence"]) for one in found),
    )
