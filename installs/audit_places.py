"""What a Subscription's namespace says before its bundle does: its OperatorGroup, its catalogs.

Reads stored objects: three queries for all namespaces of a cluster. The rules that look at a bundle
are `catalogs.prediction`'s.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from catalogs.predicted import ONE_GROUP, SOURCE_DOWN, Predicted, Said
from catalogs.prediction import Group, Target, Verdict
from installs.models import Component
from installs.surroundings import groups_of
from olmweb.models import Cluster

# Whose CatalogSources every namespace sees: OpenShift's, and that of OLM's own manifests.
GLOBAL = ("openshift-marketplace", "olm")
READY = "READY"


@dataclass(frozen=True, slots=True)
class Spot:
    """One namespace. `groups` are named as a sentence does; `target` is None without exactly one
    OperatorGroup that selects something; `obstacle` keeps everything from being installed there."""

    namespace: str
    groups: tuple[Group, ...] = ()
    target: Target | None = None
    obstacle: Said | None = None

    def over(self, found: Predicted) -> Predicted:
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


@dataclass
class Spots:
    """The namespaces of a cluster, read when the first is asked for."""

    cluster: Cluster
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
    def _down(self) -> list[tuple[str, str, str]]:
        """Namespace, name and state of the CatalogSources that don't answer."""
        rows = Component.objects.filter(cluster=self.cluster, kind="CatalogSource")
        states = rows.order_by("namespace", "name").values_list("namespace", "name", "details")
        told = [(namespace, name, each.get("state") or "") for namespace, name, each in states]
        return [(namespace, name, state) for namespace, name, state in told if state != READY]

    def of(self, namespace: str) -> Spot:
        if namespace not in self._known:
            self._known[namespace] = self._seen(namespace)
        return self._known[namespace]

    def _seen(self, namespace: str) -> Spot:
        groups = self.groups.get(namespace, ())
        target = groups[0].target if len(groups) == 1 else None
        return Spot(namespace, groups, target, self._obstacle(namespace, groups))

    def _obstacle(self, namespace: str, groups: tuple[Group, ...]) -> Said | None:
        """Mirrors operator-lifecycle-manager pkg/controller/registry/resolver/step_resolver.go and
        source_registry.go: exactly one OperatorGroup; every CatalogSource in sight must answer."""
        if self._read and (len(groups) != 1 or groups[0].target is None):
            names = ", ".join(each.name for each in groups)
            has = (
                f"{len(groups)} OperatorGroups ({names})" if len(groups) > 1 else "no OperatorGroup"
            )
            if len(groups) == 1:
                has = f"the OperatorGroup {names}, which selects no namespace"
            sentence = f"Nothing is resolved in namespace {namespace}: it has {has}; OLM needs one."
            return Said(ONE_GROUP, Verdict.NOT_INSTALLABLE, sentence)
        for where, name, state in self._down:
            if where in (namespace, *GLOBAL):
                sentence = (
                    f"Nothing is resolved in namespace {namespace} while CatalogSource "
                    f"{where}/{name} does not answer ({state or 'no connection yet'})."
                )
                return Said(SOURCE_DOWN, Verdict.NOT_INSTALLABLE, sentence)
        return None
