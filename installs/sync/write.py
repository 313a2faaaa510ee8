"""Writes one reading of a cluster into the tables, in the transaction of its caller."""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

from catalogs.sync import record_cluster_catalogs
from installs.models import ClusterOperator, Component, Operator
from installs.sync import relations
from installs.sync.assess import assess, rules_version
from installs.sync.decode import Kept
from installs.sync.read import Snapshot
from installs.sync.store import Delta, Moment, store
from olmweb.models import Cluster

OPERATORS = ("PlatformOperator", "ClusterExtension")
COMPONENTS = ("BundleDeployment", "Bundle")


@dataclass(slots=True)
class Written:
    """Rows written and deleted, by kind; `derived` are those that no object stands for."""

    written: Counter[str] = field(default_factory=Counter)
    deleted: Counter[str] = field(default_factory=Counter)
    derived: int = 0

    def add(self, delta: Delta) -> None:
        self.written += delta.written
        self.deleted += delta.deleted

    @property
    def total(self) -> int:
        return self.written.total() + self.deleted.total() + self.derived


def write_snapshot(cluster: Cluster, snapshot: Snapshot, moment: Moment) -> Written:
    """Makes our rows equal to what was read; kinds that could not be read keep theirs."""
    result = Written()
    _write_operators(cluster, snapshot, moment, result)
    _write_cluster_operators(cluster, snapshot, moment, result)
    catalogs = snapshot.kinds["ClusterCatalog"]
    if catalogs.authoritative:
        result.written["ClusterCatalog"] = record_cluster_catalogs(cluster, list(catalogs.raw))
    return result


def _read(snapshot: Snapshot, kinds: Collection[str]) -> tuple[list[str], list[Kept]]:
    """(those of `kinds` that were read completely, their objects)."""
    known = [kind for kind in kinds if snapshot.kinds[kind].authoritative]
    return known, [one for kind in known for one in snapshot.kinds[kind].objects]


def _write_operators(cluster: Cluster, snapshot: Snapshot, moment: Moment, result: Written) -> None:
    before = relations.load_parts(cluster.pk)
    kinds, kept = _read(snapshot, COMPONENTS)
    components = store(Component, kept, kinds, moment)
    result.add(components)
    is_same = not components.changed and not components.deleted
    parts = before if is_same else relations.load_parts(cluster.pk)

    kinds, kept = _read(snapshot, OPERATORS)
    completed = relations.with_versions(kept, parts, cluster.pk)
    operators = store(Operator, completed, kinds, moment, salt=rules_version())
    result.add(operators)

    rows = Operator.objects.filter(cluster=cluster).values_list("kind", "namespace", "name", "id")
    ids = {(kind, namespace, name): pk for kind, namespace, name, pk in rows}
    affected = relations.link_components(parts, ids, cluster.pk)
    changed = {components.ids[key] for key in components.changed}
    left = {part.id for part in parts}
    affected |= {part.operator_id for part in parts if part.id in changed and part.operator_id}
    affected |= {part.operator_id for part in before if part.id not in left and part.operator_id}
    affected |= {operators.ids[key] for key in operators.changed}
    if affected:
        result.derived += assess(affected & set(ids.values()), operators.fresh, moment)


def _write_cluster_operators(
    cluster: Cluster, snapshot: Snapshot, moment: Moment, result: Written
) -> None:
    kinds, kept = _read(snapshot, ("ClusterOperator",))
    if not kinds:
        return
    platform = snapshot.kinds["PlatformOperator"]
    completed = relations.with_problems(kept, platform.objects if platform.authoritative else None)
    delta = store(ClusterOperator, completed, kinds, moment)
    result.add(delta)
    result.derived += relations.join_members(completed, delta.ids, cluster.pk)
