"""Carrying out an action against the sandbox: outcomes, refusals, dead workers."""

import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from catalogs.models import Package
from installs.actions import claims, execute, follow
from installs.actions.plan import plan_install
from installs.actions.record import request
from installs.actions.removal import plan_remove
from installs.diagnosis.entries import by_id
from installs.models import Action, Operator
from installs.state.watch.scheduling import cluster_lease
from olmweb.models import Cluster
from olmweb.runtime.leases import lease
from olmweb.sandbox.cluster import Sandbox
from tests.factories import make_catalog, make_cluster, make_operator, make_package
from tests.installs.actions.test_actions import taken_by_another

pytestmark = pytest.mark.django_db

GOOD, BAD = "3scale-operator", "advanced-cluster-management"
INSTALLED_NOTHING = next(entry.id for entry in by_id().values() if entry.installs_nothing)


@pytest.fixture
def sandbox(scenario: None, tmp_path: Path, settings: Any) -> Iterator[Sandbox]:
    """The audit's world without the operators that the tests install."""
    server = Sandbox(step_seconds=0.02)
    for name in (GOOD, BAD):
        server.store.delete("PlatformOperator", name)
    server.start()
    kubeconfig = tmp_path / "kubeconfig"
    server.write_kubeconfig(kubeconfig)
    settings.KUBECONFIG = str(kubeconfig)
    yield server
    server.stop()


@pytest.fixture
def cluster(sandbox: Sandbox) -> Cluster:
    return make_cluster(name="prod", context="sandbox")


def ask(cluster: Cluster, user: User, name: str = GOOD) -> Action:
    catalog = cluster.catalogs.first() or make_catalog(cluster=cluster)
    package = Package.objects.filter(name=name).first() or make_package(name=name, catalog=catalog)
    return request(plan_install(cluster, package, ""), user)


def carry_out(action: Action) -> Action:
    """Runs the action to its end, as worker after worker would."""
    for _ in range(20):
        Action.objects.filter(pk=action.pk).update(next_attempt_at=None)  # its time has come
        if follow.run(action.pk, pause=lambda _: time.sleep(0.02)) is None:
            break
    action.refresh_from_db()
    return action


def stored(sandbox: Sandbox, name: str = GOOD) -> dict[str, Any]:
    found = sandbox.store.get("PlatformOperator", name)
    assert found is not None
    return found


def writes(sandbox: Sandbox) -> list[str]:
    return [method for method, path in sandbox.script.requests if method in ("PATCH", "DELETE")]


# --- install -----------------------------------------------------------------------------------


def test_an_install_is_applied_as_olmweb_and_followed_until_it_is_healthy(
    sandbox: Sandbox, cluster: Cluster, olivia: User
) -> None:
    action = carry_out(ask(cluster, olivia))
    assert action.state == "succeeded", action.outcome
    assert action.outcome == f"{GOOD} is installed."
    assert action.finished_at is not None
    item = stored(sandbox)
    assert action.object_uid == item["metadata"]["uid"]
    assert "olmweb" in [one["manager"] for one in item["metadata"]["managedFields"]]
    assert Operator.objects.get(cluster=cluster, name=GOOD).health == "Healthy"


def test_an_install_that_can_not_work_ends_with_its_cause(
    sandbox: Sandbox, cluster: Cluster, olivia: User
) -> None:
    action = carry_out(ask(cluster, olivia, BAD))
    assert (action.state, action.finding) == ("failed", "allnamespaces-required")
    assert action.outcome.startswith("AllNamespaces install mode required by PlatformOperator: ")
    assert action.outcome_hint


def test_an_object_that_is_already_so_is_not_written(
    sandbox: Sandbox, cluster: Cluster, olivia: User
) -> None:
    carry_out(ask(cluster, olivia))
    before = stored(sandbox)["metadata"]["resourceVersion"]
    sent = len(writes(sandbox))
    action = carry_out(ask(cluster, olivia))
    assert (action.state, action.outcome_code) == ("no_change", "already-so")
    assert stored(sandbox)["metadata"]["resourceVersion"] == before
    assert len(writes(sandbox)) == sent


def test_a_second_worker_leaves_an_action_alone_that_is_in_hand(
    sandbox: Sandbox, cluster: Cluster, olivia: User
) -> None:
    action = ask(cluster, olivia)
    assert claims.claim(action.pk) is not None
    assert follow.run(action.pk) is None
    action.refresh_from_db()
    assert action.state == "pending"
    assert follow.waiting() == []
    assert writes(sandbox) == []


def test_a_finished_action_that_runs_once_more_does_nothing(
    sandbox: Sandbox, cluster: Cluster, olivia: User
) -> None:
    action = carry_out(ask(cluster, olivia))
    sent = len(sandbox.script.requests)
    assert follow.run(action.pk) is None
    assert follow.run(action.pk + 1) is None
    assert len(sandbox.script.requests) == sent


# --- dead workers ------------------------------------------------------------------------------


def test_a_worker_that_dies_before_it_sends_loses_nothing(
    sandbox: Sandbox, cluster: Cluster, olivia: User
) -> None:
    action = ask(cluster, olivia)
    assert follow.waiting() == [action.pk]
    assert carry_out(action).state == "succeeded"
    assert follow.waiting() == []


def test_a_worker_that_dies_between_sending_and_writing_it_down_makes_no_second_object(
    sandbox: Sandbox, cluster: Cluster, olivia: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    action = ask(cluster, olivia)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(execute, "_mark_applied", killed)
        with pytest.raises(KeyboardInterrupt):
            follow.run(action.pk)
    action.refresh_from_db()
    assert (action.state, action.object_uid) == ("pending", "")
    uid = stored(sandbox)["metadata"]["uid"]

    assert carry_out(action).state == "succeeded"
    assert action.outcome_code == "", "it is ours and was not there already"
    assert action.object_uid == uid == stored(sandbox)["metadata"]["uid"]


def test_a_worker_that_dies_after_sending_is_replaced_and_the_outcome_found(
    sandbox: Sandbox, cluster: Cluster, olivia: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    action = ask(cluster, olivia)
    with monkeypatch.context() as patch:
        patch.setattr(follow, "RUN_SECONDS", 0.0)
        patch.setattr(follow, "_settle", lambda *_, **__: False)
        assert follow.run(action.pk) == follow.AGAIN_SECONDS
    action.refresh_from_db()
    assert action.state == "applied"
    sent = len(writes(sandbox))
    assert carry_out(action).state == "succeeded"
    assert len(writes(sandbox)) == sent, "it is not sent again"


def test_an_action_that_waits_gets_the_worker_of_one_that_is_only_followed(
    sandbox: Sandbox, cluster: Cluster, olivia: User
) -> None:
    first, second = ask(cluster, olivia), ask(cluster, olivia, BAD)

    def pause(_: float) -> None:
        raise AssertionError("the worker waits while another action could be sent")

    assert follow.run(first.pk, pause) == follow.AGAIN_SECONDS
    first.refresh_from_db()
    second.refresh_from_db()
    assert (first.state, second.state) == (Action.State.APPLIED, Action.State.PENDING)
    assert carry_out(second).state == Action.State.FAILED
    assert carry_out(first).state == Action.State.SUCCEEDED


@pytest.mark.parametrize(
    ("embedded", "check"),
    [(True, "See the log of OLM Web"), (False, "Check that a worker of actions runs")],
)
def test_an_action_that_waited_too_long_is_not_sent_any_more(
    sandbox: Sandbox, cluster: Cluster, olivia: User, settings: Any, embedded: bool, check: str
) -> None:
    settings.EMBEDDED = embedded
    action = ask(cluster, olivia)
    Action.objects.update(created_at=timezone.now() - timedelta(minutes=16))
    assert carry_out(action).state == "refused"
    assert action.outcome_code == "not-sent"
    assert action.outcome_hint == f"{check}, then request it again."
    assert writes(sandbox) == []


def test_an_action_without_an_outcome_is_given_up_in_the_end(
    sandbox: Sandbox, cluster: Cluster, olivia: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    action = ask(cluster, olivia)
    with monkeypatch.context() as patch:
        patch.setattr(follow, "_settle", lambda *_, **__: False)
        patch.setattr(follow, "ACTION_TIMEOUT", timedelta(seconds=0.5))
        carry_out(action)
    assert (action.state, action.outcome_code) == ("lost", "no-outcome")


# --- refusals ----------------------------------------------------------------------------------


def test_what_the_cluster_forbids_is_refused_with_what_to_ask_for(
    sandbox: Sandbox, cluster: Cluster, tess: User
) -> None:
    action = carry_out(ask(cluster, tess))
    assert (action.state, action.outcome_code) == ("refused", "forbidden")
    assert action.outcome.startswith("tess may not install this")
    assert sandbox.store.get("PlatformOperator", GOOD) is None


def test_an_object_that_another_manages_is_never_taken(
    sandbox: Sandbox, cluster: Cluster, olivia: User
) -> None:
    taken_by_another(sandbox, GOOD)
    action = carry_out(ask(cluster, olivia))
    assert (action.state, action.outcome_code) == ("refused", "conflict")
    assert "argocd" in action.outcome
    assert stored(sandbox)["spec"] == {"package": {"name": "another"}}


def test_an_operator_that_is_there_is_never_turned_into_another(
    sandbox: Sandbox, cluster: Cluster, olivia: User
) -> None:
    carry_out(ask(cluster, olivia))
    other = ask(cluster, olivia, BAD)
    Action.objects.filter(pk=other.pk).update(name=GOOD)
    other.refresh_from_db()
    other.stored_steps[0]["manifest"]["metadata"]["name"] = GOOD
    other.save()
    carry_out(other)
    assert (other.state, other.outcome_code) == ("refused", "taken")
    assert stored(sandbox)["spec"] == {"package": {"name": GOOD}}


def test_an_object_that_is_not_accepted_is_refused_with_its_fields(
    sandbox: Sandbox, cluster: Cluster, olivia: User
) -> None:
    action = ask(cluster, olivia)
    action.stored_steps[0]["manifest"]["spec"]["package"]["name"] = "p" * 60
    action.save()
    carry_out(action)
    assert (action.state, action.outcome_code) == ("refused", "invalid")
    assert list(action.dry_run["fields"]) == ["package"]


def test_a_cluster_that_is_away_or_busy_is_asked_again_later(
    sandbox: Sandbox, cluster: Cluster, olivia: User
) -> None:
    action = ask(cluster, olivia)
    path = "/apis/platform.openshift.io/v1alpha1/platformoperators/"
    sandbox.script.fail_next(500, count=10, path_prefix=path)
    assert follow.run(action.pk) == execute.RETRY_SECONDS
    action.refresh_from_db()
    assert (action.state, action.outcome_code) == ("pending", "cluster-broken")
    for _ in range(10):
        sandbox.script.failure(path)
    carry_out(action)
    assert action.state == "succeeded"
    assert action.outcome_code == ""


def test_a_failure_from_before_does_not_count(cluster: Cluster, olivia: User) -> None:
    now = timezone.now()
    action = Action(cluster=cluster, sent_at=now, created_at=now)
    old = Operator(created_at=now - timedelta(hours=1), conditions=[])
    old.conditions = [{"lastTransitionTime": "2020-01-01T00:00:00Z"}]
    assert not follow._is_new(action, old)
    old.conditions = [{"lastTransitionTime": f"{now:%Y-%m-%dT%H:%M:%SZ}"}]
    assert follow._is_new(action, old)
    assert follow._is_new(action, Operator(created_at=now, conditions=[]))
    action.sent_at = now - timedelta(minutes=2)
    assert follow._is_new(action, Operator(created_at=None, conditions=[]))


def test_a_failure_of_the_second_in_which_a_retry_was_sent_is_not_its_own() -> None:
    now = timezone.now().replace(microsecond=0)
    retry = Action(verb=Action.Verb.RETRY, sent_at=now + timedelta(milliseconds=900))
    failed = Operator(created_at=now, conditions=[{"lastTransitionTime": f"{now:%FT%TZ}"}])
    assert not follow._is_new(retry, failed)
    failed.conditions = [{"lastTransitionTime": f"{now + timedelta(seconds=1):%FT%TZ}"}]
    assert follow._is_new(retry, failed)


def test_an_object_that_somebody_deletes_meanwhile_ends_the_action(
    sandbox: Sandbox, cluster: Cluster, olivia: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    action = ask(cluster, olivia)
    with monkeypatch.context() as patch:
        patch.setattr(follow, "RUN_SECONDS", 0.0)
        patch.setattr(follow, "_settle", lambda *_, **__: False)
        follow.run(action.pk)
    sandbox.store.delete("PlatformOperator", GOOD)
    carry_out(action)
    assert (action.state, action.outcome_code) == ("failed", "vanished")


# --- remove ------------------------------------------------------------------------------------


def installed(cluster: Cluster, user: User) -> Operator:
    carry_out(ask(cluster, user))
    return Operator.objects.get(cluster=cluster, name=GOOD)


def test_a_removal_is_followed_until_the_object_is_gone(
    sandbox: Sandbox, cluster: Cluster, olivia: User
) -> None:
    action = carry_out(request(plan_remove(installed(cluster, olivia)), olivia))
    assert action.state == "succeeded", action.outcome
    assert sandbox.store.get("PlatformOperator", GOOD) is None
    assert not Operator.objects.filter(cluster=cluster, name=GOOD).exists()


def test_the_outcome_of_a_removal_names_the_operators_that_stay(
    sandbox: Sandbox, cluster: Cluster, olivia: User
) -> None:
    operator = installed(cluster, olivia)
    Operator.objects.filter(pk=operator.pk).update(version="1.0.0", finding=INSTALLED_NOTHING)
    operator.refresh_from_db()
    action = request(plan_remove(operator), olivia)
    assert action.version == "", "that version was not installed"
    operator.delete()
    make_operator(
        cluster=cluster, kind="Subscription", name=f"{GOOD}-other", package=GOOD, health="Healthy"
    )
    with lease(cluster_lease(cluster.pk), 60):
        carry_out(action)
    assert (action.state, action.outcome) == (
        "succeeded",
        f"PlatformOperator {GOOD} is deleted; Subscription {GOOD}-other stays (Healthy).",
    )


def test_the_outcome_of_a_removal_names_the_removed_version(
    sandbox: Sandbox, cluster: Cluster, olivia: User
) -> None:
    operator = installed(cluster, olivia)
    Operator.objects.filter(pk=operator.pk).update(version="1.0.0")
    operator.refresh_from_db()
    action = carry_out(request(plan_remove(operator), olivia))
    assert action.outcome == (
        f"Operator {GOOD} 1.0.0 is removed. Deleted: PlatformOperator {GOOD}."
    )


@pytest.mark.parametrize(
    ("fields", "outcome"),
    [
        (
            {"version": "", "bundle": "", "health": "Installing", "reason": ""},
            f"PlatformOperator {GOOD} is deleted; Subscription {GOOD}-other stays (Installing).",
        ),
        (
            {"version": "", "bundle": "", "health": "Failed", "finding": INSTALLED_NOTHING},
            f"Operator {GOOD} 1.0.0 is removed. Deleted: PlatformOperator {GOOD}.",
        ),
    ],
    ids=["may install it", "has failed"],
)
def test_a_removed_operator_is_not_said_to_be_gone_while_another_object_may_install_it(
    sandbox: Sandbox, cluster: Cluster, olivia: User, fields: dict[str, Any], outcome: str
) -> None:
    operator = installed(cluster, olivia)
    Operator.objects.filter(pk=operator.pk).update(version="1.0.0")
    operator.refresh_from_db()
    action = request(plan_remove(operator), olivia)
    operator.delete()
    make_operator(
        cluster=cluster, kind="Subscription", name=f"{GOOD}-other", package=GOOD, **fields
    )
    with lease(cluster_lease(cluster.pk), 60):
        carry_out(action)
    assert (action.state, action.outcome) == ("succeeded", outcome)


def test_removing_what_is_gone_already_succeeds_without_a_write(
    sandbox: Sandbox, cluster: Cluster, olivia: User
) -> None:
    operator = make_operator(cluster=cluster, name=GOOD, uid="u-1")
    action = carry_out(request(plan_remove(operator), olivia))
    assert (action.state, action.outcome) == ("succeeded", f"PlatformOperator {GOOD} is gone.")
    assert writes(sandbox) == []


def test_another_object_of_the_same_name_is_not_removed(
    sandbox: Sandbox, cluster: Cluster, olivia: User
) -> None:
    operator = installed(cluster, olivia)
    operator.uid = "an-older-one"
    action = carry_out(request(plan_remove(operator), olivia))
    assert (action.state, action.outcome_code) == ("refused", "replaced")
    assert stored(sandbox)


def test_a_removal_that_is_forbidden_is_refused(
    sandbox: Sandbox, cluster: Cluster, olivia: User, tess: User
) -> None:
    action = carry_out(request(plan_remove(installed(cluster, olivia)), tess))
    assert (action.state, action.outcome_code) == ("refused", "forbidden")
    assert "delete platformoperators.platform.openshift.io" in action.outcome_hint
    assert stored(sandbox)
