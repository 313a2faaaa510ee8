"""The overview in every state: no cluster, first sync, empty, healthy, failing, unreachable."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from installs.models import InstallRequest, Operator, Transition
from installs.queries.overview import HealthCounts, arcs_of, kinds_of
from olmweb.models import Cluster
from tests.factories import make_catalog, make_cluster, make_operator, make_package
from tests.worlds.html import assert_fragment, assert_page
from tests.worlds.operators import make_action, make_failing_world

pytestmark = pytest.mark.django_db


def steps_of(reader: Client) -> list[str]:
    """The text of each of the first steps."""
    markup = reader.get("/").content.decode()
    return [
        re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", step)).strip()
        for step in re.findall(r'<li data-key="step-.*?</li>', markup, re.DOTALL)
    ]


def test_without_a_cluster_four_steps_lead_to_the_first_one(reader: Client, settings: Any) -> None:
    settings.CLUSTERS = []
    page = assert_page(reader.get("/"))
    assert "Connect the first cluster" in page.text
    assert "It stores no credential" in page.text
    assert "Replace my-cluster by a name of your choice." in page.text
    account, kubeconfig, setting, sync = steps_of(reader)
    assert "kubectl apply -f deploy/kubernetes/rbac.yaml" in account
    assert "deploy/kubernetes/make-kubeconfig.sh my-cluster" in kubeconfig
    assert "CONTEXT=my-cluster" in setting
    assert "without a reload" in sync
    assert "Done" not in page.text


def test_a_shared_installation_says_where_the_cluster_is_named(
    reader: Client, settings: Any
) -> None:
    settings.CLUSTERS, settings.EMBEDDED = [], False
    setting = steps_of(reader)[2]
    assert "OLMWEB_CLUSTERS=my-cluster=my-cluster" in setting
    assert "sudo deploy/make-secrets.sh olmweb.kubeconfig" in setting
    assert "make run" not in setting


def test_a_named_cluster_waits_for_a_worker(reader: Client, settings: Any) -> None:
    settings.CLUSTERS = ["prod=my-context"]
    _, kubeconfig, setting, sync = steps_of(reader)
    assert "make-kubeconfig.sh prod" in kubeconfig
    assert "by a name of your choice" not in reader.get("/").text
    assert "Done OLMWEB_CLUSTERS names prod." in setting
    assert "my-context" not in setting
    assert "No worker has tried prod yet." in sync


def test_a_setting_that_can_not_be_read_is_named(reader: Client, settings: Any) -> None:
    settings.CLUSTERS = ["a b=my-context"]
    setting = steps_of(reader)[2]
    assert "Failed OLMWEB_CLUSTERS has" in setting
    assert "Write name=context" in setting


def test_before_its_first_sync_a_cluster_says_that_it_is_being_read(
    reader: Client, settings: Any
) -> None:
    settings.CLUSTERS = ["prod"]
    make_cluster(name="prod", synced_at=None, reachable=True)
    assert "First sync of prod is running" in assert_page(reader.get("/")).text
    steps = steps_of(reader)
    assert all("Done" in step for step in steps[:3])
    assert "prod answers." in steps[3]


@pytest.mark.parametrize(
    ("code", "step", "done"),
    [
        ("forbidden", 0, "Write a kubeconfig of this account Done"),
        ("kubeconfig", 1, "Name the cluster in the settings and restart Done"),
        ("unauthorized", 1, "Name the cluster in the settings and restart Done"),
        ("unreachable", 3, "Name the cluster in the settings and restart Done"),
    ],
)
def test_the_error_of_a_cluster_that_was_never_reached_is_at_its_step(
    reader: Client, settings: Any, code: str, step: int, done: str
) -> None:
    settings.CLUSTERS = ["prod"]
    make_cluster(
        name="prod",
        synced_at=None,
        reachable=False,
        error_code=code,
        error_text="no route to host",
        error_hint="VPN?",
    )
    page = assert_page(reader.get("/"))
    assert "Cluster prod could not be reached yet" in page.text
    assert page.text.count("no route to host") == page.text.count("VPN?") == 1
    steps = steps_of(reader)
    assert "Failed no route to host VPN? Tried" in steps[step]
    assert any(text.startswith(done) for text in steps)


def test_the_steps_lead_to_the_overview_when_the_first_sync_has_ended(reader: Client) -> None:
    cluster = make_cluster(name="prod", synced_at=None, reachable=True)
    [rev] = re.findall(r"rev=([\w-]+)", reader.get("/").content.decode())[:1]
    live = {"HX-Request": "true"}
    assert reader.get(f"/?rev={rev}", headers=live).status_code == 204
    Cluster.objects.update(synced_at=timezone.now(), revision=cluster.revision + 1)
    fragment = assert_fragment(reader.get(f"/?rev={rev}", headers=live))
    assert "No operators installed" in fragment.text
    assert "First sync" not in fragment.text


def test_an_empty_cluster_leads_to_the_catalog(reader: Client) -> None:
    make_cluster(name="prod")
    page = assert_page(reader.get("/"))
    assert "No operators installed" in page.text
    assert "/software/" in page.links


def test_a_cluster_without_any_kind_of_operator_says_what_it_would_need(reader: Client) -> None:
    make_cluster(name="plain", kinds={"PlatformOperator": {"state": "absent"}})
    page = assert_page(reader.get("/"))
    assert "serves no kind of operator" in page.text
    assert "TechPreviewNoUpgrade" in page.text


def test_a_healthy_cluster_is_one_good_line(reader: Client) -> None:
    cluster = make_cluster(name="prod")
    make_operator(cluster=cluster, name="a")
    make_operator(cluster=cluster, name="b", upgrade="2.0.0")
    page = assert_page(reader.get("/"))
    assert "All 2 operators are healthy" in page.text
    assert "Causes" not in page.text
    assert "1 upgrade available" in page.text


def test_a_failing_cluster_shows_its_causes_most_operators_first(reader: Client) -> None:
    make_failing_world(make_cluster(name="prod"), modes=5, webhooks=2)
    page = assert_page(reader.get("/"))
    assert "9 of 11 operators need attention" in page.text
    first = page.text.index(
        "AllNamespaces install mode required by PlatformOperator 5 with AllNamespaces"
    )
    second = page.text.index("Webhooks not supported by PlatformOperator 2 with Webhooks")
    assert first < second
    assert "the flux capacitor of strange lost its charge" in page.text
    who = [link for link in page.links if "finding=allnamespaces-required" in link]
    assert reader.get(who[0]).status_code == 200


def test_causes_beyond_the_first_five_are_counted_and_led_to(reader: Client) -> None:
    cluster = make_cluster(name="prod")
    for number in range(7):
        make_operator(cluster=cluster, name=f"op-{number}", health="Failed", reason=f"Odd{number}")
    page = assert_page(reader.get("/"))
    assert "2 more causes" in page.text
    assert "/operators/?view=cause&cluster=prod" in page.links, "to the table of all causes"
    Operator.objects.filter(name__in=("op-5", "op-6")).delete()
    assert "more cause" not in assert_page(reader.get("/")).text


def test_the_donut_says_its_numbers_in_words(reader: Client) -> None:
    make_failing_world(make_cluster(name="prod"), modes=1, webhooks=0)
    text = reader.get("/").content.decode()
    assert 'aria-label="5 operators: 1 healthy, 1 working, 3 failed or blocked"' in text


def test_arcs_of_the_donut_fill_the_circle() -> None:
    arcs = arcs_of(HealthCounts({"Healthy": 1, "Failed": 1, "Unknown": 1}).segments)
    assert sum(float(arc.length) for arc in arcs) == pytest.approx(100, abs=0.05)
    assert [arc.offset for arc in arcs] == ["-0.00", "-33.33", "-66.67"]
    assert arcs_of(HealthCounts({}).segments) == []


def test_the_aggregated_clusteroperator_says_what_it_blocks_and_what_not(reader: Client) -> None:
    make_failing_world(make_cluster(name="prod"))
    page = assert_page(reader.get("/"))
    assert (
        "Completing an installation: blocked; completing an update: blocked; starting a minor "
        "version update: not blocked. Meanwhile oc adm upgrade needs "
        "--allow-upgrade-with-warnings."
    ) in page.text


def test_catalogs_in_trouble_are_named_with_their_error(reader: Client) -> None:
    cluster = make_cluster(name="prod")
    make_operator(cluster=cluster)
    make_catalog(cluster=cluster, name="good")
    make_catalog(cluster=cluster, name="bad", state="failed", error_text="404 Not Found")
    page = assert_page(reader.get("/"))
    assert "1 serving" in page.text
    assert "404 Not Found" in page.text


def test_troubled_catalogs_are_counted_told_apart_and_never_dropped(reader: Client) -> None:
    cluster = make_cluster(name="prod")
    make_operator(cluster=cluster)
    old = timezone.now() - timedelta(hours=9)
    make_catalog(cluster=cluster, name="redhat", synced_at=old)
    source: dict[str, Any] = {"cluster": cluster, "source_kind": "CatalogSource"}
    make_catalog(name="redhat", slug="m.redhat", namespace="market", synced_at=old, **source)
    for name in ("a", "b", "c"):
        state: dict[str, Any] = {"state": "failed", "synced_at": None, "namespace": "market"}
        make_catalog(name=name, slug=f"m.{name}", **state, **source)
    page = assert_page(reader.get("/"))
    assert "0 serving, 1 stale, 3 failed" in page.text
    assert "CatalogSource in market" in page.text
    assert "1 more" in page.text


def test_catalogs_of_an_unreachable_cluster_are_counted_and_not_listed(reader: Client) -> None:
    silent = make_cluster(name="prod", reachable=False, error_text="connection refused")
    make_operator(cluster=silent)
    make_catalog(cluster=silent, name="good")
    make_catalog(cluster=silent, name="bad", state="failed", error_text="No route to the registry")
    page = assert_page(reader.get("/"))
    assert "0 serving, 2 on unreachable clusters" in page.text
    assert "No route to the registry" not in page.text


def test_a_catalog_that_is_there_in_two_ways_counts_once(reader: Client) -> None:
    cluster = make_cluster(name="prod")
    make_operator(cluster=cluster)
    source: dict[str, Any] = {"source_kind": "CatalogSource", "cluster": cluster}
    other = make_catalog(slug="m.redhat-operators", namespace="openshift-marketplace", **source)
    for catalog in (make_catalog(cluster=cluster, package_count=2), other):
        for name in ("etcd", "loki"):
            make_package(name=name, catalog=catalog)

    def told() -> tuple[str, str, str]:
        found = (
            re.search(r"\d+ serving", assert_page(reader.get("/")).text),
            re.search(
                r"\d+ catalogs? with \d+ packages?", assert_page(reader.get("/catalogs/")).text
            ),
            re.search(
                r"\d+ packages? in \d+ catalogs?", assert_page(reader.get("/software/")).text
            ),
        )
        assert all(found)
        return tuple(match[0] for match in found if match)  # type: ignore[return-value]

    assert told() == (
        "1 serving",
        "1 catalog with 2 packages",
        "2 packages in 1 catalog",
    )
    rows = assert_page(reader.get("/catalogs/")).text
    assert "ClusterCatalog Serving" in rows
    assert "CatalogSource in openshift-marketplace Serving" in rows
    make_catalog(slug="t.redhat-operators", namespace="team-a", **source)
    make_package(name="etcd", catalog=make_catalog(cluster=make_cluster(name="lab")))
    make_package(name="kafka", catalog=make_catalog(slug="file", name="file"))
    assert told() == (
        "4 serving",
        "4 catalogs with 3 packages",
        "3 packages in 4 catalogs",
    )


def test_a_kind_that_may_not_be_read_is_told_with_the_remedy(reader: Client) -> None:
    kinds = {
        "PlatformOperator": {"state": "forbidden", "error": "no"},
        "Bundle": {"state": "failed", "error": "internal error."},
        "ClusterExtension": {"state": "absent"},
    }
    make_cluster(name="prod", kinds=kinds)
    page = assert_page(reader.get("/"))
    assert "PlatformOperators can't be read" in page.text
    assert "Apply the ClusterRole" in page.text
    assert "Bundles could not be read the last time: internal error." in page.text
    assert "ClusterExtensions" not in page.text.split("Bundles could")[0]


def test_what_is_under_way_is_counted(reader: Client) -> None:
    cluster = make_cluster(name="prod")
    make_operator(cluster=cluster)
    make_action(cluster)
    assert "1 action in progress" in assert_page(reader.get("/")).text


def test_changes_of_the_last_day_are_counted_by_direction(reader: Client) -> None:
    cluster = make_cluster(name="prod")
    make_operator(cluster=cluster)
    now = timezone.now()
    for name, before, after, hours in (
        ("a", "Installing", "Failed", 1),
        ("b", "Failed", "Healthy", 2),
        ("c", "Failed", "Blocked", 3),
        ("old", "Installing", "Failed", 30),
    ):
        Transition.objects.create(
            cluster=cluster, kind="PlatformOperator", name=name, type="Health",
            from_status=before, to_status=after, at=now - timedelta(hours=hours),
        )  # fmt: skip
    page = assert_page(reader.get("/"))
    assert "1 new failure, 1 recovered" in page.text
    assert "old" not in page.text.split("Last changes")[1]


def test_several_clusters_are_a_table_worst_first(reader: Client) -> None:
    for name in ("calm", "broken", "gone"):
        health = "Failed" if name == "broken" else "Healthy"
        make_operator(cluster=make_cluster(name=name), health=health)
    Cluster.objects.filter(name="gone").update(reachable=False, error_text="connection refused")
    page = assert_page(reader.get("/"))
    body = page.text.split("Cluster State Why")[1]
    assert body.index("gone") < body.index("broken") < body.index("calm")
    assert "connection refused" in body
    assert page.text.count("connection refused") == 1
    assert "/?cluster=broken" in page.links
    gone = assert_page(reader.get("/", {"cluster": "gone"}))
    assert gone.text.count("connection refused") == 1
    one = assert_page(reader.get("/", {"cluster": "broken"}))
    assert "The one operator" not in one.text
    assert "1 of 1 operators needs attention" in one.text


def test_an_unknown_cluster_is_not_found_and_the_known_ones_are_named(reader: Client) -> None:
    make_cluster(name="prod")
    page = assert_page(reader.get("/", {"cluster": "nope"}), 404)
    assert "There is no cluster nope." in page.text
    assert "Known clusters: prod" in page.text


def test_an_unreadable_cluster_filter_is_refused(reader: Client) -> None:
    assert_page(reader.get("/", {"cluster": "a\x00b"}), 400)


def test_hostile_names_and_messages_are_escaped(reader: Client) -> None:
    evil = '"><img src=x onerror=alert(1)>'
    cluster = make_cluster(name="prod", error_text=evil, reachable=False, version=evil)
    make_operator(cluster=cluster, name=evil, health="Failed", reason=evil, message=evil)
    page = assert_page(reader.get("/"))
    assert "img" not in page.tags[page.tags.index("main") :]


def test_a_cause_has_a_row_with_its_kinds_most_operators_first(reader: Client) -> None:
    """Also the cause of those whose InstallPlans the page lists one by one."""
    cluster = make_cluster(name="prod")
    for number in range(5):
        make_operator(
            cluster=cluster,
            name=f"op{number}",
            kind="Subscription" if number else "ClusterExtension",
            namespace="apps",
            health="NeedsApproval",
            reason="RequiresApproval",
            details={"plan": f"install-{number}"},
        )
    page = assert_page(reader.get("/"))
    assert "RequiresApproval 5 with RequiresApproval Subscription, ClusterExtension" in page.text
    assert "5 InstallPlans need approval" in page.text
    assert "and 3 more" in page.text


def test_approvals_are_an_action_of_those_who_may_approve(
    client: Client, public: Any, bob: Any, olivia: Any
) -> None:
    make_operator(
        cluster=make_cluster(name="prod"), name="op", kind="Subscription", namespace="apps",
        health="NeedsApproval", reason="RequiresApproval", details={"plan": "install-0"},
    )  # fmt: skip
    page = assert_page(client.get("/"))
    assert "Needs action Activity 1 InstallPlan needs approval op" in page.text
    assert "Sign in with the role operator to change anything on a cluster." in page.text
    client.force_login(bob)
    page = assert_page(client.get("/"))
    assert "Needs action Activity 1 InstallPlan needs approval op" in page.text
    assert "ask an administrator of OLM Web for the role operator" in page.text
    client.force_login(olivia)
    page = assert_page(client.get("/"))
    assert "Needs your action Activity 1 InstallPlan to approve op" in page.text
    assert "Your role may not" not in page.text


def test_every_cluster_of_a_table_has_its_own_causes(reader: Client) -> None:
    for name, reason in (("dev", "Wrong"), ("prod", "Worse")):
        for number in range(2):
            make_operator(
                cluster=Cluster.objects.filter(name=name).first() or make_cluster(name=name),
                name=f"op{number}",
                health="Failed",
                reason=reason,
            )
    text = assert_page(reader.get("/")).text
    assert "2 Wrong" in text
    assert "2 Worse" in text


def test_the_fragment_comes_alone_and_flashes_nothing_when_unchanged(
    reader: Client, django_assert_max_num_queries: Any
) -> None:
    make_failing_world(make_cluster(name="prod"))
    fragment = reader.get("/", headers={"HX-Request": "true"})
    page = assert_fragment(fragment)
    assert "overview" in page.ids
    rev = fragment.content.decode().split("rev=")[1][:18]
    with django_assert_max_num_queries(5):  # session, user, clusters, catalogs, requests
        same = reader.get("/", {"rev": rev}, headers={"HX-Request": "true"})
    assert same.status_code == 204


@pytest.mark.revisions
def test_it_costs_the_same_for_one_cluster_and_for_many(
    reader: Client, django_assert_max_num_queries: Any
) -> None:
    for number in range(5):
        make_failing_world(make_cluster(name=f"c{number}"), modes=2, webhooks=1)
    make_catalog(name="certified")
    for query, most in (({}, 7), ({"cluster": "c1"}, 10)):
        reader.get("/", query)
        with django_assert_max_num_queries(most):
            reader.get("/", query)


@pytest.mark.revisions
def test_a_cluster_that_is_gone_since_has_no_kinds() -> None:
    cluster = make_cluster(name="gone")
    pk = cluster.pk
    Cluster.objects.filter(pk=pk).delete()
    assert kinds_of([cluster]) == {pk: {}}


def test_after_a_change_it_reads_no_operators_to_approve_twice(
    reader: Client, django_assert_max_num_queries: Any
) -> None:
    cluster = make_cluster(name="prod")
    make_failing_world(cluster)
    reader.get("/")
    Cluster.objects.update(revision=cluster.revision + 100)
    with django_assert_max_num_queries(15):
        reader.get("/")


def test_open_requests_need_the_action_of_those_who_may_decide_them(
    client: Client, bob: Any, olivia: Any
) -> None:
    cluster = make_cluster()
    make_operator(cluster=cluster)
    row = InstallRequest.objects.create(
        cluster=cluster,
        package="etcd",
        version="1.2.3",
        path="Subscription",
        reason="why",
        user=bob,
    )
    InstallRequest.objects.create(
        cluster=cluster, package="own", path="Subscription", reason="why", user=olivia
    )
    InstallRequest.objects.create(
        cluster=cluster, package="done", path="Subscription", state="declined", user=bob
    )
    link = f"/activity/requests/{row.pk}"
    client.force_login(olivia)
    page = assert_page(client.get("/"))
    assert "1 installation request to decide" in page.text
    assert "etcd 1.2.3 requested by bob" in page.text
    assert link in page.links
    rev = client.get("/").content.decode().split("rev=")[1][:18]
    poll = {"HX-Request": "true"}
    assert client.get("/", {"rev": rev}, headers=poll).status_code == 204
    row.delete()
    assert "to decide" not in client.get("/", {"rev": rev}, headers=poll).content.decode()
    client.force_login(bob)
    assert "to decide" not in assert_page(client.get("/")).text


def test_many_clusters_are_shown_in_pages_with_the_worst_first(reader: Client) -> None:
    for number in range(45):
        make_cluster(name=f"edge{number:02}")
    worst = Cluster.objects.get(name="edge44")
    make_operator(cluster=worst, name="etcd", health="Failed")
    response = reader.get("/")
    assert "1 to 20 of 45" in assert_page(response).text
    assert response.context["page"][0].cluster == worst
    assert response.content.count(b'data-key="cluster-') == 20
    last = assert_page(reader.get("/?page=9"))
    assert "There is no page 9; the last one, 3, is shown." in last.text
    assert "41 to 45 of 45" in last.text
