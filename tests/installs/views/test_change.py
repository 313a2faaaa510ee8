"""Install and remove: who is offered them, review with the cluster's dry run, errors, following."""

from typing import Any

import pytest
from django.test import Client

from catalogs.models import Catalog, Package
from installs.models import Action, ClusterInventory, CRDState, Operator
from olmweb.clusters import client_for
from olmweb.kube.resources import PLATFORM_OPERATORS
from olmweb.models import Cluster
from olmweb.sandbox.cluster import Sandbox
from tests.factories import make_catalog, make_cluster, make_crd, make_operator, make_package
from tests.worlds.html import assert_fragment, assert_page

pytestmark = pytest.mark.django_db
INSTALL = "/software/prod/redhat-operators/etcd/install"
REMOVE = "/operators/prod/PlatformOperator/-/etcd/remove"
HTMX = {"HX-Request": "true"}


@pytest.fixture
def prod() -> Cluster:
    return make_cluster(name="prod", context="sandbox")


@pytest.fixture
def package(prod: Cluster) -> Package:
    return make_package(name="etcd", display_name="etcd", catalog=make_catalog(cluster=prod))


@pytest.fixture
def operator(prod: Cluster) -> Operator:
    return make_operator(cluster=prod, name="etcd", uid="uid-1")


@pytest.fixture
def writer(client: Client, olivia: Any) -> Client:
    client.force_login(olivia)
    return client


def confirm(client: Client, path: str = INSTALL, **more: Any) -> Any:
    """The form of a review that passed, sent as the page would."""
    values = {"name": "etcd"} | more.pop("values", {})
    reviewed = client.post(path, {**values, "step": "review"}).context
    sent = {**values, "step": "confirm", "key": reviewed["key"], "reviewed": reviewed["reviewed"]}
    return client.post(path, sent, **more)


def remove_form(client: Client, path: str = REMOVE) -> dict[str, str]:
    return {"sure": "yes", "reviewed": client.get(path).context["reviewed"]}


def test_strangers_are_sent_to_sign_in_even_when_reading_is_public(
    client: Client, package: Package, operator: Operator, settings: Any
) -> None:
    settings.PUBLIC_READ = True
    for path in (INSTALL, REMOVE):
        assert client.get(path)["Location"].startswith("/login/?next=")
        assert client.post(path).status_code == 302
    assert not Action.objects.exists()


def test_the_form_asks_no_cluster_and_shows_exactly_what_would_be_sent(
    writer: Client, package: Package
) -> None:
    page = assert_page(writer.get(INSTALL))
    assert "kind: PlatformOperator" in page.text
    assert "name: etcd" in page.text
    assert "Not validated yet" in page.text
    assert "no-store" in writer.get(INSTALL)["Cache-Control"]


def test_warnings_come_with_their_rule(writer: Client, package: Package) -> None:
    Catalog.objects.filter(pk=package.catalog_id).update(name="community")
    page = assert_page(writer.get(INSTALL))
    assert "PlatformOperators are installed from CatalogSource" in page.text
    assert "Rule po-other-catalog" in page.text


def test_review_then_confirm_leads_to_the_action(
    writer: Client, package: Package, sandbox: Sandbox
) -> None:
    reviewed = writer.post(INSTALL, {"name": "etcd", "step": "review"})
    page = assert_page(reviewed)
    assert "Dry run passed" in page.text
    assert not Action.objects.exists()
    sent = {"name": "etcd", "step": "confirm", "key": reviewed.context["key"]}
    sent["reviewed"] = reviewed.context["reviewed"]
    confirmed = writer.post(INSTALL, sent)
    action = Action.objects.get()
    assert confirmed.status_code == 303
    assert confirmed["Location"] == f"/activity/actions/{action.pk}"
    assert (action.name, action.as_user, action.dry_run["ok"]) == ("etcd", "olivia", True)
    again = writer.post(INSTALL, sent)
    assert again["Location"] == confirmed["Location"], "asking twice is asking once"
    assert Action.objects.count() == 1
    assert_page(writer.get(confirmed["Location"]))


def test_htmx_is_redirected_to_the_action(
    writer: Client, package: Package, sandbox: Sandbox
) -> None:
    response = confirm(writer, headers=HTMX)
    assert response["HX-Redirect"] == f"/activity/actions/{Action.objects.get().pk}"


def test_a_bad_name_is_told_at_its_field_and_in_a_focused_summary(
    writer: Client, package: Package
) -> None:
    response = writer.post(INSTALL, {"name": "Not Valid", "step": "review"}, headers=HTMX)
    page = assert_fragment(response, 422)
    text = response.content.decode()
    assert "lower-case letters" in page.text
    assert 'aria-invalid="true" aria-describedby="field-name-error"' in " ".join(text.split())
    assert "data-focus" in text
    assert 'value="Not Valid"' in text
    assert_page(writer.post(INSTALL, {"name": "Not Valid", "step": "review"}), 422)


def test_what_the_cluster_refuses_is_told_and_nothing_is_recorded(
    client: Client, tess: Any, package: Package, sandbox: Sandbox
) -> None:
    client.force_login(tess)  # the sandbox's RBAC forbids it
    page = assert_page(client.post(INSTALL, {"name": "etcd", "step": "confirm"}), 422)
    assert "tess may not install this on cluster prod" in page.text
    assert "Ask the cluster's administrator" in page.text
    assert not Action.objects.exists()


def test_a_cluster_that_does_not_answer_is_told(
    writer: Client, package: Package, sandbox: Sandbox
) -> None:
    sandbox.stop()
    page = assert_page(writer.post(INSTALL, {"name": "etcd", "step": "review"}), 422)
    assert "Dry run failed" in page.text


def test_a_cluster_without_platformoperators_says_so(writer: Client, package: Package) -> None:
    Cluster.objects.update(kinds={"PlatformOperator": {"state": "absent"}})
    assert "serves no PlatformOperators" in assert_page(writer.get(INSTALL)).text


def test_another_open_action_of_the_object_is_told(
    writer: Client, package: Package, operator: Operator, sandbox: Sandbox
) -> None:
    Operator.objects.update(uid="")
    form = {"name": "etcd", "step": "review"}
    reviewed = writer.post(INSTALL, form).context["reviewed"]
    writer.post(REMOVE, remove_form(writer))
    for values in (form, {**form, "step": "confirm", "reviewed": reviewed}):
        page = assert_page(writer.post(INSTALL, values), 422)
        assert "Another remove of PlatformOperator etcd" in page.text


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("/software/prod/redhat-operators/nope/install", "has no package “nope”"),
        ("/software/-/x/etcd/install", "There is no catalog “x”"),
    ],
)
def test_an_unknown_package_is_not_found(
    writer: Client, package: Package, path: str, sentence: str
) -> None:
    assert sentence in assert_page(writer.get(path), 404).text


def test_a_catalog_without_a_cluster_offers_the_clusters_that_could_take_it(
    writer: Client, prod: Cluster
) -> None:
    make_cluster(name="other", context="sandbox")
    make_cluster(name="plain", kinds={})
    make_package(name="etcd", catalog=make_catalog(name="file"))
    page = assert_page(writer.get("/software/-/file/etcd/install", {"cluster": "prod"}))
    text = writer.get("/software/-/file/etcd/install").content.decode()
    assert "openshift-marketplace/redhat-operators only" in page.text
    assert '<option value="other"' in text
    assert '<option value="plain"' not in text


def test_without_any_cluster_there_is_nowhere_to_install(writer: Client, db: None) -> None:
    make_package(name="etcd", catalog=make_catalog(name="file"))
    page = assert_page(writer.get("/software/-/file/etcd/install"))
    assert "nowhere to install this" in page.text


def test_a_removal_says_what_goes_with_it_and_needs_a_tick(
    writer: Client, operator: Operator, sandbox: Sandbox
) -> None:
    page = assert_page(writer.get(REMOVE))
    assert "any CustomResourceDefinition that it created with all its custom resources" in page.text
    refused = assert_page(writer.post(REMOVE), 422)
    assert "Tick the box to confirm" in refused.text
    assert not Action.objects.exists()
    response = writer.post(REMOVE, remove_form(writer))
    action = Action.objects.get()
    assert response["Location"] == f"/activity/actions/{action.pk}"
    assert (action.verb, action.object_uid) == ("remove", "uid-1")


def test_the_objects_that_a_removal_takes_along_are_counted_on_request(
    writer: Client, operator: Operator, prod: Cluster, sandbox: Sandbox
) -> None:
    owner = {"owner_kind": "BundleDeployment", "owner_name": "etcd"}
    served = {"served": ["v1alpha1"], **owner}
    make_crd(cluster=prod, name="platformoperators.platform.openshift.io", **served)
    assert "Count its custom resources" in assert_page(writer.get(REMOVE)).text
    make_crd(cluster=prod, name="nobodies.example.com", **owner)
    make_crd(cluster=prod, name="retired.example.com", **{**owner, "served": []})
    with client_for(prod) as client:
        there = len(next(client.list_pages(PLATFORM_OPERATORS, "v1alpha1")).items)
    assert there > 0
    assert "Count their custom resources" in assert_page(writer.get(REMOVE)).text
    ClusterInventory.objects.update_or_create(cluster=prod)
    response = writer.post(REMOVE, {"step": "count"})
    page = assert_page(response)
    assert [(one.name, one.count) for one in response.context["counted"]] == [
        ("nobodies.example.com", None),
        ("platformoperators.platform.openshift.io", there),
        ("retired.example.com", None),
    ]
    assert f"<strong>{there}</strong>" in response.content.decode()
    assert ClusterInventory.objects.get(cluster=prod).instances == {}, "an input of the verdicts"
    CRDState.objects.exclude(name="platformoperators.platform.openshift.io").delete()
    known = assert_page(writer.post(REMOVE, {"step": "count"})).text
    assert f"platformoperators.platform.openshift.io with {there} custom resource" in known
    assert "with all its custom resources" in assert_page(writer.get(REMOVE)).text
    assert "unknown: No version of it is served." in page.text
    assert "unknown: The cluster does not serve this kind (not yet or no longer)" in page.text
    assert "404" not in page.text
    assert not Action.objects.exists()
    sandbox.stop()
    silent = assert_page(writer.post(REMOVE, {"step": "count"}))
    assert silent.text.count("unknown: ") == 1


def test_a_kind_that_is_not_removed_is_refused(writer: Client, prod: Cluster) -> None:
    make_operator(cluster=prod, name="sub", kind="ClusterServiceVersion", namespace="apps")
    path = "/operators/prod/ClusterServiceVersion/apps/sub"
    assert "does not remove" in assert_page(writer.get(f"{path}/remove"), 409).text
    assert f"{path}/remove" not in assert_page(writer.get(path)).links


def test_who_may_not_act_sees_why_at_the_button(
    client: Client, bob: Any, operator: Operator, settings: Any
) -> None:
    settings.WRITE_AS = "service-account"
    client.force_login(bob)
    page = assert_page(client.get("/operators/prod/PlatformOperator/-/etcd"))
    assert "ask an administrator of OLM Web" in page.text
    assert REMOVE not in page.links
    assert_page(client.get(REMOVE), 403)


def test_both_forms_need_their_csrf_token(
    olivia: Any, package: Package, operator: Operator
) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(olivia)
    for path in (INSTALL, REMOVE):
        assert_page(strict.post(path, {"sure": "yes", "step": "confirm"}), 403)
    assert not Action.objects.exists()


@pytest.mark.parametrize("key", ["k" * 101, "\n", ""])
def test_a_form_key_that_can_not_be_kept_is_replaced_by_a_new_one(
    writer: Client, package: Package, sandbox: Sandbox, key: str
) -> None:
    context = writer.post(INSTALL, {"name": "etcd", "key": key}).context
    assert context["key"] != key
    assert context["key"].isalnum()


@pytest.mark.parametrize(
    ("path", "forged", "status"),
    [
        (INSTALL, {"cluster": "other"}, 403),
        (INSTALL, {"name": "another"}, 422),
        (INSTALL, {"reviewed": "made-up"}, 422),
        (INSTALL, {"reviewed": ""}, 422),
    ],
)
def test_a_form_that_is_not_what_was_reviewed_applies_nothing(
    writer: Client,
    package: Package,
    sandbox: Sandbox,
    path: str,
    forged: dict[str, str],
    status: int,
) -> None:
    make_cluster(name="other", context="sandbox")
    reviewed = writer.post(path, {"name": "etcd", "step": "review"}).context["reviewed"]
    sent = {"name": "etcd", "step": "confirm", "reviewed": reviewed} | forged
    assert_page(writer.post(path, sent), status)
    assert not Action.objects.exists()
    assert sandbox.store.get("PlatformOperator", "etcd") is None


def test_a_removal_that_was_shown_to_somebody_else_is_forbidden(
    writer: Client, alice: Any, operator: Operator, sandbox: Sandbox
) -> None:
    other = Client()
    other.force_login(alice)
    assert_page(writer.post(REMOVE, remove_form(other)), 403)
    assert not Action.objects.exists()
