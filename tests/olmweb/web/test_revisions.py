"""Values that pages keep for the revision of a cluster."""

from collections.abc import Collection
from typing import Any

import pytest
from django.db.models import F
from django.test import Client

from installs.models import ClusterOperator, Operator
from olmweb.models import Cluster
from olmweb.web.revisions import PerRevision
from tests.factories import make_cluster, make_operator
from tests.worlds.html import assert_page

pytestmark = [pytest.mark.django_db, pytest.mark.revisions]


def names_of(reads: list[set[int]]) -> PerRevision[str]:
    def read(ids: Collection[int]) -> dict[int, str]:
        reads.append(set(ids))
        return dict(Cluster.objects.filter(pk__in=ids).values_list("pk", "name"))

    return PerRevision(read)


def write(cluster: Cluster) -> None:
    """What every transaction that writes rows of the cluster does."""
    Cluster.objects.filter(pk=cluster.pk).update(revision=F("revision") + 1)


def test_only_clusters_that_changed_are_read_again() -> None:
    one, other = make_cluster(name="one"), make_cluster(name="other")
    reads: list[set[int]] = []
    names = names_of(reads)
    assert names.of(Cluster.objects.all()) == {one.pk: "one", other.pk: "other"}
    names.of(Cluster.objects.all())
    assert reads == [{one.pk, other.pk}]
    write(other)
    names.of(Cluster.objects.all())
    assert reads == [{one.pk, other.pk}, {other.pk}]


def test_an_older_revision_is_never_answered_with_a_newer_ones_place() -> None:
    """A request that read the clusters before a change reads the rows itself."""
    cluster = make_cluster(name="one")
    reads: list[set[int]] = []
    names = names_of(reads)
    write(cluster)
    names.of([Cluster.objects.get()])
    names.of([cluster])  # read before
    names.of([Cluster.objects.get()])
    assert reads == [{cluster.pk}] * 3


@pytest.mark.parametrize(
    ("address", "before", "after"),
    [
        ("/", "1 of 2", "2 of 2"),
        ("/operators/", "1 operator needs attention", "2 operators need attention"),
        ("/operators/?view=all", "Needs attention (1)", "Needs attention (2)"),
        ("/help/", "1 needs attention", "2 need attention"),
    ],
)
def test_every_page_shows_a_change_of_one_of_many_clusters(
    reader: Client, address: str, before: str, after: str
) -> None:
    for number in range(3):
        cluster = make_cluster(name=f"c{number}")
        make_operator(cluster=cluster, name="calm")
    make_operator(cluster=cluster, name="bad", health="Failed", reason="Wrong")
    assert before in assert_page(reader.get(address)).text
    Operator.objects.filter(cluster=cluster, name="calm").update(health="Failed", reason="Wrong")
    write(cluster)
    text = assert_page(reader.get(address)).text
    assert after in text
    assert before not in text


def test_after_a_change_a_page_costs_a_few_queries_more(
    reader: Client, django_assert_max_num_queries: Any
) -> None:
    """Session, user, and those of the page; at most six more for the clusters that changed."""
    for number in range(3):
        cluster = make_cluster(name=f"c{number}")
        make_operator(cluster=cluster, name="bad", health="Failed", reason="Wrong")
        ClusterOperator.objects.create(cluster=cluster, kind="ClusterOperator", name="dns")
    for address, at_rest, more in (
        ("/", 7, 6),
        ("/operators/", 5, 2),
        ("/operators/?view=all", 6, 1),
        ("/software/", 4, 1),
        ("/cluster-operators/", 5, 1),
    ):
        reader.get(address)
        with django_assert_max_num_queries(at_rest):
            reader.get(address)
        write(cluster)
        with django_assert_max_num_queries(at_rest + more):
            reader.get(address)
