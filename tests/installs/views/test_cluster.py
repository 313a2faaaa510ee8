"""The page of one cluster: how fresh each feed is, and what to do when it can't be read."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from catalogs.models import Package
from catalogs.sources.registry_access import refresh_mirrors
from installs.actions.buttons import review_access, rights_of
from installs.actions.configuration import read_current
from installs.actions.crd_check import read_check, request_check
from installs.actions.record import dry_run, request
from installs.actions.removal import plan_remove
from installs.actions.requests import submit
from installs.models import Action, ActionBatch, CrdCheck, ObjectYaml, Operator
from installs.queries.watched_resources import missing_rules
from installs.reports.object_yaml import read_object
from installs.state.full_sync import record_crash
from olmweb.errors import OlmwebError
from olmweb.models import NOT_CONFIGURED, Cluster
from tests.factories import (
    make_catalog,
    make_cluster,
    make_crd,
    make_event,
    make_operator,
    make_package,
    make_watch,
)
from tests.kubefake import KubeFake
from tests.worlds.html import assert_fragment, assert_page
from tests.worlds.operators import MODE, make_action, make_clusteroperator, make_failing
from tests.worlds.subscriptions import make_orphan, make_subscription

pytestmark = pytest.mark.django_db
EVIL = '"><img src=x onerror=alert(1)>'
PAGE = "/clusters/prod"
CHANGES = ("/remove", "/retry", "/upgrade", "/bulk-change")
# Whether the watcher is part of OLM Web's one process, and what to check.
WATCHER_HINTS = [
    (True, "The log of OLM Web says more."),
    (False, "Check that the watcher runs."),
]


@pytest.fixture
def prod() -> Cluster:
    return make_cluster(name="prod", kinds={})


def test_each_feed_tells_its_state_its_age_and_its_cost(reader: Client, prod: Cluster) -> None:
    make_subscription(prod)
    heard = timezone.now() - timedelta(seconds=90)
    listed = timezone.now() - timedelta(hours=3)
    make_watch(cluster=prod, last_event_at=heard, listed_at=listed, lists=2, watches=7)
    page = assert_page(reader.get(PAGE))
    assert (
        "All watched resources are read 1 of 1 served resources watched, last event 1 min ago"
        in page.text
    )
    assert "2 list requests and 7 watch requests so far" in page.text
    assert "Subscription Watching – 1 1 min ago 3 h ago 2 7" in page.text


def test_the_watched_resources_are_folded_on_a_phone_while_none_fails(
    reader: Client, prod: Cluster
) -> None:
    make_watch(cluster=prod)
    fold = reader.get(PAGE).content.decode().partition('<details id="watched-resources"')[2]
    assert "data-phone-fold" in fold.partition(">")[0]


def test_a_kind_that_is_not_served_is_normal(reader: Client, prod: Cluster) -> None:
    make_watch(cluster=prod)
    make_watch(cluster=prod, kind="PlatformOperator", state="absent")
    page = assert_page(reader.get(PAGE))
    assert "Not served This cluster does not serve the kind. That is normal." in page.text
    assert "All watched resources are read, except 1 that this cluster does not serve" in page.text


def test_a_forbidden_kind_comes_with_the_rule_to_add(reader: Client, prod: Cluster) -> None:
    make_watch(cluster=prod, state="forbidden")
    make_watch(cluster=prod, kind="InstallPlan", state="forbidden")
    make_watch(cluster=prod, kind="Event", state="forbidden")
    page = assert_page(reader.get(PAGE))
    assert "3 of 3 watched resources can't be read" in page.text
    assert "The account of OLM Web may not list InstallPlans" in page.text
    assert 'apiGroups: ["operators.coreos.com"] resources: [installplans, subscriptions]' in (
        page.text
    )
    assert 'apiGroups: [""] resources: [events]' in page.text


def test_rules_of_kinds_that_are_not_known_are_left_out() -> None:
    assert missing_rules(("Nonsense",)) == ""


def test_a_feed_that_fails_says_why_and_stands_first(reader: Client, prod: Cluster) -> None:
    make_watch(cluster=prod)
    make_watch(cluster=prod, kind="InstallPlan", state="retrying", error="connection refused")
    response = reader.get(PAGE)
    assert "data-phone-fold" not in response.content.decode(), "what fails is never folded"
    page = assert_page(response)
    assert "InstallPlan Retrying connection refused It is retried automatically." in page.text
    assert page.text.index("InstallPlan Retrying") < page.text.index("Subscription Watching")


@pytest.mark.parametrize(("embedded", "hint"), WATCHER_HINTS)
def test_a_watch_that_nobody_keeps_alive_is_told(
    reader: Client, prod: Cluster, settings: Any, embedded: bool, hint: str
) -> None:
    settings.EMBEDDED = embedded
    make_watch(cluster=prod, last_event_at=timezone.now() - timedelta(hours=1))
    page = assert_page(reader.get(PAGE))
    assert "Subscription Interrupted No event for more" in page.text
    assert f"than 10 minutes. {hint}" in page.text


def test_objects_are_counted_once_a_kind(reader: Client, prod: Cluster) -> None:
    orphan = make_orphan(prod)
    make_crd(cluster=prod)
    make_event(subject=orphan)
    make_event(subject=orphan)
    for kind in ("ClusterServiceVersion", "CustomResourceDefinition"):
        make_watch(cluster=prod, kind=kind)
    for version in ("v1", "v1alpha1"):
        make_watch(cluster=prod, kind="Event", resource=f"Event (operators.coreos.com/{version})")
    page = assert_page(reader.get(PAGE))
    assert "ClusterServiceVersion Watching – 1 " in page.text
    assert "CustomResourceDefinition Watching – 1 " in page.text
    assert "Event (operators.coreos.com/v1) Watching – 2 " in page.text
    assert "Event (operators.coreos.com/v1alpha1) Watching – – " in page.text


def test_kinds_without_a_feed_show_the_last_pass(reader: Client) -> None:
    make_cluster(
        name="prod",
        kinds={
            "PlatformOperator": {"state": "served", "synced_at": "2026-01-01T00:00:00+00:00"},
            "Bundle": {"state": "failed", "error": "internal error"},
            "ClusterExtension": {"state": "absent"},
            "Odd": "text",
            "Odder": {"state": "so-so", "synced_at": "yesterday"},
        },
    )
    page = assert_page(reader.get(PAGE))
    assert "PlatformOperator Listed" in page.text
    assert "Bundle Retrying internal error" in page.text
    assert "ClusterExtension Not served" in page.text


def test_before_the_first_pass_it_says_so(reader: Client) -> None:
    make_cluster(name="prod", kinds={}, synced_at=None, reachable=None)
    page = assert_page(reader.get(PAGE))
    assert "The first sync is running" in page.text
    assert "Nothing was read yet" in page.text


@pytest.mark.parametrize(("embedded", "hint"), WATCHER_HINTS)
def test_a_cluster_that_answered_last_is_not_said_to_be_unreachable(
    reader: Client, settings: Any, embedded: bool, hint: str
) -> None:
    settings.EMBEDDED = embedded
    make_cluster(name="prod", kinds={}, synced_at=timezone.now() - timedelta(hours=2))
    page = assert_page(reader.get(PAGE))
    assert "Not synced since" in page.text
    assert f"What is shown is as of then. {hint}" in page.text
    elsewhere = assert_page(reader.get("/software/"))
    assert "Cluster prod not synced since" in elsewhere.text
    assert f"What is shown is as of then. {hint}" in elsewhere.text
    assert "nreachable" not in page.text + elsewhere.text
    for number in range(3):
        make_cluster(name=f"stage-{number}", synced_at=timezone.now() - timedelta(hours=2))
    many = assert_page(reader.get("/software/"))
    assert "4 of 4 clusters not synced: prod, stage-0" in many.text
    assert "nreachable" not in many.text


def test_a_silent_cluster_says_since_when_and_why(reader: Client) -> None:
    make_cluster(
        name="prod", kinds={}, reachable=False, error_text="connection refused",
        error_hint="VPN?", synced_at=timezone.now() - timedelta(hours=2),
    )  # fmt: skip
    page = assert_page(reader.get(PAGE))
    assert "Unreachable since" in page.text
    assert "connection refused VPN?" in page.text
    assert page.text.count("connection refused") == 1
    assert "Cluster prod unreachable" not in page.text
    elsewhere = assert_page(reader.get("/software/"))
    assert "Cluster prod unreachable" in elsewhere.text
    assert PAGE in elsewhere.links


@pytest.fixture
def cluster_api(tmp_path: Path, settings: Any) -> Iterator[KubeFake]:
    """The API server of every cluster."""
    with KubeFake() as api:
        settings.KUBECONFIG = str(api.write_kubeconfig(tmp_path / "kubeconfig"))
        yield api


@pytest.fixture
def removed() -> Cluster:
    """A cluster with an operator that fails, an hour after it was removed from the settings."""
    cluster = make_cluster(
        name="prod",
        reachable=None,
        error_code=NOT_CONFIGURED,
        error_text="Cluster prod is no longer named in OLMWEB_CLUSTERS.",
        error_hint="Name it there again to sync it; until then its last state is shown.",
        synced_at=timezone.now() - timedelta(hours=1),
    )
    make_operator(cluster=cluster, name="etcd", health="Failed")
    make_clusteroperator(cluster, name="dns")
    catalog = make_catalog(cluster=cluster, synced_at=cluster.synced_at)
    make_package(name="tea", catalog=catalog)
    return cluster


def test_each_page_of_a_removed_cluster_says_once_that_it_was_removed(
    client: Client, alice: User, removed: Cluster
) -> None:
    client.force_login(alice)
    make_cluster(name="lab")
    batch = ActionBatch.objects.create(cluster=removed, verb="install", idempotency_key="1")
    action = make_action(removed, batch=batch)
    for path in (
        PAGE,
        "/?cluster=prod",
        "/operators/?cluster=prod",
        "/operators/prod/PlatformOperator/-/etcd",
        "/cluster-operators/?cluster=prod",
        "/cluster-operators/prod/dns",
        "/crds/?cluster=prod",
        "/readiness/?cluster=prod",
        "/reports/copied-csvs/?cluster=prod",
        "/catalogs/prod/redhat-operators",
        "/software/prod/redhat-operators/tea",
        "/software/prod/redhat-operators/tea/tea.v1.1.0",
        "/software/prod/redhat-operators/tea/install",
        "/software/prod/redhat-operators/tea/export",
        "/report/?cluster=prod",
        f"/activity/actions/{action.pk}",
        f"/activity/bulk-installs/{batch.pk}",
    ):
        text = assert_page(client.get(path)).text
        assert "Cluster prod is no longer named in OLMWEB_CLUSTERS" in text, path
        says_itself = path in (PAGE, "/report/?cluster=prod")
        assert text.count("What is shown is its last state, of") == (not says_itself), path
        assert "nreachable" not in text, path
        assert "not synced since" not in text.lower(), path
        assert "retried automatically" not in text, path


def test_a_live_update_brings_and_takes_away_the_banner_of_a_removed_cluster(
    client: Client, alice: User, removed: Cluster
) -> None:
    client.force_login(alice)
    path = "/operators/prod/PlatformOperator/-/etcd"
    banner = '<div id="removed-cluster" class="olm-stale" hx-swap-oob="true">'
    update = client.get(path, {"rev": "old"}, headers={"HX-Request": "true"}).content.decode()
    assert banner in " ".join(update.split())
    assert "no longer named in OLMWEB_CLUSTERS" in update
    Cluster.objects.update(error_code="", error_text="", error_hint="", reachable=True)
    update = client.get(path, {"rev": "old"}, headers={"HX-Request": "true"}).content.decode()
    assert f"{banner}</div>" in " ".join(update.split())
    for without in ("/operators/", PAGE):
        page, live = (
            client.get(without, headers=headers).content.decode()
            for headers in ({}, {"HX-Request": "true"})
        )
        assert "removed-cluster" not in page + live, without


def test_the_overview_asks_for_no_action_about_a_removed_cluster(
    reader: Client, removed: Cluster
) -> None:
    make_operator(cluster=make_cluster(name="lab"), name="redis")
    page = assert_page(reader.get("/"))
    assert "Removed from the configuration, with its last state: prod" in page.text
    assert "need attention" not in page.text
    assert "needs attention" not in page.text
    assert "unreachable" not in page.text
    assert "1 removed from the configuration" in page.text, "the menu of clusters"
    chosen = assert_page(reader.get("/", {"cluster": "prod"}))
    assert "Needs action Activity Nothing." in chosen.text


def test_the_overview_of_removed_clusters_alone_has_no_first_steps(
    reader: Client, removed: Cluster
) -> None:
    page = assert_page(reader.get("/"))
    assert "Removed from the configuration, with its last state: prod" in page.text
    assert "Connect the first cluster" not in page.text


def test_no_bulk_change_on_a_removed_cluster_is_offered(
    client: Client, alice: User, removed: Cluster
) -> None:
    client.force_login(alice)
    make_failing(removed, "mode-00", MODE)
    Cluster.objects.update(error_code="")
    page = assert_page(client.get("/", {"cluster": "prod"}))
    assert "/operators/bulk-change" in "".join(page.links)
    Cluster.objects.update(error_code=NOT_CONFIGURED)
    page = assert_page(client.get("/", {"cluster": "prod"}))
    assert "/operators/bulk-change" not in "".join(page.links)


def test_the_filter_of_health_counts_the_operators_that_it_lists(
    reader: Client, removed: Cluster
) -> None:
    page = assert_page(reader.get("/operators/", {"health": "attention"}))
    assert "Needs attention (1)" in page.text
    assert "Failed (1)" in page.text
    assert "/operators/prod/PlatformOperator/-/etcd" in page.links


@pytest.mark.parametrize("entry", [dry_run, request])
def test_nothing_is_sent_to_a_removed_cluster(alice: User, removed: Cluster, entry: Any) -> None:
    plan = plan_remove(Operator.objects.get(name="etcd"))
    with pytest.raises(OlmwebError, match="no longer named in OLMWEB_CLUSTERS") as caught:
        entry(plan, alice)
    assert (caught.value.status, caught.value.code) == (409, NOT_CONFIGURED)
    assert not Action.objects.exists()


def test_no_action_on_an_operator_of_a_removed_cluster_is_offered(
    client: Client, alice: User, removed: Cluster
) -> None:
    client.force_login(alice)
    make_failing(removed, "mode-00", MODE)
    page = "/operators/prod/PlatformOperator/-/etcd"
    for path in (page, "/operators/?view=all", "/operators/?view=cause"):
        Cluster.objects.update(error_code="")
        assert any(word in "".join(assert_page(client.get(path)).links) for word in CHANGES), path
        Cluster.objects.update(error_code=NOT_CONFIGURED)
        shown = assert_page(client.get(path))
        assert not any(word in "".join(shown.links) for word in CHANGES), path
    assert f"{removed.error_text} Remove" in assert_page(client.get(page)).text


def test_no_form_reads_from_a_removed_cluster(
    client: Client, alice: User, removed: Cluster, cluster_api: KubeFake
) -> None:
    client.force_login(alice)
    make_crd(
        cluster=removed, name="etcds.example.org", served=["v1"], owner_kind="BundleDeployment",
        owner_name="etcd",
    )  # fmt: skip
    path = "/operators/prod/PlatformOperator/-/etcd"
    refused = assert_page(client.post(f"{path}/remove", {"step": "count"}), 422)
    assert removed.error_text in refused.text
    refused = assert_page(client.post("/objects/prod/PlatformOperator/-/etcd"), 409)
    assert removed.error_text in refused.text
    assert review_access(alice, removed, rights_of("remove", "PlatformOperator")) == 0
    with pytest.raises(OlmwebError, match="no longer named in OLMWEB_CLUSTERS"):
        read_current(Operator.objects.get(name="etcd"), alice)
    with pytest.raises(OlmwebError, match="no longer named in OLMWEB_CLUSTERS"):
        request_check(alice, Operator.objects.get(name="etcd"), "etcd.v1", timezone.now())
    refresh_mirrors()
    assert cluster_api.requests == []


def test_an_object_requested_before_its_cluster_was_removed_is_not_read(
    alice: User, removed: Cluster, cluster_api: KubeFake
) -> None:
    of = {"cluster": removed, "kind": "PlatformOperator", "name": "etcd", "user": alice}
    yaml = ObjectYaml.objects.create(**of, requested_at=timezone.now())
    read_object(yaml)
    check = CrdCheck.objects.create(**of, bundle="etcd.v1", requested_at=timezone.now())
    read_check(check)
    assert (yaml.error_text, check.error_text) == (removed.error_text, removed.error_text)
    assert cluster_api.requests == []


def test_the_fragment_of_the_install_form_names_the_removed_cluster(
    client: Client, alice: User, removed: Cluster
) -> None:
    client.force_login(alice)
    url = "/software/prod/redhat-operators/tea/install"
    refused = assert_fragment(client.post(url, headers={"HX-Request": "true"}), 422)
    assert removed.error_text in refused.text


def test_no_install_on_a_removed_cluster_can_be_requested(alice: User, removed: Cluster) -> None:
    package = Package.objects.get()
    with pytest.raises(OlmwebError, match="no longer named in OLMWEB_CLUSTERS") as caught:
        submit(removed, package, alice, path="ClusterExtension", version="1.1.0", reason="Wanted.")
    assert (caught.value.status, caught.value.code) == (409, NOT_CONFIGURED)


def test_no_form_offers_a_removed_cluster(client: Client, alice: User, removed: Cluster) -> None:
    served = {"ClusterExtension": {"state": "served", "version": "v1"}}
    lab = make_cluster(name="lab", kinds=served)
    Cluster.objects.filter(pk=removed.pk).update(kinds=served)
    catalog = make_catalog(cluster=lab, name="redhat-operators")
    make_package(name="tea", catalog=catalog)
    client.force_login(alice)
    keys = ["prod/redhat-operators/tea", "lab/redhat-operators/tea"]
    page = client.get("/bulk-install/", {"package": keys})
    assert [place.name for place in page.context["places"]] == ["lab"]
    form = client.get("/software/prod/redhat-operators/tea/install")
    assert form.context["targets"] == []
    assert client.get("/software/prod/redhat-operators/tea/request").context["targets"] == []
    package = assert_page(client.get("/software/prod/redhat-operators/tea"))
    assert "/software/prod/redhat-operators/tea/install" not in package.links
    counted = client.get("/reports/copied-csvs/")
    assert counted.context["cluster"] == lab
    assert "Count copies" in counted.content.decode()
    assert [name for name, _ in counted.context["choices"]] == ["lab"]
    last = client.get("/reports/copied-csvs/", {"cluster": "prod"})
    assert "Count copies" not in last.content.decode()
    refused = client.post("/reports/copied-csvs/", {"cluster": "prod"})
    assert refused.status_code == 409


def test_rest_says_that_a_cluster_was_removed(reader: Client, removed: Cluster) -> None:
    make_cluster(name="lab")
    for path in ("/api/v1/clusters", "/api/v1/status"):
        rows = {row["cluster"]: row for row in reader.get(path).json()["items"]}
        shown = [(name, row["removed"], row["reachable"]) for name, row in sorted(rows.items())]
        assert shown == [("lab", False, True), ("prod", True, None)], path


def test_rest_keeps_an_outage_apart_from_a_fault_inside_olm_web(reader: Client) -> None:
    cluster = make_cluster(name="prod", reachable=False, error_code="unreachable")
    record_crash(cluster, ValueError("no"), timezone.now())
    row = reader.get("/api/v1/clusters").json()["items"][0]
    assert (row["reachable"], row["error"]["code"]) == (None, "internal")
    assert row["unreachable_since"] is None
    for path in (PAGE, "/software/", "/"):
        assert "nreachable" not in assert_page(reader.get(path)).text, path


def test_a_fault_inside_olm_web_is_not_said_to_be_the_clusters(reader: Client) -> None:
    cluster = make_cluster(name="prod", kinds={})
    record_crash(cluster, ValueError("no"), timezone.now())
    sentence = "The sync of cluster prod failed inside OLM Web (ValueError)."
    page = assert_page(reader.get(PAGE))
    assert "Not synced since" in page.text
    assert sentence in page.text
    assert "The worker's log has the details" in page.text
    elsewhere = assert_page(reader.get("/software/"))
    assert "Cluster prod not synced since" in elsewhere.text
    assert sentence in elsewhere.text
    Cluster.objects.update(synced_at=None, reachable=None)
    first = assert_page(reader.get("/"))
    assert "Cluster prod could not be synced yet" in first.text
    assert sentence in first.text
    never = assert_page(reader.get(PAGE))
    assert "Not synced yet" in never.text
    for shown in (page, elsewhere, first, never):
        assert "nreachable" not in shown.text
        assert "reached" not in shown.text


def test_no_feed_of_a_cluster_that_is_gone_is_said_to_be_watched(reader: Client) -> None:
    gone = make_cluster(name="prod", kinds={}, reachable=False, error_text="connection refused")
    make_watch(cluster=gone, last_event_at=timezone.now() - timedelta(seconds=90))
    text = assert_page(reader.get(PAGE)).text
    assert "Watching" not in text
    assert "Interrupted The cluster can't be reached" in text
    assert "Is the worker running" not in text


def test_the_error_of_the_whole_cluster_is_not_repeated_for_each_kind(reader: Client) -> None:
    error = "Can't reach cluster prod: connection refused."
    gone = make_cluster(name="prod", kinds={}, reachable=False, error_text=error)
    make_watch(cluster=gone, state="retrying", error=error)
    make_watch(cluster=gone, kind="Bundle", state="retrying", error="etcdserver: no leader")
    text = assert_page(reader.get(PAGE)).text
    assert (text.count(error), text.count("no leader")) == (1, 1)


def test_the_masthead_leads_here(reader: Client, prod: Cluster) -> None:
    assert PAGE in assert_page(reader.get("/")).links
    make_cluster(name="two")
    links = assert_page(reader.get("/")).links
    assert PAGE in links
    assert "/clusters/two" in links


@pytest.mark.parametrize("name", ["nope", "%F0%9F%92%A9"])
def test_an_unknown_cluster_is_not_found(reader: Client, prod: Cluster, name: str) -> None:
    page = assert_page(reader.get(f"/clusters/{name}"), 404)
    assert "There is no cluster" in page.text
    assert "Known clusters: prod" in page.text


@pytest.mark.parametrize(
    ("embedded", "hint"),
    [
        (True, "the log of OLM Web says more"),
        (False, "stays, check that a worker"),
    ],
)
def test_a_configured_cluster_without_a_sync_was_not_synced_yet(
    reader: Client, prod: Cluster, settings: Any, embedded: bool, hint: str
) -> None:
    settings.EMBEDDED, settings.CLUSTERS = embedded, ["prod", "lab=lab-admin"]
    page = assert_page(reader.get("/clusters/lab"), 404)
    assert "Not synced yet Cluster lab is configured and was not synced yet." in page.text
    assert hint in page.text
    assert "There is no cluster" not in page.text
    settings.CLUSTERS = ["not a name"]
    assert "There is no cluster lab." in assert_page(reader.get("/clusters/lab"), 404).text


def test_hostile_errors_are_escaped(reader: Client) -> None:
    cluster = make_cluster(name="prod", version=EVIL, server=EVIL)
    make_watch(cluster=cluster, resource=EVIL, kind=EVIL, state="retrying", error=EVIL * 30)
    page = assert_page(reader.get(PAGE))
    assert "img" not in page.tags[page.tags.index("main") :]


def test_its_fragment_is_swapped_only_when_a_feed_was_heard(
    reader: Client, prod: Cluster, django_assert_max_num_queries: Any
) -> None:
    row = make_watch(cluster=prod)
    make_operator(cluster=prod)
    with django_assert_max_num_queries(6):  # session, user, clusters, its kinds, feeds, objects
        reader.get(PAGE)
    fragment = reader.get(PAGE, headers={"HX-Request": "true"})
    assert_fragment(fragment)
    rev = fragment.content.decode().split("rev=")[1][:18]
    again = {"HX-Request": "true"}
    assert reader.get(PAGE, {"rev": rev}, headers=again).status_code == 204
    row.last_event_at = timezone.now()
    row.save()
    assert reader.get(PAGE, {"rev": rev}, headers=again).status_code == 200


def test_nothing_is_watched_on_a_cluster_that_is_not_synced(reader: Client, prod: Cluster) -> None:
    make_watch(cluster=prod, last_event_at=timezone.now() - timedelta(minutes=5))
    Cluster.objects.update(synced_at=timezone.now() - timedelta(minutes=5))
    response = reader.get(PAGE)
    assert "data-phone-fold" in response.content.decode(), "each row says the same"
    text = assert_page(response).text
    assert "served resources watched" not in text
    assert "Interrupted The cluster is not synced: the watch starts again with" in text
