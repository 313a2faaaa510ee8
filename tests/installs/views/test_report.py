"""The status report: complete, the same as Markdown, bounded, and safe with hostile names."""

from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F
from django.test import Client
from django.utils import timezone

from installs.models import Operator
from olmweb.models import Cluster
from tests.factories import (
    make_catalog,
    make_cluster,
    make_component,
    make_crd,
    make_operator,
    make_package,
    make_transition,
)
from tests.worlds.html import assert_page
from tests.worlds.operators import make_action, make_clusteroperator, make_failing_world
from tests.worlds.subscriptions import CATALOG, make_pending_approval, make_subscription

pytestmark = pytest.mark.django_db
QUERIES = 30


def make_world(name: str = "prod") -> None:
    """A cluster with failures, blockers, work that waits, and changes of this week."""
    cluster = make_cluster(name=name, version="4.16.3")
    make_failing_world(cluster, modes=5, webhooks=2)
    row = make_pending_approval(cluster)
    make_crd(cluster=cluster, name="gadgets.example.com", finding="crd-stored-not-defined")
    make_action(cluster)
    make_component(
        cluster=cluster, kind="ClusterVersion", name="version", details={"version": "4.16.3"}
    )
    make_clusteroperator(
        cluster, "operator-lifecycle-manager", upgradeable="False", severity=1,
        reason="IncompatibleOperatorsInstalled", message="etcd is incompatible",
    )  # fmt: skip
    catalog = make_catalog(name=CATALOG, cluster=cluster)
    make_package(
        name="grafana", catalog=catalog, bundles={"1.0.0": {"max_openshift_version": "4.16"}}
    )
    for days, before, after in (
        (2, "Healthy", "Degraded"),
        (3, "", "Failed"),
        (4, "Failed", "Failed"),
        (9, "Failed", "Healthy"),
    ):
        make_transition(
            subject=row, type="Health", from_status=before, to_status=after,
            at=timezone.now() - timedelta(days=days),
        )  # fmt: skip


def test_it_has_everything_of_a_cluster(reader: Client) -> None:
    make_world()
    page = assert_page(reader.get("/report/?cluster=prod"))
    for words in (
        f"prod, generated at {timezone.now():%Y-%m-%d}",
        "Version 4.16.3",
        "Sync status Last sync",
        "need attention",
        "AllNamespaces install mode required by PlatformOperator mode-00, mode-01, mode-02, "
        "mode-03, mode-04 5",
        "install it with a Subscription",
        "The update can't start: 2 blockers for OpenShift 4.17.",
        "Blocks the update Does not support the next OpenShift grafana Subscription in "
        "openshift-operators, 1.0.0",
        "CRD with stale storedVersions: gadgets.example.com on prod",
        "1 action in progress",
        "Approve InstallPlan",
        "10 new failures, 0 recovered",
        "Healthy to Degraded",
    ):
        assert words in page.text, words
    assert "?cluster=prod&format=md" in page.links
    assert "/report/?cluster=prod" in assert_page(reader.get("/")).links


def test_the_same_comes_as_markdown(reader: Client) -> None:
    make_world()
    response = reader.get("/report/?format=md")
    assert response["Content-Type"] == "text/markdown; charset=utf-8"
    assert response["Content-Disposition"] == 'attachment; filename="status-report.md"'
    text = response.content.decode()
    assert text.startswith(f"# Status report\n\nGenerated at {timezone.now():%Y-%m-%d}")
    for line in (
        "\n## Cluster prod\n",
        "\n- Version: 4.16.3\n",
        "\n- Next minor version: The update can't start: 2 blockers for OpenShift 4.17. ",
        "\n- **AllNamespaces install mode required by PlatformOperator** (5): mode-00, ",
        "\n  - First step: It can't be installed as a PlatformOperator",
        "(blocks): Subscription openshift-operators/grafana: ",
        "\n- CRD with stale storedVersions: gadgets.example.com on prod\n",
        "\n- 10 new failures\n",
    ):
        assert line in text, line
    assert text.count("| Healthy | Degraded |") == 1
    assert "| Failed | Failed |" not in text, "no transition"


def test_one_failure_is_counted_in_the_singular(reader: Client) -> None:
    row = make_operator(name="etcd", cluster=make_cluster(), health="Failed")
    at = timezone.now() - timedelta(days=2)
    make_transition(subject=row, type="Health", from_status="Healthy", to_status="Failed", at=at)
    for address in ("/report/", "/report/?format=md"):
        text = " ".join(reader.get(address).content.decode().split())
        assert "1 new failure," in text or "- 1 new failure -" in text


def test_without_a_cluster_there_is_nothing_to_print_or_export(reader: Client) -> None:
    page = reader.get("/report/").text
    assert "data-print" not in page
    assert "format=md" not in page


@pytest.mark.revisions
def test_its_changes_are_of_the_moment_of_its_counts(reader: Client) -> None:
    """Rows of a revision that the clusters did not have when the page read them are not shown."""
    make_world()
    before = assert_page(reader.get("/report/?cluster=prod")).text
    row = Operator.objects.filter(cluster__name="prod").order_by("pk")[0]
    make_transition(subject=row, type="Health", from_status="Healthy", to_status="Failed")
    assert "10 new failures" in before
    assert "10 new failures" in assert_page(reader.get("/report/?cluster=prod")).text
    Cluster.objects.update(revision=F("revision") + 1)
    assert "11 new failures" in assert_page(reader.get("/report/?cluster=prod")).text


def test_it_costs_the_same_for_many_clusters(
    reader: Client, django_assert_max_num_queries: Any
) -> None:
    for number in range(4):
        make_world(f"c{number}")
    for address in ("/report/", "/report/?cluster=c1", "/report/?format=md"):
        with django_assert_max_num_queries(QUERIES):
            response = reader.get(address)
        assert response.status_code == 200
    text = reader.get("/report/?format=md").content.decode()
    assert all(f"## Cluster c{number}\n" in text for number in range(4))


@pytest.mark.revisions
def test_several_clusters_come_as_a_table_with_their_reports_and_common_causes(
    reader: Client, django_assert_max_num_queries: Any
) -> None:
    for number in range(25):
        cluster = make_cluster(name=f"c{number:02}", version="4.16.3")
        make_failing_world(cluster, modes=2 if number else 3, webhooks=1)
        make_pending_approval(cluster)
    reader.get("/report/")
    with django_assert_max_num_queries(9):
        response = reader.get("/report/")
    page = assert_page(response)
    assert "25 clusters, generated at" in page.text
    assert "/report/?cluster=c00" in page.links
    assert "/readiness/?cluster=c00" in page.links
    assert "AllNamespaces install mode required by PlatformOperator 51 25" in page.text
    assert "In all 25 InstallPlans" in page.text
    assert page.text.count("Report of c") == 20
    second = assert_page(reader.get("/report/?page=2"))
    assert second.text.count("Report of c") == 5
    assert "Report of c00" not in second.text


def test_hostile_names_and_messages_stay_text(reader: Client) -> None:
    evil = '"><img src=x onerror=alert(1)>|[a](javascript:b)\n# head'
    cluster = make_cluster(name="prod", error_text=evil, reachable=False, version=evil[:90])
    row = make_operator(cluster=cluster, name=evil, health="Failed", reason=evil, message=evil)
    make_transition(
        subject=row, type="Health", from_status="Healthy", to_status="Failed", to_reason=evil
    )
    page = assert_page(reader.get("/report/"))
    assert "img" not in page.tags[page.tags.index("main") :]
    text = reader.get("/report/?format=md").content.decode()
    assert "<img" not in text.replace("\\<", "")
    assert "[a]" not in text
    assert "\n# head" not in text
    table = [line for line in text.splitlines() if "onerror" in line and line.startswith("| ")]
    assert table[0].replace("\\|", "").count("|") == 7


def test_without_clusters_and_with_an_unknown_one_it_says_so(reader: Client) -> None:
    assert "No cluster yet" in assert_page(reader.get("/report/")).text
    assert_page(reader.get("/report/?cluster=nope"), 404)


def test_a_cluster_with_fifty_blockers_fits_60_kb(reader: Client) -> None:
    prod = make_cluster(name="prod", version="4.16.3")
    make_component(
        cluster=prod, kind="ClusterVersion", name="version", details={"version": "4.16.3"}
    )
    catalog = make_catalog(name=CATALOG, cluster=prod)
    for number in range(53):
        name = f"operator-with-a-long-name-{number}"
        bundles = {"1.0.0": {"max_openshift_version": "4.16"}}
        make_package(name=name, catalog=catalog, bundles=bundles)
        make_subscription(prod, name)
    response = reader.get("/report/")
    assert "and 3 more" in assert_page(response).text
    assert len(response.content) <= 60_000


def test_a_cluster_that_answered_last_is_stale_and_not_unreachable(reader: Client) -> None:
    for name in ("prod", "edge"):
        make_cluster(name=name, synced_at=timezone.now() - timedelta(hours=2))
    pages = [
        reader.get(path).content.decode() for path in ("/", "/report/", "/report/?cluster=prod")
    ]
    for page in pages:
        assert "Stale" in page
        assert "nreachable" not in page


@pytest.mark.parametrize("form", ["", "md"])
def test_work_that_waits_is_called_the_readers_only_if_they_may_do_it(
    client: Client, bob: Any, olivia: Any, form: str
) -> None:
    make_world()
    for user, heading in ((bob, "Needs action"), (olivia, "Needs your action")):
        client.force_login(user)
        assert heading in client.get("/report/", {"format": form} if form else {}).content.decode()
