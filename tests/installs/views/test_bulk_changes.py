"""One change for all operators of a cause: buttons, review, one confirmation, an action each."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser
from django.db import connection
from django.db.models import F
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from django.utils.html import escape

from catalogs.models import Bundle, Catalog
from installs.actions import execute, follow
from installs.actions.alternatives import alternatives, catalogs_beside
from installs.actions.bulk_changes import BulkChange, changes_for
from installs.diagnosis.entries import knowledge
from installs.diagnosis.knowledge import finding_for
from installs.models import Action, ActionBatch, Component, Operator
from installs.models.steps import Apply, Delete
from olmweb.accounts.roles import NOT_AN_OPERATOR
from olmweb.clusters import client_for
from olmweb.kube.errors import NotFound
from olmweb.kube.resources import PLATFORM_OPERATORS, SUBSCRIPTIONS
from olmweb.models import Cluster
from olmweb.sandbox.cluster import Sandbox
from tests.factories import (
    make_catalog,
    make_cluster,
    make_component,
    make_operator,
    make_package,
    make_prediction,
)
from tests.worlds.html import assert_page
from tests.worlds.operators import MODE, OWNED, make_action, make_failing
from tests.worlds.subscriptions import make_pending_approval

pytestmark = pytest.mark.django_db
URL = "/operators/bulk-change"
FINDING = "allnamespaces-required"
OF = {"cluster": "prod", "kind": "PlatformOperator", "finding": FINDING}
AT_ONCE = 'hx-trigger="load, submit"'
SERVED = {"state": "served", "version": "v1alpha1"}


@pytest.fixture
def failing() -> Cluster:
    """`prod`: acme and brisk fail in the catalog of a CatalogSource; crane is in no catalog."""
    cluster = make_cluster(name="prod", context="sandbox")
    cluster.kinds = {**cluster.kinds, "Subscription": SERVED}
    cluster.save()
    catalog = make_catalog(cluster=cluster, source_kind=Catalog.SourceKind.CATALOG_SOURCE)
    make_component(
        cluster=cluster, kind="CatalogSource", name=catalog.name, namespace="openshift-marketplace"
    )
    for name in ("acme", "brisk"):
        make_package(name=name, display_name=name, catalog=catalog)
    for name in ("acme", "brisk", "crane"):
        make_failing(cluster, name, MODE, uid=f"uid-{name}")
    return cluster


@pytest.fixture
def writer(client: Client, olivia: Any) -> Client:
    client.force_login(olivia)
    return client


def key(name: str) -> str:
    return f"PlatformOperator/-/{name}"


def form(change: str, *names: str, **more: Any) -> dict[str, Any]:
    return {**OF, "change": change, "pick": [key(name) for name in names], **more}


def review(client: Client, change: str, *names: str) -> Any:
    return client.post(URL, form(change, *names, step="review"))


def confirmation(response: Any, change: str, *names: str, **more: Any) -> dict[str, Any]:
    sent = {"key": response.context["key"], "reviewed": response.context["reviewed"]}
    return form(change, *names, step="confirm", **(sent | more))


def ticks(response: Any) -> dict[str, bool]:
    return {row["row"].operator.name: row["ticked"] for row in response.context["rows"]}


def test_a_removal_says_of_a_failed_installation_no_more_than_is_known(
    writer: Client, failing: Cluster, sandbox: Sandbox
) -> None:
    # An upgrade leaves the objects of the version before.
    updated = OWNED.replace("with install", "with update")
    collision = make_failing(failing, "collision", updated, "InstallFailed", uid="uid-collision")
    of = {**OF, "change": "remove", "finding": collision.finding}
    reviewed = {**of, "pick": [key("collision")], "step": "review"}
    for response in (writer.get(URL, of), writer.post(URL, reviewed)):
        assert "has installed nothing" not in response.content.decode()
        assert "It has not installed anything" not in response.content.decode()
    created = "any CustomResourceDefinition that it created with all its custom resources"
    assert created in response.content.decode()
    assert "It has not installed anything" in review(writer, "remove", "acme").content.decode()


def test_a_removal_after_a_refused_release_says_that_the_object_in_conflict_stays(
    writer: Client, failing: Cluster, sandbox: Sandbox
) -> None:
    collision = make_failing(failing, "collision", OWNED, "InstallFailed", uid="uid-collision")
    of = {**OF, "change": "remove", "finding": collision.finding}
    known = (
        "It has not installed anything, so no other object is deleted. Role leader-election in "
        "namespace openshift-operators, with which it is in conflict, stays as it is: it belongs "
        "to the release other."
    )
    response = writer.post(URL, {**of, "pick": [key("collision")], "step": "review"})
    single = assert_page(writer.get("/operators/prod/PlatformOperator/-/collision/remove"))
    for page in (assert_page(response), single):
        assert known in page.text
        assert "CustomResourceDefinition that it created" not in page.text
    (entry,) = (entry for entry in response.context["rows"] if entry["ticked"])
    assert entry["row"].item.plan.version == "", "no version is removed"


def test_a_cause_has_a_button_for_each_change_of_all_its_operators(
    client: Client, failing: Cluster, olivia: Any, bob: Any
) -> None:
    make_failing(failing, "collision", OWNED, "InstallFailed")
    client.force_login(olivia)
    response = client.get("/operators/?view=cause")
    page = assert_page(response)
    assert "Migrate 2 to Subscriptions" in page.text
    assert "1 can't be migrated: no catalog of the cluster offers it." in page.text
    assert "Remove 3 PlatformOperators" in page.text
    assert "Remove 1 PlatformOperator" in page.text
    assert "Retry 1 PlatformOperator" in page.text
    assert "Retry 3" not in page.text
    primary = re.findall(r"pf-m-primary[^>]*change=(\w+)", response.content.decode())
    assert primary == ["migrate"], "the remedy of a conflict is another than Retry"
    link = next(link for link in page.links if "change=migrate" in link)
    assert "finding=allnamespaces-required" in link
    assert "Migrate PlatformOperators to Subscriptions" in assert_page(client.get(link)).text
    client.force_login(bob)
    response = client.get("/operators/?view=cause")
    page = assert_page(response)
    assert "Migrate 2 to Subscriptions" in page.text
    assert not any("bulk-change" in link for link in page.links)
    content = response.content.decode()
    blocks = content.count("olm-cause-block")
    assert content.count(NOT_AN_OPERATOR) == content.count('id="why-not-') == blocks


def test_the_overview_leads_to_the_review_of_the_first_change_of_a_cause(
    client: Client, failing: Cluster, olivia: Any, bob: Any
) -> None:
    client.force_login(olivia)
    page = assert_page(client.get("/"))
    assert "Migrate to Subscriptions with AllNamespaces" in page.text
    link = next(link for link in page.links if "change=migrate" in link)
    opened = client.get(link)
    assert AT_ONCE in opened.content.decode()
    assert (
        "A server-side dry run of 2 operators is running. Its result follows here."
        in assert_page(opened).text
    )
    assert "Waiting for the cluster" not in assert_page(opened).text
    cancel = '<a class="pf-v6-c-button pf-m-link" href="/?cluster=prod">Cancel</a>'
    assert cancel in opened.content.decode()
    again = client.post(URL, form("migrate", "acme") | {"from": "overview"})
    assert cancel in again.content.decode()
    reviewed = client.post(URL, form("migrate", "acme"))
    assert 'href="/operators/?view=cause">Cancel</a>' in reviewed.content.decode()
    assert AT_ONCE not in reviewed.content.decode()
    client.force_login(bob)
    page = assert_page(client.get("/"))
    assert "Migrate to Subscriptions with AllNamespaces" in page.text
    assert NOT_AN_OPERATOR in page.text
    assert not any("bulk-change" in link for link in page.links)
    menu = page.text.partition("Signed in as bob")[2]
    assert menu.startswith(" Role viewer: reads, and may request installations")


def test_a_change_of_no_operator_is_not_reviewed_by_itself(
    client: Client, failing: Cluster, olivia: Any
) -> None:
    Operator.objects.exclude(name="crane").delete()
    client.force_login(olivia)
    assert AT_ONCE not in client.get(URL, form("migrate")).content.decode()


def test_a_cause_on_many_clusters_is_mended_on_those_with_most_operators_first(
    client: Client, failing: Cluster, olivia: Any
) -> None:
    for number in range(5):
        cluster = make_cluster(name=f"edge{number}", kinds=failing.kinds)
        for name in ("acme", "brisk", "crane", "delta")[: number % 3 + 1]:
            make_failing(cluster, name, MODE, uid=f"{number}-{name}")
    client.force_login(olivia)
    page = assert_page(client.get("/operators/?view=cause"))
    deletions = re.findall(r"Remove \d PlatformOperators? on (\w+)", page.text)
    assert sorted(deletions) == ["edge2", "prod"]
    assert "4 more clusters: choose one in the filter Cluster" in page.text


def test_one_confirmation_also_deletes_the_operator_whose_package_has_a_subscription(
    writer: Client, failing: Cluster, sandbox: Sandbox
) -> None:
    make_operator(
        cluster=failing, name="brisk-sub", kind="Subscription", namespace="a", package="brisk",
        health="Degraded",
    )  # fmt: skip
    causes = assert_page(writer.get("/operators/?view=cause"))
    assert "Migrate 1 to Subscription, remove 1 " in causes.text
    assert "The package of 1 has a Subscription already" in causes.text
    link = next(link for link in causes.links if "change=migrate" in link)
    form = writer.get(link)
    assert ticks(form) == {"acme": True, "brisk": True, "crane": False}
    page = assert_page(form)
    assert "2 of 3 selected: 1 to migrate, 1 to remove" in page.text
    assert "Delete only: its package has a Subscription already, brisk-sub Degraded" in page.text
    assert "/operators/prod/Subscription/a/brisk-sub" in page.links
    reviewed = review(writer, "migrate", "acme", "brisk")
    page = assert_page(reviewed)
    assert "Migrate 1, remove 1" in page.text
    assert "Its package has a Subscription already: brisk-sub Degraded" in page.text
    created = "Creates Subscription acme in new namespace acme, with an OperatorGroup"
    assert f"{created} Deletes PlatformOperator acme" in page.text
    assert "It has not installed anything, so no other object is deleted." in page.text
    assert "/operators/prod/Subscription/a/brisk-sub" in page.links
    writer.post(URL, confirmation(reviewed, "migrate", "acme", "brisk"))
    batch = ActionBatch.objects.get()
    assert (batch.verb, batch.path) == ("migrate", "")
    assert [left["package"] for left in batch.left_out] == ["crane"]
    assert sorted(batch.actions.values_list("verb", "path", "name")) == [
        ("install", "Subscription", "acme"),
        ("remove", "PlatformOperator", "brisk"),
    ]
    assert list(batch.actions.get(name="brisk").steps) == [
        Delete("PlatformOperator", "", "brisk", "uid-brisk", main=True)
    ]
    batch.actions.update(state="succeeded")
    page = assert_page(writer.get(f"/activity/bulk-installs/{batch.pk}"))
    assert "All 2 have finished. Succeeded 2: 1 migrated, 1 removed" in page.text
    assert "3 operators of these packages need attention: acme , brisk , brisk-sub" in page.text
    assert "/operators/prod/Subscription/a/brisk-sub" in page.links
    Operator.objects.filter(package="acme").delete()
    Operator.objects.filter(name="brisk").delete()
    page = assert_page(writer.get(f"/activity/bulk-installs/{batch.pk}"))
    assert "1 operator of these packages needs attention: brisk-sub" in page.text
    assert "/operators/?cluster=prod&view=cause" in page.links


def test_a_namespace_of_several_is_created_with_the_first(
    writer: Client, failing: Cluster, sandbox: Sandbox
) -> None:
    Bundle.objects.update(suggested_namespace="shared")
    page = assert_page(review(writer, "migrate", "acme", "brisk"))
    assert "Subscription acme in new namespace shared, with an OperatorGroup Del" in page.text
    assert "Subscription brisk in namespace shared, which is created with acme Del" in page.text


def test_a_migration_installs_from_the_catalog_that_the_page_of_the_operator_offers(
    writer: Client, failing: Cluster, sandbox: Sandbox
) -> None:
    """That of the PlatformOperator, also if the name of another comes first."""
    kind = Catalog.SourceKind.CATALOG_SOURCE
    community = make_catalog(cluster=failing, name="community-operators", source_kind=kind)
    marketplace = "openshift-marketplace"
    make_component(
        cluster=failing, kind="CatalogSource", name=community.name, namespace=marketplace
    )
    Component.objects.filter(kind="CatalogSource").update(details={"state": "READY"})
    make_package(name="acme", catalog=community)

    def alone(name: str) -> list[str]:
        operator = Operator.objects.get(name=name)
        forms = alternatives(
            AnonymousUser(), operator, ["Subscription"], lambda: catalogs_beside(operator)
        )
        return [form.url.split("/")[3] for form in forms]

    def together(name: str) -> str:
        response = review(writer, "migrate", name)
        (entry,) = (entry for entry in response.context["rows"] if entry["ticked"])
        (catalog,) = re.findall(r"source: (\S+)", entry["row"].item.plan.yaml)
        text = assert_page(response).text
        assert f"Installs from catalog {catalog}" in text
        assert ("the Subscription from" in text) == (catalog != "redhat-operators")
        return str(catalog)

    assert alone("acme") == ["redhat-operators"]
    assert together("acme") == "redhat-operators"
    form = assert_page(writer.get(URL, {**OF, "change": "migrate"}))
    assert "Subscription from redhat-operators" in form.text
    own = Bundle.objects.filter(package__name="acme", package__catalog__name="redhat-operators")
    for bundle in own:
        make_prediction(bundle=bundle, rule="sub-mode", path="Subscription", sentence="No mode.")
    assert alone("acme") == ["community-operators"]
    assert together("acme") == "community-operators"


def test_a_cause_whose_packages_all_have_subscriptions_offers_deletion_only(
    client: Client, failing: Cluster, olivia: Any
) -> None:
    for name in ("acme", "brisk"):
        make_operator(
            cluster=failing, name=f"{name}-sub", kind="Subscription", namespace="a", package=name
        )
    client.force_login(olivia)
    causes = assert_page(client.get("/operators/?view=cause"))
    assert "Migrate" not in causes.text
    assert "The packages of 2 have Subscriptions already: only the PlatformOp" in causes.text
    assert "1 can't be migrated" in causes.text
    assert "Remove 3 PlatformOperators" in causes.text


def test_who_may_not_act_is_refused(client: Client, failing: Cluster, bob: Any) -> None:
    assert client.get(URL, form("migrate"))["Location"].startswith("/login/")
    client.force_login(bob)
    assert client.get(URL, form("migrate")).status_code == 403
    assert review(client, "migrate", "acme").status_code == 403


def test_the_form_asks_no_cluster_and_names_what_can_not_be_changed(
    writer: Client, failing: Cluster, django_assert_max_num_queries: Any
) -> None:
    make_action(failing, "brisk")
    with django_assert_max_num_queries(14):
        response = writer.get(URL, {**OF, "change": "migrate"})
    page = assert_page(response)
    assert ticks(response) == {"acme": True, "brisk": False, "crane": False}
    assert "No catalog of cluster prod offers it as a Subscription." in page.text
    assert "is not finished." in page.text
    assert "2 of 3" not in page.text
    assert "1 of 3 selected" in page.text


@pytest.mark.parametrize(
    "query",
    [
        {},
        {"change": "explode"},
        {**OF, "change": "explode"},
        {"change": "retry", "cluster": "gone"},
    ],
)
def test_an_address_without_a_change_or_a_cause_has_a_sentence(
    writer: Client, failing: Cluster, query: dict[str, str]
) -> None:
    page = assert_page(writer.get(URL, query))
    assert "Back to the operators" in page.text


def test_one_confirmation_migrates_each_by_one_action(
    writer: Client, failing: Cluster, sandbox: Sandbox
) -> None:
    reviewed = review(writer, "migrate", "acme", "brisk")
    page = assert_page(reviewed)
    assert "Cluster prod would accept the change of 2 PlatformOperators." in page.text
    assert not Action.objects.exists()
    sent = confirmation(reviewed, "migrate", "acme", "brisk")
    confirmed = writer.post(URL, sent)
    batch = ActionBatch.objects.get()
    assert confirmed["Location"] == f"/activity/bulk-installs/{batch.pk}"
    assert (batch.verb, batch.path) == ("migrate", "Subscription")
    assert sorted(batch.actions.values_list("verb", "path", "name")) == [
        ("install", "Subscription", "acme"),
        ("install", "Subscription", "brisk"),
    ]
    steps = batch.actions.get(name="acme").steps
    assert isinstance(steps[-2], Apply)
    assert steps[-2].main
    assert steps[-1] == Delete("PlatformOperator", "", "acme", "uid-acme")
    page = assert_page(writer.get(confirmed["Location"]))
    assert "Bulk migration of 2" in page.text
    assert "crane : No catalog of cluster prod" in page.text


def test_the_outcome_of_a_review_comes_first_and_has_the_focus(
    writer: Client, failing: Cluster, sandbox: Sandbox
) -> None:
    assert "data-focus" not in writer.get(URL, {**OF, "change": "migrate"}).content.decode()
    response = review(writer, "migrate", "acme", "brisk")
    html = response.content.decode()
    assert html.index("data-focus") < html.index('value="confirm"') < html.index('name="pick"')
    assert html.count("data-focus") == 1
    outcome = assert_page(response).text.partition("Dry run passed")[2].partition("Each operator")
    assert "1 can't be changed: crane: No catalog of cluster prod offers it" in outcome[0]


def test_a_review_names_the_cause_and_the_update_approval_of_new_subscriptions(
    writer: Client, failing: Cluster, sandbox: Sandbox
) -> None:
    cause = "on prod, cause: AllNamespaces install mode required by PlatformOperator"
    approval = "Update approval of the new Subscriptions"
    page = assert_page(writer.get(URL, {**OF, "change": "migrate"}))
    assert cause in page.text
    assert approval in page.text
    assert "Review names every object." in page.text
    response = review(writer, "migrate", "acme")
    page = assert_page(response)
    assert cause in page.text
    assert page.text.index(approval) < page.text.index("Operators 1 of 3 selected")
    assert "Review names every object." not in page.text
    (plan,) = (entry["row"].item.plan for entry in response.context["rows"] if entry["ticked"])
    assert "installPlanApproval: Automatic" in plan.yaml
    assert approval not in assert_page(review(writer, "remove", "acme")).text


def test_a_migration_can_leave_updates_to_approvals(
    writer: Client, failing: Cluster, sandbox: Sandbox
) -> None:
    chosen = form("migrate", "acme", step="review", approval="Manual")
    response = writer.post(URL, chosen)
    (plan,) = (entry["row"].item.plan for entry in response.context["rows"] if entry["ticked"])
    assert "installPlanApproval: Manual" in plan.yaml
    assert 'value="Manual" aria-describedby="field-approval-Manual-hint" checked' in " ".join(
        response.content.decode().split()
    )
    switched = confirmation(response, "migrate", "acme", approval="Automatic")
    assert "Form changed, nothing applied." in assert_page(writer.post(URL, switched), 422).text
    writer.post(URL, confirmation(response, "migrate", "acme", approval="Manual"))
    (action,) = Action.objects.all()
    (apply,) = (step for step in action.steps if isinstance(step, Apply) and step.main)
    assert apply.manifest["spec"]["installPlanApproval"] == "Manual"
    none_ticked = writer.post(URL, form("migrate", step="review", approval="Manual"))
    assert 'name="approval" value="Manual"' in none_ticked.content.decode()
    refused = assert_page(writer.post(URL, chosen | {"approval": "Never"}), 422)
    assert "The approval is Automatic or Manual." in refused.text


def test_a_migration_deletes_the_platformoperator_after_its_subscription_is_created(
    writer: Client, failing: Cluster, sandbox: Sandbox
) -> None:
    with client_for(failing) as cluster:
        manifest = {
            "apiVersion": "platform.openshift.io/v1alpha1",
            "kind": "PlatformOperator",
            "metadata": {"name": "acme"},
            "spec": {"package": {"name": "acme"}},
        }
        uid = cluster.apply(PLATFORM_OPERATORS, "v1alpha1", manifest, field_manager="t")
        Operator.objects.filter(name="acme").update(uid=uid["metadata"]["uid"])
        writer.post(URL, confirmation(review(writer, "migrate", "acme"), "migrate", "acme"))
        action = Action.objects.get()
        execute.try_to_send(action)
        action.refresh_from_db()
        assert (action.state, action.outcome) == ("applied", "")
        assert action.done[-2:] == ["Subscription acme/acme", "deleted PlatformOperator acme"]
        cluster.get(SUBSCRIPTIONS, "v1alpha1", "acme", "acme")
        with pytest.raises(NotFound):
            cluster.get(PLATFORM_OPERATORS, "v1alpha1", "acme")
    subscription = make_operator(
        cluster=failing, kind="Subscription", namespace="acme", name="acme", version="1.2.0",
        uid=action.object_uid, generation=action.object_generation,
    )  # fmt: skip
    outcomes = []
    for health in ("NeedsApproval", "Healthy"):
        Operator.objects.filter(pk=subscription.pk).update(
            health=health, details={"plan": "install-1"}
        )
        Action.objects.update(state="applied")
        assert follow._settle(Action.objects.get(), is_current=True)
        outcomes.append(Action.objects.get().outcome)
    assert outcomes == [
        "acme is subscribed; InstallPlan install-1 requires approval. "
        "PlatformOperator acme is removed.",
        "acme 1.2.0 is installed. PlatformOperator acme is removed.",
    ]


def test_a_second_confirmation_makes_no_second_actions(
    writer: Client, failing: Cluster, sandbox: Sandbox
) -> None:
    sent = confirmation(review(writer, "migrate", "acme"), "migrate", "acme")
    first = writer.post(URL, sent)
    Operator.objects.filter(name="acme").delete()
    assert writer.post(URL, sent)["Location"] == first["Location"]
    again = writer.post(URL, sent | {"key": "another"})
    assert again.status_code == 422
    assert (ActionBatch.objects.count(), Action.objects.count()) == (1, 1)


def test_only_what_was_reviewed_is_confirmed(
    writer: Client, failing: Cluster, sandbox: Sandbox
) -> None:
    reviewed = review(writer, "remove", "acme")
    more = confirmation(reviewed, "remove", "acme", "brisk", sure="yes")
    page = assert_page(writer.post(URL, more), 422)
    assert "nothing applied" in page.text
    assert writer.post(URL, form("remove", step="review")).status_code == 422
    assert not Action.objects.exists()


def test_deletions_are_confirmed_by_a_tick(
    writer: Client, failing: Cluster, sandbox: Sandbox
) -> None:
    reviewed = review(writer, "remove", "acme", "crane")
    assert "I understand that these resources will be deleted" in assert_page(reviewed).text
    sent = confirmation(reviewed, "remove", "acme", "crane")
    assert "Tick the box" in assert_page(writer.post(URL, sent), 422).text
    assert not Action.objects.exists()
    confirmed = writer.post(URL, sent | {"sure": "yes"}, headers={"HX-Request": "true"})
    assert confirmed["HX-Redirect"] == f"/activity/bulk-installs/{ActionBatch.objects.get().pk}"
    assert {(row.verb, row.path) for row in Action.objects.all()} == {
        ("remove", "PlatformOperator")
    }


def test_what_the_cluster_refuses_is_deselected_with_its_sentence(
    client: Client, failing: Cluster, tess: Any, sandbox: Sandbox
) -> None:
    client.force_login(tess)
    response = review(client, "remove", "acme")
    assert "None of these can be changed" in assert_page(response, 422).text
    assert ticks(response) == {"acme": False, "brisk": False, "crane": False}


def test_changes_are_those_that_the_remedy_names() -> None:
    for entry in knowledge():
        finding = finding_for(entry.id, {}, {})
        changes = changes_for(finding, "PlatformOperator")
        assert (BulkChange.RETRY in changes) == entry.retryable
        if BulkChange.MIGRATE in changes:
            assert "Subscription" in entry.instead
        if BulkChange.REMOVE in changes:
            assert any("delete" in step.lower() for step in entry.remedy)
        assert BulkChange.MIGRATE not in changes_for(finding, "ClusterExtension")
        assert not changes_for(finding, "ClusterServiceVersion")
    assert not changes_for(None, "PlatformOperator")


@pytest.mark.parametrize(("verb", "shown"), [("remove", True), ("install", False)])
def test_the_outcome_of_a_bulk_change_says_what_blocks_the_cluster_update(
    writer: Client, failing: Cluster, verb: str, shown: bool
) -> None:
    failing.kinds["ClusterVersion"] = SERVED
    failing.version = "4.16.3"
    failing.save()
    make_component(
        cluster=failing, kind="ClusterVersion", name="version", details={"version": "4.16.3"}
    )
    batch = ActionBatch.objects.create(cluster=failing, verb=verb, idempotency_key="1")
    action = make_action(failing, "acme", verb="remove", state="applied", batch=batch)
    path = f"/activity/bulk-installs/{batch.pk}"
    assert "OpenShift 4.17" not in assert_page(writer.get(path)).text
    Action.objects.update(state="succeeded", finished_at=timezone.now())
    response = writer.get(path)
    page = assert_page(response)
    assert ("OpenShift 4.17" in page.text) == shown
    assert ("/readiness/?cluster=prod" in page.links) == shown
    assert response.context["final"] == (not shown), "ClusterOperators follow within a minute"
    Action.objects.filter(pk=action.pk).update(finished_at=timezone.now() - timedelta(minutes=2))
    assert writer.get(path).context["final"]
    if shown:
        condition = {"type": "Failing", "status": "True", "message": "Cluster operator is not up"}
        Component.objects.filter(kind="ClusterVersion").update(conditions=[condition])
        Cluster.objects.update(revision=F("revision") + 1)
        text = assert_page(writer.get(path)).text
        verdict = "No known blocker for OpenShift 4.17; 1 check is incomplete."
        assert f"Unknown {verdict}" in page.text
        assert f"Cluster failing {verdict} While the cluster is failing," in text


# --- selected rows of the list -------------------------------------------------------------------


def address(operator: Operator) -> str:
    return f"{operator.cluster.name}/{operator.kind}/{operator.namespace or '-'}/{operator.name}"


def selection(change: str, *operators: Operator, **more: Any) -> dict[str, Any]:
    return {
        "change": change,
        "selection": "yes",
        "operator": [address(operator) for operator in operators],
        "pick": [address(operator).partition("/")[2] for operator in operators],
        **more,
    }


@pytest.fixture
def operators() -> list[Operator]:
    """Two that failed for different causes, and a healthy one."""
    prod = make_cluster(name="prod", context="sandbox")
    return [
        make_failing(prod, "mode", MODE),
        make_failing(prod, "collision", OWNED, "InstallFailed"),
        make_operator(cluster=prod, name="fine"),
    ]


def test_the_list_sends_its_selection(writer: Client, operators: list[Operator]) -> None:
    response = writer.get("/operators/", {"view": "all"})
    page = assert_page(response)
    text = " ".join(response.content.decode().split())
    assert f'form="bulk" name="operator" value="{address(operators[0])}"' in text
    assert "With the selected operators: Approve Retry Migrate to Subscription Remove" in page.text
    chosen = writer.get(URL, selection("remove", *operators))
    assert ticks(chosen) == {"collision": True, "fine": True, "mode": True}
    assert "Remove 3 operators" in assert_page(chosen).text


def test_a_row_lists_the_changes_that_it_allows(writer: Client, operators: list[Operator]) -> None:
    prod = operators[0].cluster
    waiting = make_pending_approval(prod)
    rows = writer.get("/operators/", {"view": "all"}).context["rows"]
    assert {row.line.operator.name: set(map(str, row.changes)) for row in rows} == {
        "mode": {"migrate", "retry"},
        "collision": {"retry"},
        "fine": set(),
        waiting.name: {"approve"},
        "loki": {"approve"},
    }


def test_a_migration_that_is_possible_for_no_operator_has_no_review_and_says_why(
    writer: Client, operators: list[Operator]
) -> None:
    response = writer.get(URL, selection("migrate", operators[1]))
    page = assert_page(response)
    assert "does not name a Subscription. It may have created objects" in page.text
    assert "There is nothing to review: this change is possible for none" in page.text
    assert 'value="review"' not in response.content.decode()
    possible = writer.get(URL, selection("retry", operators[1]))
    assert 'value="review"' in possible.content.decode()


def test_a_canceled_change_leads_back_to_the_list_with_its_filters_page_and_ticks(
    writer: Client, operators: list[Operator]
) -> None:
    listed = {"view": "all", "kind": "PlatformOperator", "sort": "name"}
    opened = writer.get("/operators/", listed)
    query = opened.context["list_query"]
    assert f'name="list" value="{escape(query)}"' in opened.content.decode()
    chosen = selection("remove", *operators[:2], list=query)
    for response in (writer.get(URL, chosen), writer.post(URL, chosen)):
        back = response.context["back"]
        assert f'href="{escape(back)}">Cancel' in response.content.decode()
        again = writer.get(back)
        assert again.context["filters"].kind == "PlatformOperator"
        assert again.context["sort"] == "name"
        ticked = {row.line.operator.name: row.ticked for row in again.context["rows"]}
        assert ticked == {"collision": True, "fine": False, "mode": True}
        boxes = re.findall(r'name="operator"[^>]*>', again.content.decode())
        assert sum("checked" in box for box in boxes) == 2
        ticks_in_links = [link for link in assert_page(again).links if "operator=" in link]
        assert not ticks_in_links, "of fifty rows they are hundreds of kilobytes"


def test_a_canceled_change_of_a_cause_leads_back_to_the_causes_with_their_filters(
    client: Client, failing: Cluster, olivia: Any
) -> None:
    client.force_login(olivia)
    page = assert_page(client.get("/operators/", {"view": "cause", "q": "acme"}))
    link = next(link for link in page.links if "change=migrate" in link)
    assert client.get(link).context["back"] == "/operators/?view=cause&q=acme"


def test_a_view_is_remembered_without_its_ticks(writer: Client, operators: list[Operator]) -> None:
    writer.get("/operators/", {"view": "all", "operator": address(operators[0])})
    assert writer.get("/operators/")["Location"] == "/operators/?view=all"


def test_viewers_can_select_nothing(client: Client, operators: list[Operator], bob: Any) -> None:
    client.force_login(bob)
    page = client.get("/operators/", {"view": "all"})
    assert 'name="operator"' not in page.content.decode()


def test_selected_operators_that_can_not_be_changed_say_why(
    writer: Client, operators: list[Operator]
) -> None:
    prod = operators[0].cluster
    make_action(prod, "mode", state="applied", verb="retry")
    csv = make_operator(cluster=prod, name="csv", kind="ClusterServiceVersion", namespace="a")
    response = writer.get(URL, selection("retry", *operators, csv))
    page = assert_page(response)
    assert ticks(response) == {"collision": True, "csv": False, "fine": False, "mode": False}
    assert "does not change objects of the kind ClusterServiceVersion" in page.text
    assert "It did not fail." in page.text
    assert "is not finished" in page.text


@pytest.mark.parametrize("query", [{}, {"operator": "prod/PlatformOperator/-/nobody"},
                                   {"operator": "\x01//"}])  # fmt: skip
def test_a_selection_of_nothing_has_a_sentence(
    writer: Client, operators: list[Operator], query: dict[str, str]
) -> None:
    page = assert_page(writer.get(URL, {"change": "remove", "selection": "yes", **query}))
    assert "No operator is selected." in page.text


def test_operators_of_several_clusters_are_not_changed_together(
    writer: Client, operators: list[Operator]
) -> None:
    other = make_operator(cluster=make_cluster(name="edge"), name="other")
    page = assert_page(writer.get(URL, selection("remove", operators[0], other)))
    assert "on several clusters: edge, prod" in page.text


def test_selected_operators_are_removed_after_one_confirmation(
    writer: Client, operators: list[Operator], sandbox: Sandbox
) -> None:
    reviewed = writer.post(URL, selection("remove", *operators, step="review")).context
    sent = {"key": reviewed["key"], "reviewed": reviewed["reviewed"], "step": "confirm"}
    response = writer.post(URL, selection("remove", *operators, sure="yes", **sent))
    batch = ActionBatch.objects.get()
    assert response["Location"] == f"/activity/bulk-installs/{batch.pk}"
    assert (batch.verb, batch.path, batch.actions.count()) == ("remove", "PlatformOperator", 3)


def test_selected_operators_are_migrated_if_nothing_of_them_is_installed(
    writer: Client, failing: Cluster, sandbox: Sandbox
) -> None:
    acme, brisk = Operator.objects.filter(name__in=("acme", "brisk")).order_by("name")
    fine = make_operator(cluster=failing, name="fine")
    subscription = make_operator(cluster=failing, name="sub", kind="Subscription", namespace="a")
    chosen = (acme, brisk, fine, subscription)
    response = writer.get(URL, selection("migrate", *chosen))
    page = assert_page(response)
    assert "Migrate operators to Subscriptions" in page.text
    assert ticks(response) == {"acme": True, "brisk": True, "fine": False, "sub": False}
    assert "It did not fail. Only a PlatformOperator that failed can be migrated." in page.text
    assert "It is a Subscription. Only a PlatformOperator can be migrated." in page.text
    reviewed = writer.post(URL, selection("migrate", acme, brisk, step="review")).context
    sent = {"key": reviewed["key"], "reviewed": reviewed["reviewed"], "step": "confirm"}
    writer.post(URL, selection("migrate", acme, brisk, **sent))
    batch = ActionBatch.objects.get()
    assert (batch.verb, batch.path, batch.actions.count()) == ("migrate", "Subscription", 2)


def test_operators_of_one_installplan_are_approved_once(
    writer: Client, operators: list[Operator]
) -> None:
    prod = operators[0].cluster
    first = make_pending_approval(prod)
    plan = {"plan": first.details["plan"], "plan_namespace": first.namespace}
    second = make_operator(
        cluster=prod, name="zweitens", kind="Subscription", namespace=first.namespace,
        health="NeedsApproval", details=plan,
    )  # fmt: skip
    response = writer.get(URL, selection("approve", first, second, operators[2]))
    page = assert_page(response)
    assert ticks(response) == {first.name: True, "fine": False, "zweitens": False}
    assert f"Its InstallPlan is approved with {first.name}." in page.text
    assert "None of its InstallPlans requires approval." in page.text


def test_a_selection_beyond_the_limit_is_refused_and_not_cut(
    writer: Client, operators: list[Operator]
) -> None:
    prod = operators[0].cluster
    many = [make_operator(cluster=prod, name=f"many-{number:02}") for number in range(52)]
    page = assert_page(writer.get(URL, selection("remove", *many)))
    assert "52 operators are selected; at most 50 can be changed at once." in page.text
    assert "Deselect 2 of them." in page.text


def test_a_bulk_approval_of_one_version_each_is_planned_and_confirmed_as_such(
    writer: Client, operators: list[Operator]
) -> None:
    prod = operators[0].cluster
    first = make_pending_approval(prod)
    Operator.objects.filter(pk=first.pk).update(details=first.details | {"current_csv": "x.v1"})
    response = writer.get(URL, selection("approve", first))
    assert "Approve only the next version of each selected operator" in assert_page(response).text
    response = writer.post(URL, selection("approve", first, step="review", only="yes"))
    (entry,) = response.context["rows"]
    assert entry["row"].item.plan.version == "x.v1"
    assert 'name="only" value="yes" checked' in " ".join(response.content.decode().split())


def test_the_outcome_reads_as_many_operators_as_it_names(writer: Client, failing: Cluster) -> None:
    batch = ActionBatch.objects.create(cluster=failing, verb="install", idempotency_key="1")
    make_action(failing, "acme", state="succeeded", batch=batch, finished_at=timezone.now())
    for number in range(13):
        make_operator(cluster=failing, name=f"acme-{number:02}", package="acme", health="Failed")
    with CaptureQueriesContext(connection) as queries:
        response = writer.get(f"/activity/bulk-installs/{batch.pk}")
    page = assert_page(response)
    assert len(response.context["attention"]) == 10
    assert "14 operators of these packages need attention: acme , acme-00 , " in page.text
    assert "acme-08 and 4 more" in page.text
    reads = [
        query["sql"]
        for query in queries
        if 'FROM "installs_operator"' in query["sql"] and "LIMIT" in query["sql"]
    ]
    assert [("LIMIT 10" in sql, '"conditions"' in sql) for sql in reads] == [(True, False)]
