"""The deletion of leftovers: selection, refusals, dry run and confirmation on the page; REST."""

from typing import Any

import pytest
from django.test import Client

from installs.actions.clean_up import adopted_again, chosen_first, plan_clean_up
from installs.models import Action, ClusterInventory, CopyReport
from installs.models.steps import from_json, to_json
from installs.queries.leftovers import removed_owner
from installs.state.full_sync import sync_cluster
from olmweb.errors import BadRequest, OlmwebError
from olmweb.models import Cluster
from olmweb.sandbox.cluster import Sandbox
from tests.factories import make_cluster, make_component, make_crd, make_operator
from tests.worlds.html import assert_page

pytestmark = pytest.mark.django_db
PAGE = "/leftovers/prod/Subscription/apps/etcd/clean-up"
CONVERSION = {"conversion": {"namespace": "apps", "name": "etcd-operator-service"}}
OWNED = {"owner_kind": "Operator", "owner_name": "etcd.apps"}
CRD = "CustomResourceDefinition etcds.example.com"
PLAIN = "CustomResourceDefinition backups.example.com"


@pytest.fixture
def prod(sandbox: Sandbox) -> Cluster:
    """The sandbox's cluster with rows of what a Subscription `etcd` left."""
    cluster = make_cluster(name="prod", context="sandbox")
    sync_cluster(cluster)
    cluster.refresh_from_db()
    make_crd(cluster=cluster, name="etcds.example.com", details=CONVERSION, **OWNED)
    make_crd(cluster=cluster, name="backups.example.com", **OWNED)
    make_component(cluster=cluster, kind="OperatorGroup", name="apps", namespace="apps")
    ClusterInventory.objects.create(
        cluster=cluster,
        instances={"etcds.example.com": 3, "backups.example.com": 0},
        orphans={
            "ValidatingWebhookConfiguration": {"vetcd-x1": "apps/etcd.v1"},
            "ClusterRole": {"etcd.v1-abc": "apps/etcd.v1"},
        },
        shared={"PriorityClass": {"etcd-high": "ClusterExtension/other"}},
    )
    copies = {"name": "etcd.v1", "namespace": "apps", "copies": 12, "orphan": True}
    CopyReport.objects.create(cluster=cluster, state="done", result={"operators": [copies]})
    return cluster


@pytest.fixture
def writer(client: Client, olivia: Any) -> Client:
    client.force_login(olivia)
    return client


def plan(cluster: Cluster, *labels: str, **more: bool) -> Any:
    owner = removed_owner(cluster, "Subscription", "apps", "etcd")
    assert owner is not None
    return plan_clean_up(cluster, owner, labels or chosen_first(owner), **more)


def test_the_steps_are_in_the_order_that_works_and_a_namespace_is_not_chosen_by_itself(
    prod: Cluster,
) -> None:
    planned = plan(prod, without_conversion=True)
    assert [step.label for step in planned.steps] == [
        "ValidatingWebhookConfiguration vetcd-x1",
        "conversion webhook of etcds.example.com",
        "all backups.example.com",
        "all etcds.example.com",
        PLAIN,
        CRD,
        "ClusterRole etcd.v1-abc",
        "copies of ClusterServiceVersion etcd.v1",
        "OperatorGroup apps/apps",
    ]
    assert (planned.verb, planned.kind, planned.name) == ("clean-up", "Subscription", "etcd")
    assert from_json(to_json(planned.steps)) == planned.steps
    assert "(3 when the cluster was read last)" in planned.consequences[0]
    assert ", then the definitions." in planned.consequences[0]
    assert ", then the definition." in plan(prod, PLAIN).consequences[0]
    with_namespace = plan(prod, PLAIN, CRD, "Namespace apps", without_conversion=True)
    assert with_namespace.steps[-1].label == "Namespace apps"
    assert with_namespace.consequences[-1].endswith("with everything in it.")


def test_nothing_that_needs_a_conversion_goes_without_an_explicit_word(prod: Cluster) -> None:
    with pytest.raises(OlmwebError, match="can't be read") as refused:
        plan(prod, CRD)
    assert (refused.value.code, refused.value.status) == ("conversion-webhook", 409)
    assert plan(prod, PLAIN).steps, "no conversion, no word"
    # The Service of the webhook is in the namespace, and its definition would stay.
    for word in (False, True):
        with pytest.raises(OlmwebError, match=r"Namespace apps holds .* etcds.example.com") as kept:
            plan(prod, "Namespace apps", without_conversion=word)
        assert kept.value.code == "conversion-webhook"


def test_a_selection_of_nothing_or_of_something_else_is_refused(prod: Cluster) -> None:
    owner = removed_owner(prod, "Subscription", "apps", "etcd")
    assert owner is not None
    with pytest.raises(BadRequest, match="at least one"):
        plan_clean_up(prod, owner, ())
    with pytest.raises(BadRequest, match="Namespace kube-system is not among the leftovers"):
        plan_clean_up(prod, owner, ("Namespace kube-system",))


def test_what_belongs_to_an_operator_again_is_not_deleted_and_neither_are_its_custom_resources(
    prod: Cluster,
) -> None:
    steps = plan(prod, PLAIN, CRD, without_conversion=True).steps
    assert adopted_again(prod, steps) == set()
    make_operator(cluster=prod, kind="Subscription", namespace="apps", name="etcd", package="etcd")
    make_component(
        cluster=prod, kind="ClusterServiceVersion", namespace="apps", name="etcd.v1",
        details={"owned_crds": ["etcds.example.com", "backups.example.com"]},
    )  # fmt: skip
    assert adopted_again(prod, steps) == {step.label for step in steps}


def test_the_page_needs_the_words_then_tries_and_then_records(
    writer: Client, prod: Cluster
) -> None:
    assert PAGE in assert_page(writer.get("/leftovers/")).links
    shown = writer.get(PAGE)
    page = assert_page(shown)
    assert "All custom resources of 2 CustomResourceDefinitions are deleted" in page.text
    assert "DELETE ClusterRole etcd.v1-abc" in page.text
    assert [row.label for row, ticked in shown.context["rows"] if ticked] == [
        "ValidatingWebhookConfiguration vetcd-x1", PLAIN, CRD, "ClusterRole etcd.v1-abc",
        "ClusterServiceVersion apps/etcd.v1", "OperatorGroup apps/apps",
    ]  # fmt: skip
    form: dict[str, Any] = {"pick": [CRD, "ClusterRole etcd.v1-abc"], "step": "review", "key": "k"}
    refused = writer.post(PAGE, form | {"sure": "yes"})
    assert refused.status_code == 422
    assert "conversion webhook" in assert_page(refused, status=422).text
    form["without_conversion"] = "yes"
    page = assert_page(writer.post(PAGE, form), status=422)
    assert "olivia may not change this" in page.text, "the rights of the person decide"
    assert "PATCH conversion webhook of etcds.example.com" in page.text
    form["pick"] = ["ClusterServiceVersion apps/etcd.v1", "OperatorGroup apps/apps"]
    tried = writer.post(PAGE, form)
    assert "Dry run passed" in assert_page(tried).text
    assert not Action.objects.exists()
    form |= {"step": "confirm", "reviewed": tried.context["reviewed"]}
    assert "Tick the box" in assert_page(writer.post(PAGE, form), status=422).text
    assert not Action.objects.exists()
    form["sure"] = "yes"
    other = writer.post(PAGE, form | {"pick": ["OperatorGroup apps/apps"]})
    assert "Form changed" in assert_page(other, status=422).text
    response = writer.post(PAGE, form)
    action = Action.objects.get()
    assert response.status_code == 303
    assert (action.verb, action.path, action.namespace, action.name) == (
        "clean-up", "Subscription", "apps", "etcd",
    )  # fmt: skip
    page = assert_page(writer.get(response["Location"]))
    assert "Deleted resources" in page.text
    assert "DELETE copies of ClusterServiceVersion etcd.v1" in page.text


def test_only_those_who_may_act_are_led_there(reader: Client, prod: Cluster) -> None:
    assert PAGE not in assert_page(reader.get("/leftovers/")).links
    assert reader.get(PAGE).status_code in (302, 403)


def test_nothing_is_left_of_an_operator_that_exists(writer: Client, prod: Cluster) -> None:
    assert writer.get("/leftovers/prod/Subscription/apps/other/clean-up").status_code == 404


def test_rest_tries_and_records_the_same(writer: Client, prod: Cluster) -> None:
    body: dict[str, Any] = {
        "cluster": "prod", "verb": "clean-up", "method": "Subscription", "namespace": "apps",
        "name": "etcd",
    }  # fmt: skip

    def post(**more: Any) -> Any:
        sent = body | more
        return writer.post("/api/v1/actions", sent, content_type="application/json")

    refused = post()
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "conversion-webhook")
    assert post(objects=["Namespace default"]).status_code == 400
    assert post(name="other").status_code == 404
    assert post(channel="stable").status_code == 422
    tried = post(dry_run=True, objects=["OperatorGroup apps/apps"])
    assert (tried.status_code, tried.json()["dry_run"]["ok"]) == (200, True)
    assert not Action.objects.exists()
    accepted = post(objects=["OperatorGroup apps/apps", "ClusterServiceVersion apps/etcd.v1"])
    assert accepted.status_code == 202
    assert (row := accepted.json())["verb"] == "clean-up"
    assert [step["kind"] for step in row["manifests"]] == ["ClusterServiceVersion", "OperatorGroup"]
