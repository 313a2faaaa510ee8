"""Cluster operators: the list worst first, one with its members, what it blocks."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from installs.models import ClusterOperator, ClusterOperatorMember, Operator
from olmweb.models import Cluster
from tests.factories import make_cluster, make_operator
from tests.worlds.html import assert_fragment, assert_page
from tests.worlds.operators import make_clusteroperator, make_failing_world

pytestmark = pytest.mark.django_db
AGGREGATED = "/cluster-operators/prod/platform-operators-aggregated"
EVIL = '"><img src=x onerror=alert(1)>'


def test_they_are_listed_worst_first_with_four_pills(reader: Client, prod: Cluster) -> None:
    make_failing_world(prod)
    page = assert_page(reader.get("/cluster-operators/"))
    rows = [link for link in page.links if link.startswith("/cluster-operators/prod/")]
    assert list(dict.fromkeys(rows)) == [
        AGGREGATED, "/cluster-operators/prod/monitoring", "/cluster-operators/prod/dns",
    ]  # fmt: skip
    assert "Unavailable Not progressing Not degraded Upgradeable" in page.text
    assert "8 platform operators failing" in page.text
    assert "SlowDisk too slow" in page.text


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"state": "unavailable"}, 1),
        ({"state": "degraded"}, 1),
        ({"state": "progressing"}, 0),
        ({"state": "blocked"}, 0),
        ({"q": "dns"}, 1),
        ({"q": "slow"}, 1),
        ({"cluster": "prod"}, 3),
        ({"cluster": "elsewhere"}, 0),
    ],
)
def test_filters_narrow(
    reader: Client, prod: Cluster, params: dict[str, str], expected: int
) -> None:
    make_failing_world(prod)
    page = assert_page(reader.get("/cluster-operators/", params))
    assert f"{expected} cluster operator" in page.text
    if not expected:
        assert "No results found" in page.text


@pytest.mark.parametrize("params", [{"state": "odd"}, {"q": "a\x00"}, {"sort": "!"}])
def test_what_can_not_be_read_is_refused(
    reader: Client, prod: Cluster, params: dict[str, str]
) -> None:
    assert_page(reader.get("/cluster-operators/", params), 400)


def test_a_cluster_without_them_says_that_this_is_normal(reader: Client) -> None:
    make_cluster(name="kind", kinds={"ClusterOperator": {"state": "absent"}})
    page = assert_page(reader.get("/cluster-operators/"))
    assert "ClusterOperators are not served by this cluster" in page.text
    assert "Everything else works without them" in page.text


def test_when_they_may_not_be_read_the_page_says_so(reader: Client) -> None:
    make_cluster(name="prod", kinds={"ClusterOperator": {"state": "forbidden"}})
    assert "ClusterOperators can't be read" in assert_page(reader.get("/cluster-operators/")).text


def test_a_cluster_operator_that_is_no_part_of_olm_has_its_next_steps_elsewhere(
    reader: Client, prod: Cluster
) -> None:
    make_clusteroperator(prod, "insights", degraded="True", severity=2, message="No upload")
    make_clusteroperator(prod, "marketplace", degraded="True", severity=2)
    make_clusteroperator(prod, "dns")
    page = assert_page(reader.get("/cluster-operators/prod/insights"))
    assert "It blocks the completion of a running update." in page.text
    assert "Next steps ClusterOperator insights is no part of OLM, so this console" in page.text
    for command in (
        "oc describe clusteroperator insights",
        "oc adm inspect clusteroperator/insights",
        "oc adm must-gather",
    ):
        assert command in page.text
    for name in ("marketplace", "dns"):
        page = assert_page(reader.get(f"/cluster-operators/prod/{name}"))
        assert "Next steps" not in page.text


def test_the_aggregated_one_groups_its_members_by_our_finding(
    reader: Client, prod: Cluster
) -> None:
    make_failing_world(prod, modes=3, webhooks=2)
    page = assert_page(reader.get(AGGREGATED))
    assert "8 platform operators are not installed" in page.text
    assert page.text.index("3 AllNamespaces install mode") < page.text.index("2 Webhooks not")
    assert "1 InstallFailed" in page.text, "a member whose message is not known keeps its reason"
    assert "/operators/prod/PlatformOperator/-/mode-00" in page.links
    assert "It blocks the completion of a cluster installation" in page.text
    assert "While it is unavailable the ClusterVersion is Failing" in page.text


def test_each_cause_of_the_aggregated_one_offers_the_step_of_the_overview(
    client: Client, olivia: Any, bob: Any, prod: Cluster
) -> None:
    make_failing_world(prod)
    client.force_login(olivia)
    link = (
        "/operators/bulk-change?cluster=prod&kind=PlatformOperator"
        "&finding=allnamespaces-required&change=migrate"
    )
    assert f"{link}&from=overview" in assert_page(client.get("/")).links
    page = assert_page(client.get(AGGREGATED))
    assert link in page.links
    assert "Migrate to Subscriptions with AllNamespaces install mode" in page.text
    client.force_login(bob)
    assert link not in assert_page(client.get(AGGREGATED)).links


def test_members_are_counted_by_cause_as_on_the_page_of_causes(
    reader: Client, prod: Cluster
) -> None:
    make_failing_world(prod)
    row = ClusterOperator.objects.get(aggregated=True)
    for name, facts in (("owned", {"owner": "other"}), ("unowned", {"unowned_release": "unowned"})):
        operator = make_operator(
            cluster=prod, name=name, finding="helm-ownership-conflict", facts=facts, health="Failed"
        )
        ClusterOperatorMember.objects.create(
            cluster_operator=row, name=name, reason="InstallFailed", operator=operator
        )
    title = "3 Resource conflict: the object exists already"
    for address in (AGGREGATED, "/operators/?view=cause"):
        text = assert_page(reader.get(address)).text
        assert title in text
        assert "Resource conflict: owned by another operator" not in text
    text = assert_page(reader.get(AGGREGATED)).text
    assert f"{title}: collision, owned, unowned" in text
    Operator.objects.filter(name="unowned").update(facts={"owner": "other"})
    Cluster.objects.update(revision=7)
    for address in (AGGREGATED, "/operators/?view=cause"):
        text = assert_page(reader.get(address)).text
        assert "3 Resource conflict: owned by another operator" in text


def test_a_member_without_its_object_and_a_disagreement_are_told(
    reader: Client, prod: Cluster
) -> None:
    make_failing_world(prod)
    row = ClusterOperator.objects.get(aggregated=True)
    ClusterOperatorMember.objects.create(cluster_operator=row, name="ghost", reason="UnpackFailed")
    page = assert_page(reader.get(AGGREGATED))
    assert "Not found" in page.text
    assert "its message names ghost, installed according to the PlatformOperators" in page.text


def test_a_message_older_than_the_objects_says_by_how_much(reader: Client, prod: Cluster) -> None:
    make_failing_world(prod, modes=1, webhooks=0)
    Operator.objects.filter(name="mode-00").update(
        reason="InstallFailed", since=timezone.now() - timedelta(minutes=5)
    )
    page = assert_page(reader.get(AGGREGATED))
    assert "changed 1 hour after the message was written, so it is out of date" in page.text


def test_progressing_is_not_taken_for_work_that_goes_on(reader: Client, prod: Cluster) -> None:
    make_failing_world(prod)
    row = ClusterOperator.objects.get(aggregated=True)
    row.conditions = [
        {"type": "Available", "status": "False", "reason": "PlatformOperatorError"},
        {"type": "Progressing", "status": "True"},
    ]
    row.save()
    text = assert_page(reader.get(AGGREGATED)).text
    assert "Progressing=True does not say that work goes on" in text


def test_each_pill_tells_its_own_reason(reader: Client, prod: Cluster) -> None:
    row = make_clusteroperator(prod, "dns", degraded="True", severity=2)
    row.conditions = [
        {"type": "Available", "status": "True", "reason": "AsExpected"},
        {"type": "Degraded", "status": "True", "reason": "", "message": "two pods are gone"},
    ]
    row.save()
    for path in ("/cluster-operators/", "/cluster-operators/prod/dns"):
        text = reader.get(path).content.decode()
        assert 'title="AsExpected"' in text
        assert 'title="two pods are gone"' in text


def test_a_healthy_one_blocks_nothing(reader: Client, prod: Cluster) -> None:
    make_clusteroperator(prod, "dns")
    assert "It blocks nothing." in assert_page(reader.get("/cluster-operators/prod/dns")).text


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("/cluster-operators/prod/nope", "There is no ClusterOperator nope on cluster prod"),
        ("/cluster-operators/nope/dns", "There is no cluster nope"),
    ],
)
def test_what_is_not_there_is_not_found(
    reader: Client, prod: Cluster, path: str, sentence: str
) -> None:
    assert sentence in assert_page(reader.get(path), 404).text


def test_hostile_texts_are_escaped(reader: Client, prod: Cluster) -> None:
    make_clusteroperator(
        prod, "odd", available="False", reason=EVIL, message=EVIL, version=EVIL, severity=3
    )
    for path in ("/cluster-operators/", "/cluster-operators/prod/odd"):
        page = assert_page(reader.get(path))
        assert "img" not in page.tags[page.tags.index("main") :]


def test_fragments_and_costs(
    reader: Client, prod: Cluster, django_assert_max_num_queries: Any
) -> None:
    make_failing_world(prod, modes=30, webhooks=10)
    for path in ("/cluster-operators/", AGGREGATED):
        with django_assert_max_num_queries(12):
            response = reader.get(path, headers={"HX-Request": "true"})
        assert_fragment(response)
        rev = response.content.decode().split("rev=")[1][:18]
        with django_assert_max_num_queries(4):
            same = reader.get(path, {"rev": rev}, headers={"HX-Request": "true"})
        assert same.status_code == 204
