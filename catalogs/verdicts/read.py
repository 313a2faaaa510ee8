"""Reads stored verdicts for pages and the REST interface: one query, evaluates no rule.

`catalogs.verdicts.store` writes the rows. Knows no HTTP.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

from django.db.models import Q, QuerySet

from catalogs.install_methods import InstallMethod
from catalogs.models import Bundle, Package, Prediction, PredictionRun
from catalogs.verdicts.facts import WatchTarget
from catalogs.verdicts.rules import RuleResult, Verdict, title_of

# The evaluated install methods; a Subscription's OperatorGroup has two common targets.
METHOD_TARGETS = (
    (InstallMethod.PLATFORM_OPERATOR, WatchTarget.ALL),
    (InstallMethod.CLUSTER_EXTENSION, WatchTarget.ALL),
    (InstallMethod.SUBSCRIPTION, WatchTarget.ALL),
    (InstallMethod.SUBSCRIPTION, WatchTarget.OWN),
)
OPTIMISTIC = (Verdict.INSTALLABLE, Verdict.UNKNOWN, Verdict.NOT_INSTALLABLE)
TARGETS = (WatchTarget.ALL, WatchTarget.OWN)  # of the OperatorGroup that an install creates
ANY_TARGET = "any"  # in counts: the answer over TARGETS
INSTALL_MODE = "sub-install-mode"


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
class StoredVerdict:
    """The verdict on a bundle and install method. `rule` is the deciding rule, empty if
    installable; `sentence` is that of the worst result, also a warning, or empty; `results` are
    worst first. `notes` on the catalog are added by `catalogs.verdicts.catalog_health`; `bundle` is
    the name of the bundle in the verdicts on a package, empty if none would be chosen."""

    path: InstallMethod
    target: WatchTarget
    verdict: Verdict
    rule: str
    sentence: str
    results: tuple[RuleResult, ...]
    notes: tuple[RuleResult, ...] = ()
    bundle: str = ""

    @property
    def label(self) -> str:
        return method_label(self.path, self.target)

    @property
    def title(self) -> str:
        """The title of the deciding rule; empty if installable."""
        return title_of(self.rule) if self.rule else ""


def method_label(path: str, target: str) -> str:
    """The install method with the target of its OperatorGroup: Subscription (own namespace)."""
    return path + (" (own namespace)" if target == WatchTarget.OWN else "")


AnyVerdict = TypeVar("AnyVerdict", MethodVerdict, StoredVerdict, Prediction)


def over_targets(verdicts: Iterable[AnyVerdict]) -> list[AnyVerdict]:
    """The verdicts on one bundle by one install method, best first: it is installable if it is for
    any OperatorGroup in TARGETS. Of equal verdicts that for all namespaces comes first, unless it
    only says that the bundle lacks this install mode."""

    def rank(verdict: AnyVerdict) -> tuple[int, bool, int]:
        return (
            OPTIMISTIC.index(Verdict(verdict.verdict)),
            verdict.rule == INSTALL_MODE,
            TARGETS.index(WatchTarget(verdict.target)),
        )

    return sorted((row for row in verdicts if row.target in TARGETS), key=rank)


def offer_rank(verdict: Verdict, warns: bool, installs_head: bool) -> tuple[bool, bool, int, bool]:
    """The lower, the earlier an install method is offered: those first that can work, of these the
    ones that install the version that the page of the package shows, then the best verdict first,
    one with a warning last of its kind."""
    cannot = verdict == Verdict.NOT_INSTALLABLE
    return (cannot, not installs_head, OPTIMISTIC.index(verdict), warns)


def method_key(path: str, target: str) -> str:
    """The key of counts: the install method, with the target unless it is all namespaces."""
    return path if target == WatchTarget.ALL else f"{path}-{target}"


def verdicts(
    bundle_ids: Collection[int], cluster: int | None = None, *, target: WatchTarget | None = None
) -> dict[int, dict[InstallMethod, StoredVerdict]]:
    """Bundle key -> path -> verdict; `cluster` is a key, None for the catalog alone. Without
    `target` (the selection of a Subscription's OperatorGroup) the answer of `over_targets`. Bundles
    that were not evaluated are left out. One query."""
    rows = Prediction.objects.filter(bundle__in=bundle_ids)
    by_method: dict[tuple[int, InstallMethod], list[Prediction]] = defaultdict(list)
    for row in overlaid(rows, cluster, target):
        by_method[row.bundle_id or 0, InstallMethod(row.path)].append(row)
    result: dict[int, dict[InstallMethod, StoredVerdict]] = defaultdict(dict)
    for (bundle, path), targets in by_method.items():
        row = targets[0] if target else over_targets(targets)[0]
        result[bundle][path] = stored_verdict(row)
    return dict(result)


def verdicts_of(bundle: Bundle, cluster: int | None = None) -> list[StoredVerdict]:
    """The verdicts on a bundle by install method, those of one method as `over_targets` orders
    them; empty when it was not evaluated."""
    rows = overlaid(Prediction.objects.filter(bundle=bundle), cluster)
    return [stored_verdict(row) for row in _by_method(rows)]


def verdicts_on_package(package: Package, cluster: int | None = None) -> list[StoredVerdict]:
    """The verdicts on the bundles that the install methods choose without a requested channel or
    version, in the order of `verdicts_of`; empty when the package was not evaluated. One query."""
    chosen = Prediction.objects.filter(package=package, chosen=True).select_related("bundle")
    rows = {(row.path, row.target): row for row in overlaid(chosen, cluster)}
    return [
        replace(stored_verdict(row), bundle=row.bundle.name if row.bundle else "")
        for row in _by_method(rows.values())
    ]


def _by_method(rows: Collection[Prediction]) -> list[Prediction]:
    return [
        row
        for path in InstallMethod
        for row in over_targets(row for row in rows if row.path == path)
    ]


def chosen_rows(
    packages: QuerySet[Package],
    path: InstallMethod,
    cluster: int | None = None,
    target: WatchTarget | None = None,
) -> list[Prediction]:
    """The chosen bundle of each package for `path`, by name; for one target or all. One query."""
    rows = Prediction.objects.filter(package__in=packages, path=path.value, chosen=True)
    rows = rows.select_related("package", "bundle").order_by("package__name")
    return overlaid(rows, cluster, target)


def chosen_rows_by_method(
    packages: QuerySet[Package], cluster: int | None = None
) -> dict[InstallMethod, list[Prediction]]:
    """As `chosen_rows` for all targets, for each install method with verdicts; one query."""
    rows = Prediction.objects.filter(package__in=packages, chosen=True)
    rows = rows.select_related("package", "bundle").order_by("package__name")
    by_method: dict[InstallMethod, list[Prediction]] = defaultdict(list)
    for row in overlaid(rows, cluster):
        by_method[InstallMethod(row.path)].append(row)
    return by_method


def best_rows(rows: Iterable[Prediction]) -> list[Prediction]:
    """The answer of `over_targets` for each package of `chosen_rows`, in their order."""
    by_package: dict[int, list[Prediction]] = defaultdict(list)
    for row in rows:
        by_package[row.package_id].append(row)
    return [over_targets(targets)[0] for targets in by_package.values()]


def best_verdicts(package: Package, cluster: int | None = None) -> dict[InstallMethod, Verdict]:
    """The answer of `over_targets` for the chosen bundle of each install method; methods that were
    not evaluated are left out. One query."""
    by_method: dict[InstallMethod, list[Prediction]] = defaultdict(list)
    for row in overlaid(Prediction.objects.filter(package=package, chosen=True), cluster):
        by_method[InstallMethod(row.path)].append(row)
    return {path: Verdict(over_targets(rows)[0].verdict) for path, rows in by_method.items()}


def overlaid(
    rows: QuerySet[Prediction], cluster: int | None, target: WatchTarget | None = None
) -> list[Prediction]:
    """The rows of the catalog alone, replaced by those of the cluster where it has any. Empty for a
    catalog that was not evaluated for the cluster yet."""
    if target is not None:
        rows = rows.filter(Q(target=target.value) | ~Q(path=InstallMethod.SUBSCRIPTION.value))
    of = Q(cluster=None)
    if cluster is not None:
        evaluated = PredictionRun.objects.filter(cluster=cluster).values("catalog")
        rows = rows.filter(package__catalog__in=evaluated)
        of |= Q(cluster=cluster)
    result: dict[tuple[Any, ...], Prediction] = {}
    for row in rows.filter(of):
        key = (row.package_id, row.bundle_id, row.path, row.target)
        if row.cluster_id is not None or key not in result:
            result[key] = row  # a key that is there keeps its place in the order
    return list(result.values())


def stored_verdict(row: Prediction) -> StoredVerdict:
    results: list[Mapping[str, str]] = row.results
    return StoredVerdict(
        InstallMethod(row.path),
        WatchTarget(row.target),
        Verdict(row.verdict),
        row.rule,
        row.sentence,
        tuple(
            RuleResult(result["rule"], Verdict(result["verdict"]), result["sentence"])
            for result in results
        ),
    )
