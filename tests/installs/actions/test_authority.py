"""The rights behind an action are checked again when it is sent: user, role, groups, token."""

import time
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.utils import timezone

from catalogs.install_methods import InstallMethod
from installs.actions import bulk, execute, follow, record
from installs.actions.bulk import Key
from installs.actions.plan import plan_install
from installs.models import Action
from olmweb.errors import OlmwebError
from olmweb.kube.errors import from_answer
from olmweb.models import NOT_CONFIGURED, ApiToken, Cluster, OidcIdentity
from olmweb.sandbox.cluster import Sandbox
from tests.factories import make_catalog, make_cluster, make_package
from tests.installs.actions.test_actions_followed import carry_out, stored, writes

pytestmark = pytest.mark.django_db
NAME = "icon-demo"  # of the sandbox's catalog, and not installed there


@pytest.fixture
def cluster(sandbox: Sandbox) -> Cluster:
    cluster = make_cluster(name="prod", context="sandbox")
    make_package(name=NAME, catalog=make_catalog(cluster=cluster))
    return cluster


def ask(cluster: Cluster, user: User, **more: Any) -> Action:
    package = cluster.catalogs.get().packages.get(name=NAME)
    return record.request(plan_install(cluster, package, ""), user, **more)


def disable(user: User) -> None:
    user.is_active = False
    user.save()


def demote(user: User) -> None:
    user.groups.set([Group.objects.get_or_create(name="olmweb-viewers")[0]])


def stay_away(user: User) -> None:
    OidcIdentity.objects.create(user=user, issuer="https://idp.example", subject=user.username)
    user.last_login = timezone.now() - timedelta(days=31)
    user.save()


@pytest.mark.parametrize(
    ("loses", "reason"),
    [
        (disable, "The account of olivia, who requested it, is disabled."),
        (demote, "olivia, who requested it, may not change clusters any more."),
        (stay_away, "The last sign-in of olivia is too long ago; olivia has to sign in again."),
        (User.delete, "The account that requested it was deleted."),
    ],
)
def test_an_action_of_somebody_who_lost_the_right_is_refused_and_nothing_is_sent(
    cluster: Cluster, sandbox: Sandbox, olivia: User, loses: Any, reason: str
) -> None:
    action = ask(cluster, olivia)
    loses(olivia)
    carry_out(action)
    assert (action.state, action.outcome_code) == ("refused", "not-allowed")
    assert action.outcome == f"It was not applied. {reason}"
    assert writes(sandbox) == []


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (ApiToken.delete, "was deleted"),
        ({"expires_at": timezone.now() - timedelta(days=1)}, "has expired"),
        ({"expires_at": None, "created_at": timezone.now() - timedelta(days=366)}, "has expired"),
        ({"scope": "read"}, "may only read"),
    ],
)
def test_an_action_ends_with_the_token_that_requested_it(
    cluster: Cluster, sandbox: Sandbox, olivia: User, change: Any, reason: str
) -> None:
    _text, token = ApiToken.issue(olivia.pk, "act")
    action = ask(cluster, olivia, token=token)
    if isinstance(change, dict):
        ApiToken.objects.update(**change)
    else:
        change(token)
    carry_out(action)
    assert action.state == "refused"
    assert reason in action.outcome
    assert writes(sandbox) == []


def test_an_action_on_a_cluster_that_was_removed_since_is_refused(
    cluster: Cluster, sandbox: Sandbox, olivia: User
) -> None:
    action = ask(cluster, olivia)
    Cluster.objects.update(error_code=NOT_CONFIGURED)
    carry_out(action)
    assert (action.state, action.outcome_code) == ("refused", NOT_CONFIGURED)
    assert "prod" in action.outcome
    assert writes(sandbox) == []


def test_an_action_is_sent_with_the_present_groups_of_the_person(
    cluster: Cluster, sandbox: Sandbox, olivia: User
) -> None:
    olivia.groups.add(Group.objects.create(name="payments-admins"))
    action = ask(cluster, olivia)
    assert action.as_groups == ["olmweb-operators", "payments-admins"]
    olivia.groups.remove(Group.objects.get(name="payments-admins"))
    carry_out(action)
    assert action.state == "succeeded", action.outcome
    assert action.as_groups == ["olmweb-operators"]


def test_every_action_of_a_bulk_install_is_checked(
    cluster: Cluster, sandbox: Sandbox, olivia: User
) -> None:
    catalog = cluster.catalogs.get()
    names = ["acme", "brisk", "crane", "delta"]
    for name in names:
        make_package(name=name, catalog=catalog)
    method = InstallMethod.PLATFORM_OPERATOR
    keys = [Key("prod", "redhat-operators", name) for name in names]
    chosen = bulk.candidates(bulk.read_selection(keys), cluster, method)
    items = bulk.dry_run(bulk.plan_items(chosen, cluster, method, {}), olivia)
    _text, token = ApiToken.issue(olivia.pk, "act")
    batch = bulk.record_batch(
        items, cluster, method, olivia, key="k", request_hash="h", token=token
    )
    token.delete()
    sent = writes(sandbox)
    for action_id in batch.actions.order_by("id").values_list("id", flat=True):
        follow.run(action_id)
    states = batch.actions.values_list("state", "outcome")
    assert set(states) == {
        ("refused", "It was not applied. The API token that requested it was deleted.")
    }
    assert writes(sandbox) == sent, "the dry runs alone"


def test_a_cluster_that_was_away_gets_nothing_from_somebody_disabled_meanwhile(
    cluster: Cluster, sandbox: Sandbox, olivia: User
) -> None:
    action = ask(cluster, olivia)
    path = "/apis/platform.openshift.io/v1alpha1/platformoperators/"
    sandbox.script.fail_next(500, count=10, path_prefix=path)
    assert follow.run(action.pk) == execute.RETRY_SECONDS
    disable(olivia)
    for _ in range(10):
        sandbox.script.failure(path)
    carry_out(action)
    assert action.state == "refused"
    assert sandbox.store.get("PlatformOperator", NAME) is None


def test_an_action_that_was_sent_is_followed_to_its_outcome_all_the_same(
    cluster: Cluster, sandbox: Sandbox, olivia: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    action = ask(cluster, olivia)
    with monkeypatch.context() as patch:
        patch.setattr(follow, "RUN_SECONDS", 0.0)
        patch.setattr(follow, "_settle", lambda *_, **__: False)
        follow.run(action.pk)
    disable(olivia)
    carry_out(action)
    assert action.state == "succeeded", action.outcome
    assert stored(sandbox, NAME)


# --- review tokens --------------------------------------------------------------------------------


def test_a_review_token_is_for_one_purpose_user_and_cluster(
    cluster: Cluster, olivia: User, alice: User
) -> None:
    package = cluster.catalogs.get().packages.get(name=NAME)
    plan = plan_install(cluster, package, "")
    elsewhere = plan_install(make_cluster(name="edge"), package, "")
    token = record.reviewed([plan], olivia, "request-1")
    record.require_reviewed(token, [plan], olivia, "request-1")
    for plans, user, purpose in (
        ([plan], olivia, "request-2"),
        ([plan], olivia, "install"),
        ([plan], alice, "request-1"),
        ([elsewhere], olivia, "request-1"),
    ):
        with pytest.raises(OlmwebError, match="Form changed, nothing applied"):
            record.require_reviewed(token, plans, user, purpose)


def test_a_review_token_is_for_the_bundle_that_was_shown(cluster: Cluster, olivia: User) -> None:
    """A PlatformOperator names no version, so its manifest alone does not tell."""
    package = cluster.catalogs.get().packages.get(name=NAME)
    plan = plan_install(cluster, package, "")
    token = record.reviewed([plan], olivia, "install")
    package.bundles.filter(version="1.1.0").update(name=f"{NAME}.v1.2.0", version="1.2.0")
    package.channels.get().entries.filter(name=plan.target).update(name=f"{NAME}.v1.2.0")
    now = plan_install(cluster, package, "")
    assert (now.target, now.steps) != (plan.target, plan.steps)
    with pytest.raises(OlmwebError, match="Form changed, nothing applied"):
        record.require_reviewed(token, [now], olivia, "install")


def test_a_review_token_ends_after_an_hour(
    cluster: Cluster, olivia: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_install(cluster, cluster.catalogs.get().packages.get(name=NAME), "")
    now = time.time()
    token = record.reviewed([plan], olivia, "install")
    monkeypatch.setattr(time, "time", lambda: now + record.REVIEW_SECONDS + 60)
    with pytest.raises(OlmwebError, match="Form changed, nothing applied"):
        record.require_reviewed(token, [plan], olivia, "install")


# --- limits ---------------------------------------------------------------------------------------


def test_the_last_of_a_bulk_install_is_sent_though_all_others_run_into_their_timeouts() -> None:
    rounds = -(-bulk.CAP // bulk.AT_ONCE)
    assert rounds * 2 * follow.ACTION_TIMEOUT <= bulk.WAIT


@pytest.mark.parametrize("seconds", ["-1", "9" * 400, "-" + "9" * 400, "3600"])
def test_any_time_to_wait_that_a_cluster_names_ends_in_an_attempt_within_a_minute(
    cluster: Cluster, sandbox: Sandbox, olivia: User, seconds: str
) -> None:
    body = b'{"kind": "Status", "details": {"retryAfterSeconds": %s}}' % seconds.encode()
    error = from_answer("prod", "GET", "/", 429, body)
    assert error.retry_after is None or 0 <= error.retry_after <= 86_400
