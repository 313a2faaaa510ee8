"""Bulk installs: what is left out and why, one batch a key, three at a time, Stop; the sandbox."""

import time
from datetime import timedelta
from typing import Any
from unittest.mock import Mock

import pytest
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.utils import timezone
from pytest_django import DjangoCaptureOnCommitCallbacks

from catalogs.install_methods import InstallMethod
from installs import tasks
from installs.actions import bulk, follow
from installs.actions import record as actions
from installs.actions.bulk import BulkCandidate, Item, Key
from installs.models import Action, ActionBatch
from installs.queries.activity import progress_of
from olmweb.errors import OlmwebError
from olmweb.models import Cluster
from olmweb.sandbox.cluster import Sandbox
from tests.factories import (
    make_catalog,
    make_cluster,
    make_operator,
    make_package,
    make_prediction,
)

pytestmark = pytest.mark.django_db
NAMES = ("acme", "brisk", "crane", "delta", "eager")
PO = InstallMethod.PLATFORM_OPERATOR


@pytest.fixture
def prod(sandbox: Sandbox) -> Cluster:
    cluster = make_cluster(name="prod", context="sandbox")
    catalog = make_catalog(cluster=cluster)
    for name in NAMES:
        make_package(name=name, catalog=catalog)
    return cluster


@pytest.fixture
def oscar(olivia: User) -> User:
    """Another operator."""
    user = User.objects.create_user("oscar")
    user.groups.set(olivia.groups.all())
    return user


def keys(*names: str) -> list[Key]:
    return [Key("prod", "redhat-operators", name) for name in names]


def candidates(cluster: Cluster, *names: str, path: InstallMethod = PO) -> list[BulkCandidate]:
    chosen = bulk.read_selection(keys(*(names or NAMES)))
    return bulk.candidates(chosen, cluster, path)


def items(cluster: Cluster, user: User, *names: str) -> list[Item]:
    planned = bulk.plan_items(candidates(cluster, *names), cluster, PO, {})
    return bulk.dry_run(planned, user)


def record(cluster: Cluster, user: User, *names: str, key: str = "k") -> ActionBatch:
    hashed = bulk.hash_of(cluster, PO, keys(*(names or NAMES)), {})
    found = items(cluster, user, *names)
    return bulk.record_batch(found, cluster, PO, user, key=key, request_hash=hashed)


def actions_of(batch: ActionBatch) -> list[Action]:
    return list(Action.objects.filter(batch=batch).order_by("id"))


def states(batch: ActionBatch) -> list[str]:
    return [one.state for one in actions_of(batch)]


# --- what is selected ----------------------------------------------------------------------------


def test_what_is_busy_twice_unknown_or_offered_elsewhere_can_not_be_part_of_it(
    prod: Cluster, olivia: User
) -> None:
    record(prod, olivia, "acme")
    other = make_cluster(name="edge", kinds={})
    make_package(name="far", catalog=make_catalog(name="edge-only", cluster=other))
    make_package(name="brisk", catalog=make_catalog(name="second"))
    wanted = [
        *keys("acme", "brisk", "nope"),
        Key("-", "second", "brisk"),
        Key("edge", "edge-only", "far"),
    ]
    found = bulk.candidates(bulk.read_selection(wanted), prod, PO)
    told = {str(one.key): one.hindrance for one in found}
    assert told.pop("prod/redhat-operators/acme").startswith("Its install, action ")
    assert told == {
        "-/second/brisk": "",
        "prod/redhat-operators/brisk": "It is already selected from second.",
        "prod/redhat-operators/nope": "Cluster prod has no catalog redhat-operators with it.",
        "edge/edge-only/far": "Cluster prod has no catalog edge-only with it.",
    }


def test_a_stored_verdict_and_an_operator_that_is_there_are_doubts_with_their_reason(
    prod: Cluster,
) -> None:
    package = prod.catalogs.get().packages.get(name="acme")
    head = package.bundles.get(name="acme.v1.1.0")
    make_prediction(bundle=head, rule="po-install-mode", sentence="It supports OwnNamespace only.")
    make_operator(cluster=prod, name="brisk-1", package="brisk")
    told = {one.name: one.doubt for one in candidates(prod)}
    assert told["acme"] == "It supports OwnNamespace only."
    assert told["brisk"] == "Already installed as PlatformOperator brisk-1."
    assert not told["crane"]
    assert candidates(prod, "acme")[0].bundle == "acme.v1.1.0"


def test_the_verdict_is_that_of_the_namespaces_which_the_install_would_watch(
    prod: Cluster,
) -> None:
    prod.kinds = {**prod.kinds, "Subscription": {"state": "served", "version": "v1alpha1"}}
    prod.save()
    catalog = prod.catalogs.get()
    catalog.source_kind = catalog.SourceKind.CATALOG_SOURCE
    catalog.save()
    alone = make_package(name="alone", catalog=catalog, install_modes=["OwnNamespace"])
    everywhere = catalog.packages.get(name="acme")
    for package in (alone, everywhere):
        head = package.bundles.get(version="1.1.0")
        make_prediction(bundle=head, path="Subscription", rule="all-only", sentence="Not in all.")
        make_prediction(bundle=head, path="Subscription", target="own")
    chosen = bulk.read_selection(keys("alone", "acme"))

    def doubts(targets: str) -> dict[str, str]:
        found = bulk.candidates(chosen, prod, InstallMethod.SUBSCRIPTION, targets)
        return {one.name: one.doubt for one in found}

    assert doubts("") == {"acme": "", "alone": ""}
    assert doubts("own") == {"acme": "", "alone": ""}
    assert doubts("all") == {"acme": "Not in all.", "alone": "Not in all."}


def test_another_cluster_takes_the_package_from_its_own_catalog_of_the_same_name(
    prod: Cluster,
) -> None:
    lab = make_cluster(name="lab", context="sandbox")
    make_package(name="acme", catalog=make_catalog(cluster=lab))
    (found,) = candidates(lab, "acme")
    assert found.package is not None
    assert found.package.catalog.cluster == lab
    chosen = bulk.read_selection(keys("acme", "brisk"))
    assert list(bulk.target_clusters(chosen, [lab, prod])) == [prod, lab], "of the first selected"


def test_texts_that_are_no_keys_are_not_read_and_each_counts_once() -> None:
    texts = ["a/b/c", "a/b/c", "a/b", "a//c", "", "a/b/c/d", f"a/b/{'c' * 1000}"]
    assert bulk.read_keys(texts) == [Key("a", "b", "c")]
    many = [f"a/b/{number}" for number in range(bulk.SHOWN + 5)]
    assert len(bulk.read_keys(many)) == bulk.SHOWN


def test_the_queries_of_a_selection_do_not_grow_with_it(
    prod: Cluster, django_assert_max_num_queries: Any
) -> None:
    for number in range(40):
        make_package(name=f"more-{number}", catalog=prod.catalogs.get())
    names = [f"more-{number}" for number in range(40)]
    with django_assert_max_num_queries(8):
        assert len(candidates(prod, *names)) == 40


# --- review --------------------------------------------------------------------------------------


def test_each_is_tried_as_the_person_and_nothing_is_kept(
    prod: Cluster, olivia: User, tess: User, sandbox: Sandbox
) -> None:
    assert len(bulk.accepted(items(prod, olivia))) == len(NAMES)
    assert sandbox.store.get(PO, "acme") is None
    refused = items(prod, tess)
    assert bulk.accepted(refused) == []
    assert all("tess may not install this" in one.problem for one in refused)


def test_more_than_the_cap_and_none_at_all_are_refused(prod: Cluster, olivia: User) -> None:
    for count, words in ((0, "at least one"), (bulk.CAP + 1, "at most 50")):
        with pytest.raises(OlmwebError, match=words) as caught:
            bulk.plan_items([BulkCandidate(key) for key in keys("a") * count], prod, PO, {})
        assert caught.value.status == 400


def test_a_cluster_that_is_silent_is_asked_once(
    prod: Cluster, olivia: User, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = bulk.plan_items(candidates(prod), prod, PO, {})
    sandbox.stop()
    asked = Mock(wraps=actions.dry_run)
    monkeypatch.setattr(actions, "dry_run", asked)
    tried = bulk.dry_run(planned, olivia)
    assert asked.call_count == 1
    assert all(one.problem for one in tried)
    late = bulk.dry_run(planned, olivia, seconds=-1)
    assert asked.call_count == 1
    assert "No dry run" in late[0].problem


def test_only_what_was_shown_to_this_person_can_be_confirmed(
    prod: Cluster, olivia: User, alice: User
) -> None:
    shown = bulk.accepted(items(prod, olivia, "acme", "brisk"))
    token = actions.reviewed(shown, olivia, "bulk")
    actions.require_reviewed(token, shown, olivia, "bulk")
    actions.require_reviewed(token, shown[:1], olivia, "bulk")  # fewer than shown
    more = bulk.accepted(items(prod, olivia, "acme", "crane"))
    for found, user, text in ((more, olivia, token), (shown, alice, token), (shown, olivia, "x")):
        with pytest.raises(OlmwebError, match="Form changed, nothing applied") as caught:
            actions.require_reviewed(text, found, user, "bulk")
        assert caught.value.status == 403


# --- recording -----------------------------------------------------------------------------------


def test_an_action_each_is_recorded_before_anything_is_sent(
    prod: Cluster, olivia: User, sandbox: Sandbox
) -> None:
    batch = record(prod, olivia)
    found = actions_of(batch)
    assert [one.name for one in found] == list(NAMES)
    assert {one.state for one in found} == {"pending"}
    assert {one.as_user for one in found} == {"olivia"}
    assert all(one.dry_run["ok"] for one in found)
    assert sandbox.store.get(PO, "acme") is None


def test_pressing_twice_makes_one_batch_and_the_key_stands_for_this_selection_only(
    prod: Cluster, olivia: User, oscar: User
) -> None:
    batch = record(prod, olivia, "acme", "brisk")
    assert record(prod, olivia, "acme", "brisk") == batch
    assert Action.objects.count() == 2
    with pytest.raises(OlmwebError, match="another bulk action") as caught:
        record(prod, olivia, "acme", "crane")
    assert caught.value.status == 422
    assert record(prod, oscar, "crane") != batch, "keys are per person"


def test_two_that_press_at_the_same_moment_get_one_batch(
    prod: Cluster, olivia: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second reads before the first has written, and writes after it."""
    hashed = bulk.hash_of(prod, PO, keys("acme"), {})
    found = items(prod, olivia, "acme")
    first = record(prod, olivia, "acme")
    read, early = QuerySet.get, iter([ActionBatch.DoesNotExist])

    def get(*args: Any, **values: Any) -> Any:
        for error in early:
            raise error
        return read(*args, **values)

    monkeypatch.setattr(QuerySet, "get", get)
    again = bulk.record_batch(found, prod, PO, olivia, key="k", request_hash=hashed)
    assert again == first
    assert Action.objects.count() == ActionBatch.objects.count() == 1


def test_what_somebody_else_asked_for_meanwhile_is_left_out_with_the_reason(
    prod: Cluster, olivia: User, oscar: User
) -> None:
    found = items(prod, olivia, "acme", "brisk")
    single = record(prod, oscar, "acme")
    batch = bulk.record_batch(found, prod, PO, olivia, key="mine", request_hash="h")
    assert [one.name for one in actions_of(batch)] == ["brisk"]
    (left,) = batch.left_out
    assert left["package"] == "acme"
    assert f"{actions_of(single)[0].pk}" in left["reason"]
    with pytest.raises(OlmwebError, match="Nothing of this can be done now: acme") as caught:
        bulk.record_batch(found[:1], prod, PO, olivia, key="third", request_hash="h")
    assert caught.value.status == 409
    assert ActionBatch.objects.count() == 2, "a batch of nothing is none"


def test_who_may_not_act_records_and_stops_nothing(prod: Cluster, olivia: User, bob: User) -> None:
    found = items(prod, olivia, "acme")
    with pytest.raises(OlmwebError) as caught:
        bulk.record_batch(found, prod, PO, bob, key="k", request_hash="h")
    assert caught.value.status == 403
    batch = record(prod, olivia, "acme")
    with pytest.raises(OlmwebError) as caught:
        bulk.stop(batch, bob)
    assert caught.value.status == 403
    assert states(batch) == ["pending"]


# --- a few at a time -----------------------------------------------------------------------------


def run(action: Action) -> float | None:
    return follow.run(action.pk, pause=lambda _: time.sleep(0.02))


def test_three_are_under_way_and_the_next_begins_when_one_has_ended(
    prod: Cluster, olivia: User, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = record(prod, olivia)
    found = actions_of(batch)
    assert follow.waiting() == [one.pk for one in found[:3]]
    assert run(found[3]) is None
    assert sandbox.store.get(PO, found[3].name) is None, "a stray message sends nothing early"
    delayed = Mock()
    monkeypatch.setattr(tasks.run_action, "delay", delayed)

    def succeed(pk: int) -> None:
        Action.objects.filter(pk=pk).update(state="succeeded")

    monkeypatch.setattr(follow, "run", succeed)
    for one in found[:3]:
        bulk.begin(one)
    tasks.run_action(found[0].pk)
    delayed.assert_called_once_with(found[3].pk)
    assert follow.waiting() == [one.pk for one in found[1:4]]


def test_only_those_whose_turn_it_is_are_sent_for_and_a_stray_message_sends_for_none(
    prod: Cluster,
    olivia: User,
    monkeypatch: pytest.MonkeyPatch,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    sent = Mock()
    monkeypatch.setattr(tasks.run_action, "apply_async", sent)
    with django_capture_on_commit_callbacks(execute=True):
        batch = record(prod, olivia)
    found = actions_of(batch)
    assert sent.call_count == bulk.AT_ONCE
    sent.reset_mock()
    tasks.run_action(found[4].pk)
    sent.assert_not_called()
    assert bulk.next_after(found[0].pk) == [], "it has not ended"


def test_a_worker_that_dies_after_it_took_one_up_loses_nothing(
    prod: Cluster, olivia: User, sandbox: Sandbox
) -> None:
    batch = record(prod, olivia, "acme")
    (action,) = actions_of(batch)
    assert bulk.begin(action)
    assert follow.waiting() == [action.pk]
    for _ in range(20):
        if run(action) is None:
            break
    assert sandbox.store.get(PO, "acme") is not None
    assert progress_of(batch).done == 1


def test_all_of_a_batch_are_carried_out_by_workers_that_only_pick_up_what_waits(
    prod: Cluster, olivia: User, sandbox: Sandbox
) -> None:
    """As after a crash of everything: no message is left, only the rows."""
    batch = record(prod, olivia)
    most = 0
    for _ in range(200):
        due = follow.waiting()
        if not due:
            break
        most = max(most, len(due))
        for pk in due:
            follow.run(pk, pause=lambda _: time.sleep(0.02))
        Action.objects.filter(state__in=Action.OPEN).update(next_attempt_at=None)  # due again
    progress = progress_of(batch)
    assert progress.done == progress.total == len(NAMES)
    assert most == bulk.AT_ONCE
    assert all(sandbox.store.get(PO, name) for name in NAMES)


def test_an_action_of_a_batch_has_its_time_from_when_it_begins(prod: Cluster, olivia: User) -> None:
    batch = record(prod, olivia, "acme")
    early = timezone.now() - timedelta(hours=2)
    Action.objects.update(created_at=early)
    (action,) = actions_of(batch)
    run(action)
    action.refresh_from_db()
    assert action.outcome_code != "not-sent"
    assert action.sent_at is not None


def test_one_whose_turn_never_came_is_not_sent_days_later(
    prod: Cluster, olivia: User, sandbox: Sandbox
) -> None:
    batch = record(prod, olivia, "acme")
    Action.objects.update(created_at=timezone.now() - timedelta(days=2))
    (action,) = actions_of(batch)
    assert run(action) is None
    action.refresh_from_db()
    assert (action.state, action.outcome_code) == ("refused", "not-sent")
    assert sandbox.store.get(PO, "acme") is None


# --- stop ----------------------------------------------------------------------------------------


def test_stop_ends_what_has_not_begun_and_nothing_else(
    prod: Cluster, olivia: User, alice: User, sandbox: Sandbox
) -> None:
    batch = record(prod, olivia)
    first = actions_of(batch)[0]
    assert bulk.begin(first)
    assert bulk.stop(batch, alice) == 4
    assert states(batch) == ["pending", *["stopped"] * 4]
    stopped = actions_of(batch)[1]
    assert stopped.outcome == "Stopped by alice before it was applied."
    assert run(stopped) is None
    assert sandbox.store.get(PO, stopped.name) is None
    batch.refresh_from_db()
    assert batch.stopped_by == "alice"
    assert bulk.stop(batch, olivia) == 0
    batch.refresh_from_db()
    assert batch.stopped_by == "alice", "who stopped it first"
    assert progress_of(batch).under_way == 1


def test_of_a_worker_and_stop_at_the_same_moment_exactly_one_gets_the_action(
    prod: Cluster, olivia: User
) -> None:
    batch = record(prod, olivia, "acme", "brisk")
    one, other = actions_of(batch)
    assert bulk.begin(one)
    assert bulk.stop(batch, olivia) == 1, "the other only"
    assert not bulk.begin(other), "the row that was read before the stop"
    assert states(batch) == ["pending", "stopped"]
