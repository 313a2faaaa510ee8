"""Changes as a watch tells them: twice, late, in another order; rows end as a list would have them.

A small world is played: objects are made, changed and deleted under growing resourceVersions, some
of them again under their old name. What a watch would have told of it is shuffled and repeated.
"""

import copy
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from installs.models import Component, CRDState, Operator, OperatorReference, Transition
from installs.state.listing import SERVED, ResourceList, Snapshot
from installs.state.resources import BY_NAME, WATCHED_RESOURCES, Change, decode
from installs.state.write import apply_changes, write_snapshot
from olmweb.models import Cluster, ResourceWatch
from tests.worlds import cluster as world
from tests.worlds import cluster_v0 as v0

pytestmark = pytest.mark.django_db

# Subject -> (feed, its states). A state is what makes a plain object.
SUBJECTS: dict[str, tuple[str, list[Any]]] = {
    "po": (
        "PlatformOperator",
        [
            lambda: _platform("good", "True", "InstallSuccessful"),
            lambda: _platform("good", "False", "UnpackFailed"),
        ],
    ),
    "sub": (
        "Subscription",
        [
            lambda: v0.subscription(),
            lambda: v0.subscription(currentCSV="etcd.v1.0.0"),
            lambda: v0.subscription(currentCSV="etcd.v1.1.0", installedCSV="etcd.v1.0.0"),
        ],
    ),
    "csv": (
        "ClusterServiceVersion",
        [
            lambda: v0.csv(phase="Pending", reason="RequirementsNotMet"),
            lambda: v0.csv(),
            lambda: v0.csv(phase="Replacing", reason="BeingReplaced"),
        ],
    ),
    "csv2": (
        "ClusterServiceVersion",
        [
            lambda: v0.csv("etcd.v1.1.0", "Installing", spec={"replaces": "etcd.v1.0.0"}),
            lambda: v0.csv("etcd.v1.1.0", spec={"replaces": "etcd.v1.0.0"}),
        ],
    ),
    "deployment": (
        "Deployment (olm.owner)",
        [
            lambda: v0.deployment(available=0),
            lambda: v0.deployment(),
            lambda: v0.deployment(owner="etcd.v1.1.0"),
        ],
    ),
    "group": ("OperatorGroup", [lambda: v0.operator_group(), lambda: v0.operator_group(x="y")]),
    "crd": (
        "CustomResourceDefinition",
        [lambda: v0.crd(), lambda: v0.crd(stored=("v1alpha1", "v1"))],
    ),
}


def _platform(name: str, status: str, reason: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {"package": {"name": name}},
        "status": {"conditions": [world.condition("Installed", status, reason)]},
    }


class Played:
    """What happened: every change in order, and what there is at the end."""

    def __init__(self, steps: Iterable[tuple[str, int]]) -> None:
        self.changes: list[Change] = []
        self.live: dict[str, Change] = {}
        version, made = 100, 0
        uids: dict[str, str] = {}
        for subject, state in steps:
            feed, states = SUBJECTS[subject]
            gone = state >= len(states)
            if gone and subject not in uids:
                continue
            version += 1
            if subject not in uids:
                made += 1
                uids[subject] = f"uid-{made}"
            obj = states[0 if gone else state]()
            obj["metadata"] |= {"uid": uids[subject], "resourceVersion": str(version)}
            kept = decode(BY_NAME[feed], obj)
            assert kept is not None
            change = Change(feed, gone, kept)
            self.changes.append(change)
            if gone:
                del uids[subject], self.live[subject]
            else:
                self.live[subject] = change
        self.version = version

    def listed(self) -> Snapshot:
        """A fresh list of every feed."""
        objects: dict[str, list[Any]] = {feed.name: [] for feed in WATCHED_RESOURCES}
        for change in self.live.values():
            objects[change.resource].append(change.obj)
        return Snapshot(
            {
                name: ResourceList(SERVED, "v1", str(self.version), tuple(kept))
                for name, kept in objects.items()
            }
        )


def rows_of(cluster: Cluster) -> dict[Any, Any]:
    """Everything that is said of the cluster but ids, our clock and derived history."""
    found: dict[Any, Any] = {}
    skip = {"id", "cluster", "observed_at", "since", "resource_version", "operator"}
    for table in (Operator, Component, CRDState):
        names = [one.name for one in table._meta.get_fields() if one.concrete]
        for row in table._default_manager.filter(cluster=cluster):
            values = {name: getattr(row, name) for name in names if name not in skip}
            owner = getattr(row, "operator", None)
            values["owner"] = owner and (owner.kind, owner.name)
            found[table.__name__, row.kind, row.namespace, row.name] = values
    references = OperatorReference.objects.filter(cluster=cluster)
    found["references"] = sorted(
        references.values_list("operator__kind", "operator__name", "kind", "name")
    )
    return found


def steps() -> st.SearchStrategy[list[tuple[str, int]]]:
    one = st.sampled_from(sorted(SUBJECTS)).flatmap(
        lambda name: st.tuples(st.just(name), st.integers(0, len(SUBJECTS[name][1])))
    )
    return st.lists(one, max_size=14)


def told(played: Played, order: Sequence[int], cuts: Sequence[int]) -> list[list[Change]]:
    """The changes in this order, in batches; every change at least once."""
    picked = [played.changes[i % len(played.changes)] for i in order] if played.changes else []
    everything = [*picked, *played.changes[::-1], *picked[:3]]
    edges = sorted({0, len(everything), *(cut % (len(everything) + 1) for cut in cuts)})
    return [everything[a:b] for a, b in pairwise(edges)]


def assert_no_transition_twice(cluster: Cluster) -> None:
    """No state is told to have come twice without another one between, no deletion twice."""
    last: dict[Any, tuple[str, str]] = {}
    for row in Transition.objects.filter(cluster=cluster).order_by("id"):
        if row.type == "Object":
            key = (row.kind, row.namespace, row.name, row.uid, row.to_status)
            assert key not in last, row
            last[key] = ("", "")
            continue
        key = (row.kind, row.namespace, row.name, row.uid, row.type)
        state = (row.to_status, row.to_reason)
        assert last.get(key) != state, row
        last[key] = state


@pytest.fixture
def clusters(db: None) -> Any:
    """A maker of clusters, as hypothesis plays many worlds in one test."""
    made = iter(range(100_000))
    return lambda: Cluster.objects.create(name=f"cluster-{next(made)}")


relaxed = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@relaxed
@given(steps(), st.lists(st.integers(0, 40), max_size=20), st.lists(st.integers(0, 40), max_size=4))
@example([("po", 0), ("po", 2), ("po", 1), ("po", 2)], [3, 2, 1, 0], [1, 2, 3])
@example([("sub", 2), ("csv", 1), ("csv2", 1), ("csv", 3)], [3, 0, 1], [2])
@example([("csv", 0), ("csv", 3)], [1, 0, 1, 0], [1])
def test_rows_end_as_a_fresh_list_has_them_in_whatever_order_they_are_told(
    clusters: Any, played: list[tuple[str, int]], order: list[int], cuts: list[int]
) -> None:
    happened = Played(played)
    told_to, listed = clusters(), clusters()
    write_snapshot(told_to, Played([]).listed())
    write_snapshot(listed, Played([]).listed())
    for batch in told(happened, order, cuts):
        apply_changes(told_to, copy.deepcopy(batch), {})
    write_snapshot(listed, happened.listed())
    assert rows_of(told_to) == rows_of(listed)
    assert_no_transition_twice(told_to)
    before = Transition.objects.filter(cluster=told_to).count()
    write_snapshot(told_to, happened.listed())
    assert rows_of(told_to) == rows_of(listed)
    assert Transition.objects.filter(cluster=told_to).count() == before


@relaxed
@given(steps(), st.integers(0, 14))
@example([("csv", 0), ("csv", 3), ("csv", 0), ("csv", 3)], 1)  # two lives within a batch
def test_an_old_list_that_is_written_late_changes_nothing(
    clusters: Any, played: list[tuple[str, int]], at: int
) -> None:
    """A pass and a watch at once: the pass read earlier, and writes after the watch."""
    happened, earlier = Played(played), Played(played[:at])
    late, truth = clusters(), clusters()
    write_snapshot(late, Played([]).listed())
    old = earlier.listed()
    apply_changes(late, happened.changes, {})
    write_snapshot(late, old)
    write_snapshot(truth, Played([]).listed())
    write_snapshot(truth, happened.listed())
    assert rows_of(late) == rows_of(truth)
    assert_no_transition_twice(late)


def test_a_deletion_that_comes_first_keeps_the_object_away(clusters: Any) -> None:
    cluster = clusters()
    write_snapshot(cluster, Played([]).listed())
    happened = Played([("po", 0), ("po", 2)])
    for change in reversed(happened.changes):
        apply_changes(cluster, [change], {})
    assert not Operator.objects.exists()
    assert list(Transition.objects.values_list("to_status", flat=True)) == ["deleted"]


def test_every_step_of_one_object_within_a_batch_is_history(clusters: Any) -> None:
    cluster = clusters()
    write_snapshot(cluster, Played([]).listed())
    apply_changes(cluster, Played([("po", 0), ("po", 1), ("po", 0)]).changes, {})
    told = Transition.objects.filter(type="Installed").order_by("id")
    assert list(told.values_list("to_reason", flat=True)) == [
        "InstallSuccessful",
        "UnpackFailed",
        "InstallSuccessful",
    ]


def test_a_cluster_that_was_restored_from_a_backup_is_believed(clusters: Any) -> None:
    """Its resourceVersions are lower than ours although it was read after we last wrote."""
    cluster = clusters()
    now = Played([("po", 0), ("csv", 1), ("po", 1)])
    write_snapshot(cluster, now.listed())
    then = Played([("po", 0)])
    then.version = 101
    assert ResourceWatch.objects.filter(resource_version="103").count() == len(WATCHED_RESOURCES)
    write_snapshot(cluster, then.listed())
    row = Operator.objects.get()
    assert (row.name, row.conditions[0]["reason"]) == ("good", "InstallSuccessful")
    assert set(ResourceWatch.objects.values_list("resource_version", flat=True)) == {"101"}


def test_resource_versions_that_are_no_numbers_are_taken_as_they_come(clusters: Any) -> None:
    cluster = clusters()
    write_snapshot(cluster, Played([]).listed())
    first, second = Played([("po", 0), ("po", 1)]).changes
    for change in (first, second):
        object.__setattr__(change.obj, "resource_version", "opaque-" + change.obj.uid)
        apply_changes(cluster, [change], {})
    assert Operator.objects.get().reason == "UnpackFailed"
