"""Attempts of an action: one claim each, whatever the number of messages, workers and crashes."""

import heapq
import itertools
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db.models import F
from django.utils import timezone

from installs import tasks
from installs.actions import claims, execute, follow
from installs.actions.plan import plan_install
from installs.actions.record import request
from installs.models import Action
from olmweb.kube.client import KubeClient
from olmweb.kube.resources import Resource
from olmweb.sandbox.cluster import Sandbox
from tests.factories import make_catalog, make_cluster, make_package
from tests.installs.actions.test_actions_extension import make_cluster_read
from tests.installs.actions.test_actions_followed import carry_out, writes

pytestmark = pytest.mark.django_db
RESUME_SECONDS = 30  # the period of installs.resume_actions


class Broker:
    """Messages of run_action in the order of their time, and a clock that jumps from one to the
    next. The rows are made older instead of the database's clock going on."""

    def __init__(self) -> None:
        self.now = 0.0
        self.runs = 0
        self._messages: list[tuple[float, int, float, int]] = []
        self._order = itertools.count()

    def send(self, args: tuple[int], _kwargs: Any = None, **options: Any) -> None:
        due = self.now + options.get("countdown", 0)
        until = self.now + options.get("expires", 1e9)
        heapq.heappush(self._messages, (due, next(self._order), until, args[0]))

    def advance(self, seconds: float) -> None:
        self.now += seconds
        passed = timedelta(seconds=seconds)
        Action.objects.update(
            **{name: F(name) - passed for name in ("created_at", "sent_at", "next_attempt_at")}
        )

    def work(self, seconds: float) -> None:
        """Delivers what is due within these seconds; every half minute lost actions are resumed."""
        end, resume = self.now + seconds, self.now
        while True:
            due = min([resume, *[message[0] for message in self._messages[:1]]])
            if due >= end:
                self.advance(end - self.now)
                return
            self.advance(max(0.0, due - self.now))
            if due == resume:
                tasks.resume_actions()
                resume += RESUME_SECONDS
                continue
            _due, _order, until, action_id = heapq.heappop(self._messages)
            if until >= self.now:
                self.runs += 1
                tasks.run_action(action_id)


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    made = Broker()
    monkeypatch.setattr(tasks.run_action, "apply_async", made.send)
    return made


@pytest.fixture
def action(olivia: User) -> Action:
    cluster = make_cluster()
    package = make_package(catalog=make_catalog(cluster=cluster))
    return request(plan_install(cluster, package, ""), olivia)


@pytest.fixture
def attempts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The attempts to send an action; the cluster is away."""
    made: list[int] = []

    def try_to_send(action: Action) -> float:
        made.append(action.pk)
        return execute.RETRY_SECONDS

    monkeypatch.setattr(follow, "try_to_send", try_to_send)
    return made


def test_an_action_that_waits_for_its_cluster_is_tried_once_in_five_seconds(
    broker: Broker, action: Action, attempts: list[int]
) -> None:
    broker.send((action.pk,))
    broker.work(15 * 60 - 1)
    assert 150 <= len(attempts) <= 180
    assert broker.runs <= 180 + 30, "each resumption may meet one message that is under way"
    broker.work(60)
    action.refresh_from_db()
    assert (action.state, action.outcome_code) == ("refused", "not-sent")


def test_messages_that_are_delivered_twice_make_no_second_chain(
    broker: Broker, action: Action, attempts: list[int]
) -> None:
    for _ in range(20):
        broker.send((action.pk,))
    broker.work(60)
    assert len(attempts) <= 13


def test_a_followed_action_is_looked_at_by_one_chain_while_others_wait(
    broker: Broker, action: Action, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each run is short then, so that messages meet it between two runs."""
    looks: list[int] = []

    def settle(action: Action, **_: Any) -> bool:
        looks.append(action.pk)
        return False

    monkeypatch.setattr(follow, "_refresh", lambda _: False)
    monkeypatch.setattr(follow, "_settle", settle)
    monkeypatch.setattr(follow, "waiting", lambda: [action.pk])  # and resumed each half minute
    Action.objects.update(state=Action.State.APPLIED, sent_at=timezone.now())
    for _ in range(20):
        broker.send((action.pk,))
    broker.work(120)
    assert 30 <= len(looks) <= 120 / follow.AGAIN_SECONDS + 1


def test_a_second_worker_finds_nothing_to_do_while_the_first_sends(
    action: Action, monkeypatch: pytest.MonkeyPatch
) -> None:
    second: list[float | None] = []

    def try_to_send(action: Action) -> float:
        second.append(follow.run(action.pk))
        assert follow.waiting() == []
        return execute.RETRY_SECONDS

    monkeypatch.setattr(follow, "try_to_send", try_to_send)
    assert follow.run(action.pk) == execute.RETRY_SECONDS
    assert second == [None]


def test_an_attempt_is_not_made_before_its_time(
    broker: Broker, action: Action, attempts: list[int]
) -> None:
    assert follow.run(action.pk) == execute.RETRY_SECONDS
    assert follow.run(action.pk) is None
    broker.advance(execute.RETRY_SECONDS)
    assert follow.run(action.pk) == execute.RETRY_SECONDS
    assert len(attempts) == 2


def test_an_action_whose_worker_is_killed_is_claimed_again_within_two_minutes(
    broker: Broker, action: Action, attempts: list[int]
) -> None:
    assert claims.claim(action.pk) is not None  # and then the process is gone
    broker.work(claims.CLAIM_SECONDS - 2)
    assert attempts == []
    broker.work(RESUME_SECONDS + 3)
    assert attempts, "nothing is lost"


def test_a_worker_that_was_paused_past_its_claim_does_not_end_the_claim_of_another(
    broker: Broker, action: Action
) -> None:
    first = claims.claim(action.pk)
    assert first is not None
    broker.advance(claims.CLAIM_SECONDS + 1)
    assert claims.claim(action.pk) is not None
    assert not claims.renew(first)
    claims.release(first, None)
    assert follow.waiting() == []


def test_one_message_at_most_waits_for_each_action_when_no_worker_runs(
    action: Action, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[dict[str, Any]] = []
    monkeypatch.setattr(tasks.run_action, "apply_async", lambda *_, **options: sent.append(options))
    tasks.resume_actions()
    assert [options["expires"] for options in sent] == [RESUME_SECONDS]


# --- a claim that is shorter than its attempt -----------------------------------------------------


@pytest.fixture
def install(sandbox: Sandbox, olivia: User) -> Action:
    """The install of a Subscription with its Namespace and OperatorGroup."""
    cluster = make_cluster_read()
    catalog = cluster.catalogs.get(name="redhat-operators", source_kind="CatalogSource")
    package = make_package(name="queue-demo", catalog=catalog, install_modes=["OwnNamespace"])
    values = {"namespace": "queues", "approval": "Manual"}
    plan = plan_install(cluster, package, "", "Subscription", values)
    assert [step.kind for step in plan.steps] == ["Namespace", "OperatorGroup", "Subscription"]
    return request(plan, olivia)


def pause_worker(seconds: float) -> None:
    """As if a worker went on only after this time: the row gets older."""
    Action.objects.update(next_attempt_at=F("next_attempt_at") - timedelta(seconds=seconds))


def test_an_action_stays_claimed_while_a_slow_cluster_answers_one_request_after_the_other(
    install: Action, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    resumed: list[int] = []
    requests: list[str] = []

    def slow(client: KubeClient, resource: Resource, *args: Any, **options: Any) -> Any:
        answer = apply(client, resource, *args, **options)
        requests.append(resource.kind)
        pause_worker(claims.CLAIM_SECONDS / 2 - 5)
        resumed.extend(follow.waiting())
        return answer

    apply = KubeClient.apply
    monkeypatch.setattr(KubeClient, "apply", slow)
    assert carry_out(install).outcome_code == "needs-approval", install.outcome
    assert requests == ["Namespace", "OperatorGroup", "Subscription"]
    assert resumed == []


@pytest.mark.parametrize("kind", ["Namespace", "OperatorGroup", "Subscription"])
def test_a_worker_that_was_paused_past_its_claim_sends_and_writes_nothing_more(
    install: Action, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Another worker carries the action out meanwhile."""
    others: list[Action] = []
    sent: list[str] = []

    def paused(client: KubeClient, resource: Resource, *args: Any, **options: Any) -> Any:
        answer = apply(client, resource, *args, **options)
        if resource.kind == kind and not others:
            pause_worker(claims.CLAIM_SECONDS + 1)
            others.append(install)
            others[0] = carry_out(Action.objects.get(pk=install.pk))
            sent.extend(writes(sandbox))
        return answer

    apply = KubeClient.apply
    monkeypatch.setattr(KubeClient, "apply", paused)
    assert follow.run(install.pk) is None
    assert others[0].outcome_code == "needs-approval", others[0].outcome
    assert writes(sandbox) == sent
    install.refresh_from_db()
    for name in ("state", "outcome", "done", "sent_at", "object_uid", "attempt", "finished_at"):
        assert getattr(install, name) == getattr(others[0], name), name


def test_a_worker_that_was_paused_before_it_noted_the_sending_leaves_the_row_alone(
    install: Action, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the row of an action that ended without a request would say that it was sent."""
    mark = execute._mark_sent

    def paused(action: Action) -> None:
        pause_worker(claims.CLAIM_SECONDS + 1)
        other = claims.claim(action.pk)
        assert other is not None
        execute.finish(other, Action.State.NO_CHANGE, "It was so already.")
        mark(action)

    monkeypatch.setattr(execute, "_mark_sent", paused)
    assert follow.run(install.pk) is None
    install.refresh_from_db()
    assert (install.state, install.sent_at) == ("no_change", None)
    assert sandbox.store.get("Subscription", "queue-demo", "queues") is None
