"""Actions on a cluster that a worker watches: their rows move by themselves, no pass is made."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from installs.actions import follow
from installs.actions.record import request
from installs.actions.removal import plan_remove
from installs.models import Action, Operator
from installs.state.full_sync import sync_cluster
from installs.state.watch.scheduling import cluster_lease
from olmweb.kube.errors import Unreachable
from olmweb.models import Cluster, Lease
from olmweb.runtime.leases import acquire, lease
from olmweb.sandbox.cluster import Sandbox
from tests.installs.actions import test_actions_followed
from tests.installs.actions.test_actions_followed import GOOD, ask, carry_out

pytestmark = pytest.mark.django_db

sandbox = test_actions_followed.sandbox
cluster = test_actions_followed.cluster


@pytest.fixture
def watched(cluster: Cluster) -> Iterator[Cluster]:
    sync_cluster(cluster)
    with lease(cluster_lease(cluster.pk), 60):
        yield cluster


def lists(sandbox: Sandbox) -> int:
    return len([path for _, path in sandbox.script.requests if "limit=500" in path])


def in_pauses(action: Action, work: Callable[[], Any], runs: int = 3) -> Action:
    """Runs the action; while it waits, something else happens."""
    for _ in range(runs):
        Action.objects.filter(pk=action.pk).update(next_attempt_at=None)  # its time has come
        if follow.run(action.pk, pause=lambda _: work()) is None:
            break
    action.refresh_from_db()
    return action


def test_an_install_is_followed_by_the_rows_alone(
    sandbox: Sandbox, watched: Cluster, olivia: User
) -> None:
    before = lists(sandbox)
    seen: list[int] = []

    def watch() -> None:
        seen.append(lists(sandbox) - before - sum(seen))
        sync_cluster(watched)
        seen.append(lists(sandbox) - before - sum(seen))

    action = in_pauses(ask(watched, olivia), watch, 20)
    assert (action.state, action.outcome) == ("succeeded", f"{GOOD} is installed.")
    assert set(seen[::2]) == {0}, "only the watch itself listed"


@pytest.mark.parametrize(("seconds", "is_read"), [(5, False), (20, True)])
def test_a_cluster_whose_watcher_was_killed_is_left_to_the_next_watcher_for_a_while(
    sandbox: Sandbox,
    cluster: Cluster,
    olivia: User,
    monkeypatch: pytest.MonkeyPatch,
    seconds: int,
    is_read: bool,
) -> None:
    monkeypatch.setattr(follow, "RUN_SECONDS", 0.0)
    sync_cluster(cluster)
    assert acquire(cluster_lease(cluster.pk), 1)
    Lease.objects.update(expires_at=timezone.now() - timedelta(seconds=seconds))
    before = lists(sandbox)
    action = in_pauses(ask(cluster, olivia), lambda: None, 1)
    assert action.state == "applied"
    assert (lists(sandbox) > before) == is_read


def test_an_object_that_the_watch_has_not_told_of_yet_is_not_taken_for_gone(
    sandbox: Sandbox, watched: Cluster, olivia: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "RUN_SECONDS", 0.0)
    action = in_pauses(ask(watched, olivia), lambda: None, 1)
    assert action.state == "applied"
    assert not Operator.objects.filter(name=GOOD).exists()


def test_an_object_that_is_gone_before_the_watch_told_of_it_is_noticed(
    sandbox: Sandbox, watched: Cluster, olivia: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "RUN_SECONDS", 0.0)
    action = in_pauses(ask(watched, olivia), lambda: None, 1)
    sandbox.store.delete("PlatformOperator", GOOD)
    in_pauses(action, lambda: None)
    assert (action.state, action.outcome_code) == ("failed", "vanished")


def test_a_removal_ends_when_the_watch_has_told_of_it(
    sandbox: Sandbox, cluster: Cluster, olivia: User
) -> None:
    carry_out(ask(cluster, olivia))
    operator = Operator.objects.get(name=GOOD)
    with lease(cluster_lease(cluster.pk), 60):
        action = request(plan_remove(operator), olivia)
        in_pauses(action, lambda: sync_cluster(cluster))
    words = f"PlatformOperator {GOOD} is deleted."
    assert (action.state, action.outcome) == ("succeeded", words)


def test_a_cluster_that_does_not_answer_settles_nothing(
    sandbox: Sandbox, watched: Cluster, olivia: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(*_: Any, **__: Any) -> Any:
        raise Unreachable("Can't reach it.")

    monkeypatch.setattr(follow, "RUN_SECONDS", 0.0)
    action = in_pauses(ask(watched, olivia), lambda: None, 1)
    sandbox.store.delete("PlatformOperator", GOOD)
    monkeypatch.setattr(follow, "client_for", silent)
    in_pauses(action, lambda: None, 1)
    assert action.state == "applied"
