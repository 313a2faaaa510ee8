"""Predictions as they are stored, for pages and the REST interface: one query, no rule is run.

`catalogs.verdicts.store` wrote the rows. Knows no HTTP.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

from django.db.models import Q, QuerySet

from catalogs.install_methods import InstallMethod
from catalogs.models import Bundle, Package, Prediction, PredictionRun
from catalogs.verdicts import RULES, Target, Verdict

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


OPTIMISTIC = (Verdict.INSTALLABLE, Verdict.UNKNOWN, Verdict.NOT_INSTALLABLE)
TARGETS = (Target.ALL, Target.OWN)  # of the OperatorGroup that an install brings along
ANY_TARGET = "any"  # in counts: the answer over TARGETS
INSTALL_MODE = "sub-install-mode"


class TargetVerdict(Protocol):
    @property
    def verdict(self) -> str: ...
    @property
    def rule(self) -> str: ...
    @property
    def target(self) -> str: ...


AnyVerdict = TypeVar("AnyVerdict", bound=TargetVerdict)


class MethodVerdict(NamedTuple):
    """The verdict on a package by one install method, in the least memory."""

    path: str
    target: str
    verdict: str
    rule: str

    @property
    def label(self) -> str:
        return method_label(self.path, self.target)


@dataclass(frozen=True, slots=True)
class StoredRuleResult:
    """What one rule says."""

    rule: str
    verdict: Verdict
    sentence: str

    @property
    def title(self) -> str:
        return title_of(self.rule)


@dataclass(frozen=True, slots=True)
class StoredVerdict:
    """The verdict on a bundle and path. `rule` decides, empty for an installable one; `sentence`
    is the worst rule's, a warning's too, or empty; `found` has all rules, worst first. `notes` are
    of the catalog, where they were asked for: see `catalogs.verdicts.catalog_health`."""

    path: InstallMethod
    target: Target
    verdict: Verdict
    rule: str
    sentence: str
    found: tuple[StoredRuleResult, ...]
    notes: tuple[StoredRuleResult, ...] = ()

    @property
    def label(self) -> str:
        return method_label(self.path, self.target)

    @property
    def title(self) -> str:
        """Of the deciding rule, in a few words; empty for an installable one."""
        return title_of(self.rule) if self.rule else ""

    @property
    def warned(self) -> bool:
        return self.verdict == Verdict.INSTALLABLE and bool(self.found)


def title_of(rule: str) -> str:
    return TITLES.get(rule, NO_CHOICE)


def method_label(path: str, target: str) -> str:
    """The kind that installs by this path, and for which OperatorGroup: Subscription (own
    namespace)."""
    return path + (" (own namespace)" if target == Target.OWN else "")


def over_targets(verdicts: Iterable[AnyVerdict]) -> list[AnyVerdict]:
    """The verdicts on one bundle by one install method, of which the first is the answer for the
    method: it is installable if it is for any OperatorGroup in TARGETS.

    Of equal verdicts that for all namespaces comes first, unless the bundle lacks that install
    mode: the other then has the reason that counts.
    """

    def rank(verdict: AnyVerdict) -> tuple[int, bool, int]:
        return (
            OPTIMISTIC.index(Verdict(verdict.verdict)),
            verdict.rule == INSTALL_MODE,
            TARGETS.index(Target(verdict.target)),
        )

    return sorted((row for row in verdicts if row.target in TARGETS), key=rank)


def way_key(path: str, target: str) -> str:
    """Names a way in counts: the path, with another target than all namespaces that one, too."""
    return path if target == Target.ALL else f"{path}-{target}"


def verdicts(
    bundle_ids: Collection[int], cluster: int | None = None, *, target: Target | None = None
) -> dict[int, dict[InstallMethod, StoredVerdict]]:
    """Bundle key -> path -> verdict; `cluster` is a key, None: from the catalog alone.

    Bundles that were not evaluated yet are left out. `target` is what the OperatorGroup of a
    Subscription selects; None: the answer of `over_targets`. One query.
    """
    rows = Prediction.objects.filter(bundle__in=bundle_ids)
    by_method: dict[tuple[int, InstallMethod], list[Prediction]] = defaultdict(list)
    for row in overlaid(rows, cluster, target):
        by_method[row.bundle_id or 0, InstallMethod(row.path)].append(row)
    result: dict[int, dict[InstallMethod, StoredVerdict]] = defaultdict(dict)
    for (bundle, path), targets in by_method.items():
        row = targets[0] if target else over_targets(targets)[0]
        result[bundle][path] = predicted(row)
    return dict(result)


def verdicts_of(bundle: Bundle, cluster: int | None = None) -> list[StoredVerdict]:
    """The verdicts on a bundle by install method, those of one method as `over_targets` orders
    them; empty when it was not evaluated."""
    rows = overlaid(Prediction.objects.filter(bundle=bundle), cluster)
    return [
        predicted(row)
        for path in InstallMethod
        for row in over_targets(row for row in rows if row.path == path)
    ]


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


def best_rows(rows: Iterable[Prediction]) -> list[Prediction]:
    """Of `chosen_rows` for all targets the answer for each package, in their order."""
    by_package: dict[int, list[Prediction]] = defaultdict(list)
    for row in rows:
        by_package[row.package_id].append(row)
    return [over_targets(targets)[0] for targets in by_package.values()]


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


def predicted(row: Prediction) -> StoredVerdict:
    found: list[Mapping[str, str]] = row.found
    return StoredVerdict(
        InstallMethod(row.path),
        Target(row.target),
        Verdict(row.verdict),
        row.rule,
        row.sentence,
        tuple(
            StoredRuleResult(one["rule"], Verdict(one["verdict"]), one["sentence"]) for one in found
        ),
    )
