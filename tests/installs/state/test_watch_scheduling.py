"""Who gets a turn, and when a turn makes room for others."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import DatabaseError
from django.utils import timezone

from installs.state.watch import scheduling
from installs.state.watch.scheduling import (
    Demand,
    TimeSlice,
    cluster_lease,
    surplus,
    waiting,
    watched,
)
from olmweb.models import Cluster, Lease
from olmweb.runtime.leases import acquire, holders, this_process
from olmweb.runtime.worker import broker_answers, clear_stop, request_stop

pytestmark = pytest.mark.django_db


def make(name: str, **ago: float) -> Cluster:
    """A cluster whose times are so many seconds ago."""
    now = timezone.now()
    times = {key: now - timedelta(seconds=value) for key, value in ago.items()}
    return Cluster.objects.create(name=name, context=name, **times)


class Time:
    """The time and the dice that a turn sees."""

    now = 1000.0
    dice = 0.0


@pytest.fixture
def clock() -> Time:
    return Time()


@pytest.fixture
def turn(clock: Time) -> TimeSlice:
    """A turn that began long ago, with a cluster whose lease is held."""
    assert acquire(cluster_lease(make("ours", checked_at=1).pk), 60)
    made = TimeSlice(lambda: clock.now, lambda: clock.dice, Demand())
    clock.now += 100
    return made


def test_those_that_nobody_watches_wait_the_longest_forgotten_first() -> None:
    now = timezone.now()
    late, new, early = make("late", checked_at=10), make("new"), make("early", checked_at=99)
    busy = make("busy", checked_at=500)
    down = make("down", checked_at=1, unreachable_since=200)
    assert acquire(cluster_lease(busy.pk), 60)
    assert waiting([late, new, early, busy, down], now) == [new, early, late]


def test_a_lease_that_expired_watches_nothing() -> None:
    one = make("one")
    assert acquire(cluster_lease(one.pk), 60)
    assert watched() == {one.pk}
    Lease.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert watched() == set()


def test_a_turn_goes_on_while_nobody_waits(turn: TimeSlice) -> None:
    make("served-lately", checked_at=5)
    assert not turn.is_over()


def test_a_turn_ends_when_another_cluster_waits_for_a_place(turn: TimeSlice) -> None:
    make("waiting")
    assert turn.is_over()


def test_a_cluster_that_left_the_settings_or_backs_off_does_not_wait(turn: TimeSlice) -> None:
    Cluster.objects.create(name="left", error_code="not-configured")
    make("down", checked_at=15, unreachable_since=7200)
    assert not turn.is_over()


def test_a_cluster_that_fails_waits_only_when_nobody_takes_its_next_try(
    turn: TimeSlice, clock: Time, settings: Any
) -> None:
    settings.STATE_POLL = 5
    down = make("down", checked_at=25, unreachable_since=7200)  # tried every 20 s
    assert not turn.is_over()
    Cluster.objects.filter(pk=down.pk).update(checked_at=timezone.now() - timedelta(seconds=35))
    clock.now += scheduling.CHECK_SECONDS
    assert turn.is_over()


def test_every_turn_has_its_shortest_time(turn: TimeSlice, clock: Time) -> None:
    make("waiting")
    clock.now -= 95
    assert not turn.is_over()


def test_the_database_is_asked_now_and_then_only(
    turn: TimeSlice, clock: Time, django_assert_num_queries: Any
) -> None:
    assert not turn.is_over()
    make("waiting")
    with django_assert_num_queries(0):
        clock.now += 1.9
        assert not turn.is_over()
    clock.now += 0.2
    assert turn.is_over()


def test_the_database_is_asked_once_for_all_turns_of_a_process(
    clock: Time, django_assert_num_queries: Any
) -> None:
    demand = Demand()
    turns = [TimeSlice(lambda: clock.now, lambda: clock.dice, demand) for _ in range(5)]
    clock.now += 100
    make("waiting")
    with django_assert_num_queries(2):  # the watched clusters, and those that nobody watches
        assert all(turn.is_over() for turn in turns)
    clock.now += scheduling.CHECK_SECONDS
    Cluster.objects.update(checked_at=timezone.now())
    assert not any(turn.is_over() for turn in turns)


def test_others_get_the_share_before_while_one_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    demand = Demand()
    seen: list[float] = []

    def count() -> float:
        seen.append(demand.share(1000.0 + len(seen)))  # as from another thread
        if len(seen) == 3:
            raise DatabaseError
        return 0.5

    monkeypatch.setattr(scheduling, "_demanded_share", count)
    assert demand.share(100.0) == 0.5
    assert demand.share(200.0) == 0.5
    with pytest.raises(DatabaseError):
        demand.share(300.0)
    assert seen == [0.0, 0.5, 0.5]
    assert demand.share(300.0) == 0.0


def test_only_as_many_turns_end_as_are_waited_for(turn: TimeSlice, clock: Time) -> None:
    for number in range(3):
        assert acquire(cluster_lease(make(f"busy-{number}", checked_at=1).pk), 60)
    make("waiting")
    clock.dice = 0.3  # one waits, four are at it
    assert not turn.is_over()
    clock.dice = 0.2
    clock.now += 3
    assert turn.is_over()


def surplus_of(*watchers: tuple[int, int]) -> float:
    """That of the first of so many watchers with a number of slots and clusters each."""
    Lease.objects.all().delete()
    names = [this_process(), *(f"host:{number}" for number in range(1, len(watchers)))]
    for name, (slots, _) in zip(names, watchers, strict=True):
        end = timezone.now() + timedelta(minutes=1)
        Lease.objects.create(name=f"watcher:{slots}:{name}", owner=f"{name}:1:a", expires_at=end)
    return surplus([name for name, (_, number) in zip(names, watchers, strict=True)
                    for _ in range(number)])  # fmt: skip


def test_a_watcher_leaves_clusters_to_those_with_fewer_than_a_fair_share() -> None:
    assert surplus_of((50, 40), (50, 0)) == 20 / 40
    assert surplus_of((50, 30), (50, 10), (50, 0)) == pytest.approx(16 / 30)
    assert surplus_of((50, 10), (50, 30)) == 0, "the other one has too many"
    assert surplus_of((50, 40)) == 0, "there is no other one"


def test_what_can_not_be_divided_stays_or_goes_to_those_with_fewer() -> None:
    assert surplus_of((50, 26), (50, 25)) == 0
    assert surplus_of((50, 27), (50, 24)) == 1 / 27
    assert surplus_of((50, 12), (50, 10), (50, 10)) == 1 / 12
    assert surplus_of((9, 2), (9, 2), (9, 0)) == pytest.approx(1 / 4), "one of two gives one of two"
    assert surplus_of(*[(9, 3)] * 10, (9, 0)) == pytest.approx(2 / 30), "two of thirty"


def test_a_watcher_keeps_what_no_other_has_a_slot_for() -> None:
    assert surplus_of((40, 40), (10, 10)) == 0
    assert surplus_of((40, 40), (10, 4)) == 6 / 40
    assert surplus_of((50, 40), (0, 0)) == 0


def test_a_turn_ends_when_another_watcher_has_too_few(
    turn: TimeSlice, clock: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduling, "surplus", lambda watchers: 0.25)
    clock.dice = 0.25
    assert not turn.is_over()
    clock.dice = 0.2
    clock.now += 3
    assert turn.is_over()


@pytest.mark.parametrize(("clusters", "share"), [(1, 0.4), (2, 0.4), (30, 1 / 30)])
def test_a_watcher_leaves_one_cluster_at_a_time(
    clusters: int, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduling, "surplus", lambda watchers: 0.4)
    for number in range(clusters):
        assert acquire(cluster_lease(make(f"busy-{number}", checked_at=1).pk), 60)
    assert Demand().share(100.0) == pytest.approx(share)


def test_a_watcher_counts_while_it_gets_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    ago = 1.0
    monkeypatch.setattr(scheduling, "seconds_since_heartbeat", lambda: ago)
    registration = scheduling.Registration(8, list[int]().append)
    registration.renew()
    (lease,) = Lease.objects.filter(name__startswith="watcher:8:")
    assert lease.owner.startswith(f"{this_process()}:")
    registration.renew()
    (renewed,) = Lease.objects.all()
    assert renewed.expires_at >= lease.expires_at
    Lease.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    ago = 6.0  # Redis is away
    registration.renew()
    assert not holders("watcher:")
    ago = 0.5
    Lease.objects.all().delete()  # as of the retention
    registration.renew()
    assert len(holders("watcher:")) == 1


def test_a_registered_watcher_queues_the_clusters_that_nobody_watches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ago = 6.0  # Redis is away
    monkeypatch.setattr(scheduling, "seconds_since_heartbeat", lambda: ago)
    free, busy, removed = make("free"), make("busy"), make("removed")
    Cluster.objects.filter(pk=removed.pk).update(error_code="not-configured")
    assert acquire(scheduling.cluster_lease(busy.pk), 30)
    sent: list[int] = []
    registration = scheduling.Registration(8, sent.append)
    registration.renew()
    assert not sent
    ago = 1.0
    registration.renew()
    registration.renew()  # its message is still queued
    assert sent == [free.pk]


def test_a_database_that_is_away_delays_the_registration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduling, "seconds_since_heartbeat", lambda: 1.0)
    monkeypatch.setattr("installs.state.watch.scheduling.connection.close", lambda: None)
    registration = scheduling.Registration(8, list[int]().append)

    def away(*_: object) -> None:
        raise DatabaseError

    with monkeypatch.context() as patched:
        patched.setattr(scheduling, "acquire", away)
        registration.renew()
    assert not holders("watcher:")
    registration.renew()
    assert len(holders("watcher:")) == 1


def test_no_turn_ends_while_no_other_could_begin(
    turn: TimeSlice, monkeypatch: pytest.MonkeyPatch
) -> None:
    make("waiting")
    monkeypatch.setattr(scheduling, "broker_answers", lambda: False)
    assert not turn.is_over()


def test_a_worker_that_ends_ends_its_turns_at_once() -> None:
    turn = TimeSlice()
    request_stop()
    try:
        assert turn.is_over()
    finally:
        clear_stop()


def test_a_database_that_is_away_ends_no_turn(
    turn: TimeSlice, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise DatabaseError

    make("waiting")
    with monkeypatch.context() as patched:
        patched.setattr(scheduling, "holders", away)
        patched.setattr("installs.state.watch.scheduling.connection.close", lambda: None)
        assert not turn.is_over()


@pytest.mark.parametrize(
    ("address", "works"), [("memory://", True), ("redis://127.0.0.1:1/0", False)]
)
def test_the_broker_is_asked_whether_it_works(
    monkeypatch: pytest.MonkeyPatch, address: str, works: bool
) -> None:
    from kombu import Connection

    monkeypatch.setattr(
        "olmweb.runtime.worker.current_app.connection_for_write",
        lambda: Connection(address),
    )
    assert broker_answers() is works


def test_a_cluster_is_in_the_queue_once() -> None:
    sent: list[int] = []
    for _ in range(3):
        scheduling.enqueue(7, sent.append)
    scheduling.enqueue(8, sent.append)
    assert sent == [7, 8]
    scheduling.dequeued(7)
    scheduling.enqueue(7, sent.append)
    assert sent == [7, 8, 7]
