"""What a Subscription's namespace says before its bundle does: its OperatorGroup, its catalogs.

Reads stored objects: three queries for all namespaces of a cluster. The rules are
`catalogs.verdicts`'s.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from catalogs.install_methods import InstallMethod
from catalogs.verdicts import Group, Scope, Site, Source, Target, Verdict, on_site
from catalogs.verdicts.catalog_health import said
from catalogs.verdicts.health_checks import CATALOG_SOURCE
from catalogs.verdicts.read import StoredRuleResult, StoredVerdict
from installs.facts.operator_groups import groups_of
from installs.models import Component
from olmweb.models import Cluster

READY = "READY"


@dataclass(frozen=True, slots=True)
class Spot:
    """One namespace. `groups` are named as a sentence does; `target` is None without exactly one
    OperatorGroup that selects something; `obstacle` keeps everything from being installed there;
    `notes` change no verdict."""

    namespace: str
    groups: tuple[Group, ...] = ()
    target: Target | None = None
    obstacle: StoredRuleResult | None = None
    notes: tuple[StoredRuleResult, ...] = ()

    def over(self, found: StoredVerdict) -> StoredVerdict:
        """The verdict on a bundle with what the namespace says before it."""
        if self.obstacle is None:
            return found
        return replace(
            found,
            verdict=self.obstacle.verdict,
            rule=self.obstacle.rule,
            sentence=self.obstacle.sentence,
            found=(self.obstacle, *found.found),
        )


NOWHERE = Spot("")
NO_CATALOG = Source()


@dataclass
class Spots:
    """The namespaces of a cluster, read when the first is asked for; `catalog` is the one that
    would be installed from, where that matters."""

    cluster: Cluster
    catalog: Source = NO_CATALOG
    _known: dict[str, Spot] = field(default_factory=dict)

    @cached_property
    def groups(self) -> Mapping[str, tuple[Group, ...]]:
        found: dict[str, list[Group]] = defaultdict(list)
        for each in groups_of(self.cluster):
            found[each.namespace].append(each)
        return {namespace: tuple(groups) for namespace, groups in found.items()}

    @cached_property
    def _read(self) -> bool:
        """Whether the cluster's OperatorGroups were ever listed: without that none is no news."""
        read = self.cluster.streams.filter(kind="OperatorGroup", listed_at__isnull=False)
        return read.exists()

    @cached_property
    def _sources(self) -> tuple[Source, ...]:
        """The CatalogSources; one that OLM has not connected to yet does not answer."""
        rows = Component.objects.filter(cluster=self.cluster, kind=CATALOG_SOURCE)
        states = rows.order_by("namespace", "name").values_list("namespace", "name", "details")
        found = []
        for namespace, name, details in states:
            state = details.get("state") or "no connection yet"
            trouble = "" if state == READY else state
            found.append(Source(CATALOG_SOURCE, namespace, name, trouble=trouble))
        return tuple(found)

    def of(self, namespace: str) -> Spot:
        if namespace not in self._known:
            self._known[namespace] = self._seen(namespace)
        return self._known[namespace]

    def _seen(self, namespace: str) -> Spot:
        groups = self.groups.get(namespace, ())
        target = groups[0].target if len(groups) == 1 else None
        known = groups if self._read else None
        site = Site(self.catalog, self._sources, namespace=namespace, groups=known)
        found = [said(each) for each in on_site(InstallMethod.SUBSCRIPTION, Scope.NAMESPACE, site)]
        obstacle = next((each for each in found if each.verdict != Verdict.WARNING), None)
        notes = tuple(each for each in found if each.verdict == Verdict.WARNING)
        return Spot(namespace, groups, target, obstacle, notes)
