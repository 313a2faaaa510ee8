"""Checks of a Subscription's namespace that hold for every bundle: OperatorGroups, CatalogSources.

Reads stored objects, three queries for all namespaces of a cluster. The rules are those of
`catalogs.verdicts`.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from catalogs.install_methods import InstallMethod
from catalogs.verdicts.catalog_health import stored_result
from catalogs.verdicts.evaluate import check_health
from catalogs.verdicts.facts import OperatorGroupFacts, WatchTarget
from catalogs.verdicts.health_checks import CATALOG_SOURCE, CheckedCatalog, HealthContext
from catalogs.verdicts.read import StoredRuleResult, StoredVerdict
from catalogs.verdicts.rules import Scope, Verdict
from installs.facts.cluster_facts import groups_of
from installs.models import Component
from olmweb.models import Cluster

READY = "READY"


@dataclass(frozen=True, slots=True)
class NamespaceCheck:
    """The result for one namespace.

    `target` is None unless exactly one OperatorGroup exists and selects a namespace. `blocker`
    prevents every install in the namespace; `notes` change no verdict.
    """

    namespace: str
    groups: tuple[OperatorGroupFacts, ...] = ()
    target: WatchTarget | None = None
    blocker: StoredRuleResult | None = None
    notes: tuple[StoredRuleResult, ...] = ()

    def apply_to(self, verdict: StoredVerdict) -> StoredVerdict:
        """The verdict on a bundle, overridden by the blocker of the namespace."""
        if self.blocker is None:
            return verdict
        return replace(
            verdict,
            verdict=self.blocker.verdict,
            rule=self.blocker.rule,
            sentence=self.blocker.sentence,
            results=(self.blocker, *verdict.results),
        )


UNCHECKED = NamespaceCheck("")
NO_CATALOG = CheckedCatalog()


@dataclass
class NamespaceChecks:
    """Checks the namespaces of a cluster; its objects are read on first use. `catalog` is the
    catalog to install from, where that matters."""

    cluster: Cluster
    catalog: CheckedCatalog = NO_CATALOG
    _checks: dict[str, NamespaceCheck] = field(default_factory=dict)

    @cached_property
    def groups(self) -> Mapping[str, tuple[OperatorGroupFacts, ...]]:
        by_namespace: dict[str, list[OperatorGroupFacts]] = defaultdict(list)
        for group in groups_of(self.cluster):
            by_namespace[group.namespace].append(group)
        return {namespace: tuple(groups) for namespace, groups in by_namespace.items()}

    @cached_property
    def _groups_listed(self) -> bool:
        """Whether the cluster's OperatorGroups were ever listed: before that, a missing group is
        no finding."""
        watches = self.cluster.watches.filter(kind="OperatorGroup", listed_at__isnull=False)
        return watches.exists()

    @cached_property
    def _sources(self) -> tuple[CheckedCatalog, ...]:
        """The CatalogSources. A source without a connection state yet counts as not answering."""
        rows = Component.objects.filter(cluster=self.cluster, kind=CATALOG_SOURCE)
        states = rows.order_by("namespace", "name").values_list("namespace", "name", "details")
        sources = []
        for namespace, name, details in states:
            state = details.get("state") or "no connection yet"
            trouble = "" if state == READY else state
            sources.append(CheckedCatalog(CATALOG_SOURCE, namespace, name, trouble=trouble))
        return tuple(sources)

    def of(self, namespace: str) -> NamespaceCheck:
        if namespace not in self._checks:
            self._checks[namespace] = self._check(namespace)
        return self._checks[namespace]

    def _check(self, namespace: str) -> NamespaceCheck:
        groups = self.groups.get(namespace, ())
        target = groups[0].target if len(groups) == 1 else None
        context = HealthContext(
            self.catalog,
            self._sources,
            namespace=namespace,
            groups=groups if self._groups_listed else None,
        )
        results = [
            stored_result(result)
            for result in check_health(InstallMethod.SUBSCRIPTION, Scope.NAMESPACE, context)
        ]
        blocker = next((result for result in results if result.verdict != Verdict.WARNING), None)
        notes = tuple(result for result in results if result.verdict == Verdict.WARNING)
        return NamespaceCheck(namespace, groups, target, blocker, notes)
