"""Request and approve: who may ask, who may decide, once, and what the allow-list does."""

from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client

from catalogs.models import Package
from installs.actions import record
from installs.actions import requests as install_requests
from installs.models import Action, AllowRule, InstallRequest
from olmweb.errors import OlmwebError
from olmweb.models import Cluster
from olmweb.sandbox.cluster import Sandbox
from tests.factories import (
    make_catalog,
    make_cluster,
    make_component,
    make_operator,
    make_package,
)
from tests.worlds.html import assert_page

pytestmark = pytest.mark.django_db
ASK = "/software/prod/redhat-operators/etcd/request"
FORM = {
    "cluster": "prod",
    "path": "PlatformOperator",
    "version": "1.1.0",
    "namespace": "",
    "reason": "Team blue needs it",
}


@pytest.fixture
def prod(db: None) -> Cluster:
    return make_cluster(name="prod", context="sandbox")


@pytest.fixture
def package(prod: Cluster) -> Package:
    return make_package(name="etcd", catalog=make_catalog(cluster=prod))


@pytest.fixture
def oscar(db: None) -> User:
    """A second operator."""
    user = User.objects.create_user("oscar", password="oscar-password")
    user.groups.add(Group.objects.get(name="olmweb-operators"))
    return user


@pytest.fixture
def asked(prod: Cluster, package: Package, bob: User) -> InstallRequest:
    return install_requests.submit(
        prod, package, bob, path="PlatformOperator", version="1.1.0", reason="Team blue needs it"
    ).request


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def page_of(request: InstallRequest) -> str:
    return f"/activity/requests/{request.pk}"


def _decide(client: Client, request: InstallRequest, step: str, **more: str) -> Any:
    seen = client.get(page_of(request)).context["seen"]
    return client.post(page_of(request), {"step": step, "seen": seen, **more})


# --- asking ------------------------------------------------------------------------------------


def test_a_viewer_asks_and_nothing_reaches_the_cluster(package: Package, bob: User) -> None:
    client = signed_in(bob)
    page = assert_page(client.get(ASK))
    assert "Reason, shown to the approvers" in page.text
    response = client.post(ASK, FORM)
    made = InstallRequest.objects.get()
    assert response["Location"] == page_of(made)
    assert (made.user, made.state, made.bundle) == (bob, "waiting", "etcd.v1.1.0")
    assert not Action.objects.exists()
    own = assert_page(client.get(page_of(made)))
    assert "Your role may not decide requests" in own.text
    assert "Withdraw my request" in own.text


def test_asking_twice_is_asking_once(package: Package, bob: User) -> None:
    client = signed_in(bob)
    first, second = client.post(ASK, FORM), client.post(ASK, FORM)
    assert first["Location"] == second["Location"]
    assert InstallRequest.objects.count() == 1


def test_a_repeated_request_says_that_it_was_made_before(package: Package, bob: User) -> None:
    client = signed_in(bob)
    notice = "You have already requested this"
    assert notice not in assert_page(client.post(ASK, FORM, follow=True)).text
    again = client.post(ASK, FORM | {"reason": "Team red needs it, too"}, follow=True)
    page = assert_page(again)
    assert notice in page.text
    assert "Team blue needs it" in page.text


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"reason": " "}, "Give a reason."),
        ({"reason": "x" * 2001}, "at most 2000 characters"),
        ({"version": "9.9.9"}, "etcd has no version 9.9.9"),
        ({"version": "1.0.0"}, "1.1.0 would be installed"),
        ({"path": "Nothing"}, "is no install method"),
        ({"path": "ClusterExtension"}, "serves no ClusterExtensions"),
    ],
)
def test_what_can_not_be_asked_for_is_a_sentence_and_no_request(
    package: Package, bob: User, changed: dict[str, str], sentence: str
) -> None:
    page = assert_page(signed_in(bob).post(ASK, {**FORM, **changed}), 422)
    assert sentence in page.text
    assert not InstallRequest.objects.exists()


def test_who_has_no_role_may_not_ask_and_strangers_sign_in(package: Package) -> None:
    nobody = User.objects.create_user("nobody", password="x")
    assert_page(signed_in(nobody).get(ASK), 403)
    assert_page(signed_in(nobody).post(ASK, FORM), 403)
    assert Client().post(ASK, FORM)["Location"].startswith("/login/")
    assert not InstallRequest.objects.exists()


def test_a_form_forged_for_another_cluster_gets_403(package: Package, bob: User) -> None:
    make_cluster(name="other")
    assert_page(signed_in(bob).post(ASK, {**FORM, "cluster": "other"}), 403)
    assert not InstallRequest.objects.exists()


# --- deciding ----------------------------------------------------------------------------------


def test_an_operator_sees_what_would_be_sent_and_approves_it_in_their_own_name(
    asked: InstallRequest, olivia: User, sandbox: Sandbox
) -> None:
    make_operator(cluster=asked.cluster, name="etcd", version="1.0.0")
    client = signed_in(olivia)
    page = assert_page(client.get(page_of(asked)))
    assert "Team blue needs it" in page.text
    assert "kind: PlatformOperator" in page.text
    assert "1.0.0 → 1.1.0" in " ".join(page.text.split())
    response = _decide(client, asked, "approve", word="Welcome")
    action = Action.objects.get()
    assert response["Location"] == f"/activity/actions/{action.pk}"
    assert (action.user, action.as_user, action.as_groups) == (
        olivia,
        "olivia",
        ["olmweb-operators"],
    )
    asked.refresh_from_db()
    assert (asked.state, asked.decided_by, asked.action, asked.word) == (
        "approved",
        olivia,
        action,
        "Welcome",
    )


def test_two_operators_who_approve_at_once_approve_once(
    asked: InstallRequest,
    olivia: User,
    oscar: User,
    sandbox: Sandbox,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second = signed_in(olivia), signed_in(oscar)
    real = record.dry_run
    inner: list[bool] = []

    def meanwhile(plan: Any, user: Any) -> Any:
        if not inner:
            inner.append(True)
            assert _decide(second, asked, "approve").status_code == 302
        return real(plan, user)

    monkeypatch.setattr(record, "dry_run", meanwhile)
    page = assert_page(_decide(first, asked, "approve"), 409)
    assert "oscar has approved this request already." in page.text
    assert Action.objects.get().user == oscar


def test_an_operator_declines_with_a_word_and_not_without(
    asked: InstallRequest, olivia: User
) -> None:
    client = signed_in(olivia)
    assert (
        "Give a reason for declining." in assert_page(_decide(client, asked, "decline"), 422).text
    )
    assert _decide(client, asked, "decline", word="Use the other one").status_code == 302
    page = assert_page(client.get(page_of(asked)))
    assert "Use the other one" in page.text
    assert "declined" in assert_page(_decide(client, asked, "decline", word="x"), 409).text
    assert not Action.objects.exists()


def test_a_forged_decision_gets_403(
    asked: InstallRequest, bob: User, olivia: User, sandbox: Sandbox
) -> None:
    viewer, operator = signed_in(bob), signed_in(olivia)
    stolen = operator.get(page_of(asked)).context["seen"]
    for step in ("approve", "decline"):
        form = {"step": step, "seen": stolen, "word": "x"}
        assert_page(viewer.post(page_of(asked), form), 403)
    assert_page(operator.post(page_of(asked), {"step": "approve", "seen": "forged"}), 403)
    assert_page(operator.post(page_of(asked), {"step": "withdraw"}), 403)
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(olivia)
    assert_page(strict.post(page_of(asked), {"step": "approve", "seen": stolen}), 403)
    asked.refresh_from_db()
    assert asked.state == "waiting"
    assert not Action.objects.exists()


def test_nobody_but_an_admin_decides_their_own_request(
    prod: Cluster, package: Package, olivia: User, alice: User, sandbox: Sandbox
) -> None:
    for who, allowed in ((olivia, False), (alice, True)):
        made = install_requests.submit(
            prod, package, who, path="PlatformOperator", version="1.1.0", reason="mine"
        ).request
        assert install_requests.may_decide(who, made)[0] is allowed
        client = signed_in(who)
        if not allowed:
            page = assert_page(client.get(page_of(made)))
            assert "You can't decide your own request" in page.text
            assert_page(client.post(page_of(made), {"step": "approve"}), 403)
    assert _decide(signed_in(alice), made, "withdraw").status_code == 302


def test_what_the_cluster_would_refuse_goes_on_waiting(
    asked: InstallRequest, sandbox: Sandbox
) -> None:
    stranger = User.objects.create_superuser("stranger", password="x")
    page = assert_page(_decide(signed_in(stranger), asked, "approve"), 422)
    assert "stranger may not install this on cluster prod" in page.text
    asked.refresh_from_db()
    assert asked.state == "waiting"
    assert not Action.objects.exists()


def test_a_catalog_that_moved_on_stops_the_approval(asked: InstallRequest, olivia: User) -> None:
    client = signed_in(olivia)
    package = Package.objects.get(name="etcd")
    package.bundles.filter(version="1.1.0").update(version="1.2.0")
    page = assert_page(client.get(page_of(asked)))
    assert "1.2.0 would be installed" in page.text
    assert_page(client.post(page_of(asked), {"step": "approve", "seen": "x"}), 422)
    package.delete()
    page = assert_page(client.get(page_of(asked)))
    assert "no longer has etcd" in page.text


def test_the_approver_of_a_subscription_is_told_of_the_second_approval(
    prod: Cluster, bob: User, olivia: User
) -> None:
    prod.kinds = {"Subscription": {"state": "served", "version": "v1alpha1"}}
    prod.save()
    catalog = make_catalog(cluster=prod, name="market", source_kind="CatalogSource")
    make_component(cluster=prod, kind="CatalogSource", name="market", namespace="olm")
    package = make_package(name="grafana", catalog=catalog)
    made = install_requests.submit(
        prod, package, bob, path="Subscription", version="1.1.0", reason="mine"
    ).request
    page = assert_page(signed_in(olivia).get(page_of(made)))
    assert "an InstallPlan for it that needs an approval of its own" in page.text


# --- the allow-list ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("package", "versions", "matching"),
    [
        ("etcd", "", True),
        ("etc*", ">=1.1 <2.0", True),
        ("etcd", "~1.0", False),
        ("other", "", False),
        ("[e]tcd", "", False),
    ],
)
def test_a_rule_matches_by_name_and_range(package: str, versions: str, matching: bool) -> None:
    rule = AllowRule(package=package, versions=versions)
    assert rule.matches("etcd", "1.1.0") is matching
    assert not AllowRule(package="etcd", versions=">=1").matches("etcd", "none")


def test_while_there_are_rules_only_what_matches_one_may_be_asked_for(
    package: Package, bob: User
) -> None:
    assert "allow-list" not in assert_page(signed_in(bob).get(ASK)).text
    rule = AllowRule.objects.create(package="etcd", versions="<1.1")
    form = assert_page(signed_in(bob).get(ASK))
    assert "etcd 1.1.0 is not on the allow-list" in form.text, "before it is filled in"
    assert "Choose another version" in form.text
    assert "field-reason" in form.ids
    page = assert_page(signed_in(bob).post(ASK, FORM), 403)
    assert "etcd 1.1.0 is not on the allow-list" in page.text
    assert not InstallRequest.objects.exists()
    rule.versions = ""
    rule.save()
    signed_in(bob).post(ASK, FORM)
    assert InstallRequest.objects.get().state == "waiting", "a rule only lets it be asked for"


def test_there_is_no_form_for_a_package_that_is_not_on_the_allow_list(
    package: Package, bob: User
) -> None:
    AllowRule.objects.create(package="other")
    page = assert_page(signed_in(bob).get(ASK))
    assert "etcd is not on the allow-list, so it can't be requested." in page.text
    assert "field-reason" not in page.ids
    assert "Back to etcd" in page.text


def test_a_rule_from_before_rules_pinned_anything_leaves_the_request_waiting_with_the_reason(
    package: Package, bob: User, olivia: User, sandbox: Sandbox
) -> None:
    AllowRule.objects.create(package="etcd", without_approval=True, saved_by=olivia)
    signed_in(bob).post(ASK, FORM)
    made = InstallRequest.objects.get()
    assert made.state == "waiting"
    reason = "The rule names no versions, install method, cluster, catalogs, namespaces."
    assert reason in made.word
    assert not Action.objects.exists()


def test_an_admin_keeps_the_allow_list_in_the_admin_pages(prod: Cluster) -> None:
    admin = User.objects.create_user("ada", password="x", is_staff=True)
    admin.groups.add(Group.objects.get(name="olmweb-admins"))
    client = signed_in(admin)
    address = "/admin/installs/allowrule/add/"
    form = {"package": "etcd", "versions": "not a range", "note": ""}
    assert b"errorlist" in client.post(address, form).content
    client.post(address, {**form, "versions": ">=1"})
    assert AllowRule.objects.get().saved_by == admin
    operator = User.objects.create_user("otto", password="x", is_staff=True)
    operator.groups.add(Group.objects.get(name="olmweb-operators"))
    assert signed_in(operator).post(address, form).status_code == 403


# --- the queue and the API ---------------------------------------------------------------------


def test_the_queue_says_when_it_is_empty_and_lists_what_was_asked(
    client: Client, bob: User, prod: Cluster, package: Package
) -> None:
    client.force_login(bob)
    assert "No requests yet" in assert_page(client.get("/activity/requests/")).text
    install_requests.submit(
        prod, package, bob, path="PlatformOperator", version="1.1.0", reason="<b>now</b>"
    )
    response = client.get("/activity/requests/?state=waiting&q=etcd")
    page = assert_page(response)
    assert "1 request " in page.text
    assert b"<b>now" not in response.content
    assert "No results" in assert_page(client.get("/activity/requests/?state=declined")).text
    assert_page(client.get("/activity/requests/?state=x"), 400)
    assert_page(client.get("/activity/requests/99999"), 404)
    assert "/activity/requests/" in assert_page(client.get("/activity/")).links


def test_requests_are_in_the_api(client: Client, bob: User, asked: InstallRequest) -> None:
    client.force_login(bob)
    (row,) = client.get("/api/v1/requests?state=waiting").json()["items"]
    assert (row["package"], row["version"], row["user"], row["reason"]) == (
        "etcd",
        "1.1.0",
        "bob",
        "Team blue needs it",
    )
    one = client.get(f"/api/v1/requests/{asked.pk}").json()
    assert (one["state"], one["action"], one["decided_by"]) == ("waiting", None, "")
    assert client.get("/api/v1/requests/99999").status_code == 404
    assert Client().get("/api/v1/requests").status_code == 401


def test_a_request_without_a_role_is_refused_below_the_pages_too(
    prod: Cluster, package: Package
) -> None:
    nobody = User.objects.create_user("nobody", password="x")
    with pytest.raises(OlmwebError) as caught:
        install_requests.submit(
            prod, package, nobody, path="PlatformOperator", version="1.1.0", reason="x"
        )
    assert caught.value.status == 403
