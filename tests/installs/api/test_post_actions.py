"""POST /actions: scopes, the same refusals as the pages, Idempotency-Key, dry run."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from django.contrib.auth.models import User
from django.test import Client
from kombu.exceptions import OperationalError
from pytest_django import DjangoCaptureOnCommitCallbacks

from catalogs.models import Bundle
from installs import tasks
from installs.actions import record
from installs.models import Action, Component, Operator
from installs.state.full_sync import sync_cluster
from olmweb.errors import Outage
from olmweb.models import NOT_CONFIGURED, ApiToken, Cluster
from olmweb.sandbox.cluster import Sandbox
from tests.factories import (
    make_catalog,
    make_cluster,
    make_component,
    make_operator,
    make_package,
    make_prediction,
)

pytestmark = pytest.mark.django_db
URL = "/api/v1/actions"
INSTALL = {"cluster": "prod", "verb": "install", "package": "etcd"}


@pytest.fixture(autouse=True)
def sandbox(scenario: None, tmp_path: Path, settings: Any) -> Iterator[Sandbox]:
    server = Sandbox(step_seconds=0.02)
    server.start()
    server.write_kubeconfig(tmp_path / "kubeconfig")
    settings.KUBECONFIG = str(tmp_path / "kubeconfig")
    make_package(catalog=make_catalog(cluster=make_cluster(context="sandbox")))
    yield server
    server.stop()


def post(user: User, body: Any, *, scope: str = "act", url: str = URL, **headers: str) -> Any:
    token, _row = ApiToken.issue(user.pk, scope)
    return Client().post(
        url,
        body,
        content_type="application/json",
        headers={"Authorization": f"Bearer {token}", **headers},
    )


def test_an_install_is_recorded_and_asking_twice_with_a_key_is_asking_once(olivia: User) -> None:
    first = post(olivia, INSTALL, **{"Idempotency-Key": "k"})
    assert first.status_code == 202, first.json()
    told = first.json()
    assert (told["state"], told["as_user"], told["object"]["name"]) == ("pending", "olivia", "etcd")
    assert first["Idempotency-Replayed"] == "false"
    assert first["Location"] == f"{URL}/{told['id']}"
    Action.objects.update(state="succeeded")
    again = post(olivia, INSTALL, **{"Idempotency-Key": "k"})
    assert (again.status_code, again.json()["id"]) == (202, told["id"])
    assert (again["Idempotency-Replayed"], again["Location"]) == ("true", first["Location"])
    assert Action.objects.count() == 1


def test_a_removed_cluster_is_the_reason_of_the_refusal(olivia: User) -> None:
    """Also for a method that the cluster did not serve."""
    Cluster.objects.update(error_code=NOT_CONFIGURED, kinds={})
    for body in (INSTALL, INSTALL | {"dry_run": True}):
        refused = post(olivia, body)
        error = refused.json()["error"]
        assert (refused.status_code, error["code"]) == (409, NOT_CONFIGURED)
        assert error["message"] == "Cluster prod is no longer named in OLMWEB_CLUSTERS."


def test_the_answer_names_the_catalog_that_was_asked_for(olivia: User) -> None:
    cluster = Cluster.objects.get()
    make_catalog(
        cluster=cluster, slug="olm.redhat-operators", source_kind="CatalogSource", namespace="olm"
    )
    body = INSTALL | {"catalog": "prod/redhat-operators"}
    for _ in range(2):  # the second meets the open action
        assert post(olivia, body).json()["catalog"] == "prod/redhat-operators"


@pytest.mark.parametrize(
    "changed", [{"name": "other"}, {"channel": "beta"}, {"force_conflicts": True}]
)
def test_a_key_of_another_body_is_refused(olivia: User, changed: dict[str, Any]) -> None:
    assert post(olivia, INSTALL, **{"Idempotency-Key": "k"}).status_code == 202
    Action.objects.update(state="succeeded")
    other = post(olivia, INSTALL | changed, **{"Idempotency-Key": "k"})
    assert (other.status_code, other.json()["error"]["code"]) == (422, "key-reused")
    assert Action.objects.count() == 1


def test_a_key_that_met_an_equal_open_action_gives_it_again_when_it_has_ended(
    olivia: User,
) -> None:
    oscar = User.objects.create_user("oscar")
    oscar.groups.set(olivia.groups.all())
    first = post(olivia, INSTALL, **{"Idempotency-Key": "k"}).json()["id"]
    for user, key in ((olivia, "l"), (oscar, "k")):
        met = post(user, INSTALL, **{"Idempotency-Key": key})
        assert met.status_code == 202, met.json()
        assert met.json()["id"] == first
    assert post(olivia, INSTALL).json()["id"] == first
    Action.objects.update(state="succeeded")
    for user, key in ((olivia, "l"), (oscar, "k"), (olivia, "k")):
        again = post(user, INSTALL, **{"Idempotency-Key": key})
        assert (again.json()["id"], again["Idempotency-Replayed"]) == (first, "true")
        other = post(user, INSTALL | {"channel": "beta"}, **{"Idempotency-Key": key})
        assert (other.status_code, other.json()["error"]["code"]) == (422, "key-reused")
    assert Action.objects.count() == 1


def test_a_repeated_removal_gives_the_same_action_when_its_object_is_gone(
    olivia: User, sandbox: Sandbox
) -> None:
    make_operator(cluster=Cluster.objects.get(), name="etcd", uid="u")
    body = {"cluster": "prod", "verb": "remove", "name": "etcd"}
    first = post(olivia, body, **{"Idempotency-Key": "k"})
    assert first.status_code == 202, first.json()
    Operator.objects.all().delete()
    again = post(olivia, body, **{"Idempotency-Key": "k"})
    assert (again.status_code, again.json()["id"]) == (202, first.json()["id"])


def test_two_requests_with_one_key_at_the_same_moment_make_one_action(
    olivia: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second looks for the key before the first has written, and writes after it."""
    first = post(olivia, INSTALL, **{"Idempotency-Key": "k"})
    Action.objects.update(state="succeeded")
    look = record.earlier_action
    early = iter([None, None])  # the route and the recording both look too early
    monkeypatch.setattr(record, "earlier_action", lambda *asked: next(early, look(*asked)))
    second = post(olivia, INSTALL, **{"Idempotency-Key": "k"})
    assert (second.status_code, second.json()["id"]) == (202, first.json()["id"])
    assert second["Idempotency-Replayed"] == "true"
    assert Action.objects.count() == 1


def test_an_action_is_recorded_and_sent_later_when_the_broker_is_away(
    olivia: User,
    monkeypatch: pytest.MonkeyPatch,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    sent = Mock(side_effect=OperationalError("redis is away"))
    monkeypatch.setattr("celery.app.task.Task.apply_async", sent)
    monkeypatch.setattr("olmweb.tasks._outage", Outage(""))
    with django_capture_on_commit_callbacks(execute=True):
        answer = post(olivia, INSTALL)
    assert answer.status_code == 202
    assert sent.called
    sent = Mock()
    monkeypatch.setattr(tasks.run_action, "apply_async", sent)
    tasks.resume_actions()
    assert sent.call_args.args == ((answer.json()["id"],),)


@pytest.mark.parametrize(
    ("method", "field", "value"),
    [
        ("PlatformOperator", "version", "1.1.0"),
        ("PlatformOperator", "bundle", "etcd.v1.1.0"),
        ("PlatformOperator", "channel", "stable"),
        ("PlatformOperator", "approval", "Manual"),
        ("PlatformOperator", "namespace", "etcd"),
        ("ClusterExtension", "approval", "Manual"),
        ("ClusterExtension", "targets", "own"),
        ("Subscription", "policy", "SelfCertified"),
        ("Subscription", "service_account", "installer"),
    ],
)
def test_a_field_that_the_method_lacks_is_refused_by_name(
    olivia: User, method: str, field: str, value: str
) -> None:
    answer = post(olivia, INSTALL | {"method": method, field: value})
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "no-such-field")
    assert answer.json()["error"]["fields"] == {field: f"A {method} has no {field}."}


@pytest.mark.parametrize(
    ("verb", "method", "field", "value"),
    [
        ("upgrade", "Subscription", "version", "1.1.0"),
        ("upgrade", "Subscription", "policy", "SelfCertified"),
        ("upgrade", "ClusterExtension", "approval", "Manual"),
        ("upgrade", "ClusterExtension", "package", "etcd"),
        ("upgrade", "PlatformOperator", "version", "1.1.0"),
        ("approve", "", "channel", "stable"),
        ("approve", "", "method", "Subscription"),
        ("retry", "PlatformOperator", "version", "1.1.0"),
        ("retry", "PlatformOperator", "anyway", True),
        ("remove", "PlatformOperator", "catalog", "prod/redhat-operators"),
        ("remove", "PlatformOperator", "only", "etcd.v1.1.0"),
        ("remove", "PlatformOperator", "force_conflicts", True),
        ("install", "ClusterExtension", "only", "etcd.v1.1.0"),
        ("install", "ClusterExtension", "force_conflicts", True),
    ],
)
def test_a_field_that_the_verb_lacks_is_refused_by_name(
    olivia: User, verb: str, method: str, field: str, value: Any
) -> None:
    body = {"cluster": "prod", "verb": verb, "name": "etcd"} | (
        {"method": method} if method else {}
    )
    answer = post(olivia, body | {field: value})
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "no-such-field")
    assert list(answer.json()["error"]["fields"]) == [field]


@pytest.mark.parametrize("dry_run", [False, True])
def test_what_is_predicted_to_fail_is_refused_unless_it_is_wanted_anyway(
    olivia: User, dry_run: bool
) -> None:
    bundle = Bundle.objects.get(package__name="etcd", version="1.1.0")
    make_prediction(bundle=bundle, rule="po-install-mode", sentence="OwnNamespace only.")
    body = INSTALL | {"dry_run": dry_run}
    refused = post(olivia, body)
    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "predicted-to-fail")
    assert refused.json()["error"]["message"] == "OwnNamespace only."
    assert not Action.objects.exists()
    assert post(olivia, body | {"anyway": True}).status_code == (200 if dry_run else 202)


def test_actions_are_found_by_who_asked_for_them(olivia: User) -> None:
    made = post(olivia, INSTALL).json()["id"]
    token, _row = ApiToken.issue(olivia.pk, "read")
    for user, ids in (("olivia", [made]), ("bob", [])):
        answer = Client().get(URL, {"user": user}, headers={"Authorization": f"Bearer {token}"})
        assert [row["id"] for row in answer.json()["items"]] == ids


def test_a_bundle_has_a_field_of_its_own(olivia: User) -> None:
    cluster = Cluster.objects.get()
    make_component(cluster=cluster, kind="CatalogSource", name="redhat-operators", namespace="olm")
    cluster.kinds = cluster.kinds | {"Subscription": {"state": "served"}}
    cluster.save()
    body = INSTALL | {"method": "Subscription", "namespace": "etcd", "dry_run": True}
    for chosen in ({"version": "1.0.0"}, {"bundle": "etcd.v1.0.0"}):
        answer = post(olivia, body | chosen)
        assert answer.status_code == 200, answer.json()
        subscription = answer.json()["manifests"][-1]
        assert subscription["spec"]["startingCSV"] == "etcd.v1.0.0"
    for chosen in ({"bundle": "nope.v1"}, {"bundle": "etcd.v1.0.0", "version": "1.0.0"}):
        refused = post(olivia, body | chosen)
        assert (refused.status_code, list(refused.json()["error"]["fields"])) == (400, ["bundle"])
    for chosen in ({"version": "9.9.9"}, {"version": ">=9"}, {"channel": "nope"}):
        refused = post(olivia, body | chosen)
        assert (refused.status_code, list(refused.json()["error"]["fields"])) == (400, [*chosen])


@pytest.mark.parametrize(
    ("wanted", "bundle"),
    [("<1.1.0", "etcd.v1.0.0"), ("1.x", "etcd.v1.1.0"), (">=1.0.0 <2.0.0", "etcd.v1.1.0")],
)
def test_a_version_range_of_a_subscription_starts_at_the_bundle_nearest_to_the_head(
    olivia: User, wanted: str, bundle: str
) -> None:
    cluster = Cluster.objects.get()
    make_component(cluster=cluster, kind="CatalogSource", name="redhat-operators", namespace="olm")
    cluster.kinds = cluster.kinds | {"Subscription": {"state": "served"}}
    cluster.save()
    body = INSTALL | {"method": "Subscription", "namespace": "etcd", "version": wanted}
    answer = post(olivia, body | {"dry_run": True})
    assert answer.status_code == 200, answer.json()
    assert answer.json()["manifests"][-1]["spec"]["startingCSV"] == bundle


def test_a_dry_run_records_nothing_and_shows_what_would_be_sent(olivia: User) -> None:
    answer = post(olivia, INSTALL | {"dry_run": True})
    assert answer.status_code == 200
    assert answer.json()["dry_run"]["ok"] is True
    assert answer.json()["manifests"][0]["kind"] == "PlatformOperator"
    assert not Action.objects.exists()


def test_a_token_that_reads_and_a_person_without_rights_are_refused(
    olivia: User, bob: User, tess: User
) -> None:
    assert post(olivia, INSTALL, scope="read").json()["error"]["code"] == "scope"
    assert post(bob, INSTALL).status_code == 403
    told = post(tess, INSTALL)
    assert (told.status_code, told.json()["error"]["code"]) == (403, "forbidden")
    assert "tess may not install" in told.json()["error"]["message"]
    assert Client().post(URL, INSTALL, content_type="application/json").status_code == 401
    assert not Action.objects.exists()


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (INSTALL | {"cluster": "nope"}, 404),
        (INSTALL | {"package": "nope"}, 404),
        (INSTALL | {"verb": "explode"}, 400),
        (INSTALL | {"method": "Helm"}, 400),
        (INSTALL | {"method": "Subscription"}, 409),
        (INSTALL | {"name": "Not Valid"}, 400),
        (INSTALL | {"extra": 1}, 400),
        ({"cluster": "prod", "verb": "remove", "name": "nope"}, 404),
        ({"cluster": "prod", "verb": "approve", "name": "nope", "namespace": "x"}, 404),
        ("[]", 400),
    ],
)
def test_what_can_not_be_asked_has_a_sentence(olivia: User, body: Any, status: int) -> None:
    answer = post(olivia, body)
    assert answer.status_code == status, answer.json()
    assert answer.json()["error"]["message"]
    assert not Action.objects.exists()


@pytest.mark.parametrize(
    "body",
    [
        b'{"cluster": "prod", "verb": "install", "package": "\\ud800"}',
        b'{"cluster": "prod", "verb": "install", "package": "\\u0000"}',
        '{"cluster": "prod", "verb": "install", "package": "a\\u0000"}'.encode("utf-16"),
        b'{"cluster": "prod", "verb": "install", "package": "etcd", "dry_run": "no"}',
        b'{"cluster": "prod", "verb": "install", "package": "etcd", "force_conflicts": 1}',
    ],
)
def test_a_body_is_read_strictly(olivia: User, body: bytes) -> None:
    answer = post(olivia, body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "bad-body")
    assert not Action.objects.exists()


def test_an_approval_of_one_version_is_refused_and_recorded_if_the_installplan_carries_others(
    olivia: User, sandbox: Sandbox
) -> None:
    cluster = Cluster.objects.get()
    sync_cluster(cluster)
    plans = Component.objects.filter(kind="InstallPlan", phase="RequiresApproval")
    plan = next(plan for plan in plans.order_by("name") if len(plan.details["csvs"]) == 1)
    body = {
        "cluster": cluster.name,
        "verb": "approve",
        "name": plan.name,
        "namespace": plan.namespace,
        "only": "etcd.v9.9.9",
    }
    for _ in range(2):
        answer = post(olivia, body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "carries-more")
        assert "does not carry etcd.v9.9.9" in answer.json()["error"]["message"]
    action = Action.objects.get()
    assert (action.state, action.version, action.sent_at) == ("refused", "etcd.v9.9.9", None)
    assert action.outcome == answer.json()["error"]["message"]
    assert action.by_token
    accepted = post(olivia, body | {"only": plan.details["csvs"][0]})
    assert accepted.status_code == 202, accepted.json()
