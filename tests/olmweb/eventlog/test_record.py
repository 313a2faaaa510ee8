"""Events are numbered after their commit, so that a reader with a cursor misses none."""

import threading
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import OperationalError, connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from installs.retention import prune
from installs.tasks import publish_events
from olmweb.eventlog import read
from olmweb.eventlog import record as record_module
from olmweb.eventlog.record import event, publish, record
from olmweb.eventlog.types import EventType, ExistenceData, FailureData
from olmweb.models import ChangeEvent, Cluster
from tests.factories import make_cluster

pytestmark = pytest.mark.django_db(transaction=True)


def write(name: str, number: int = 0, cluster: Cluster | None = None) -> None:
    created = event(
        EventType.OPERATOR_APPEARED,
        timezone.now(),
        ExistenceData(str(number)),
        cluster_id=cluster.pk if cluster else None,
        kind="Subscription",
        name=name,
    )
    record([created])


def names_after(position: int) -> list[str]:
    rows = read.published().filter(position__gt=position).order_by("position")
    return [row.name for row in rows]


def in_thread(function: Callable[[], object]) -> threading.Thread:
    def run() -> None:
        try:
            function()
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def on_postgresql() -> None:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has one writer at a time")


def test_an_event_that_is_committed_later_with_a_smaller_key_follows_the_cursor() -> None:
    on_postgresql()
    written, may_commit = threading.Event(), threading.Event()

    def slow() -> None:
        with transaction.atomic():
            write("slow")
            written.set()
            may_commit.wait(30)

    thread = in_thread(slow)
    assert written.wait(30)
    with transaction.atomic():
        write("quick")
    # A reader of now gets only what is committed, and goes on from there.
    assert names_after(0) == ["quick"]
    cursor = read.ends()[1]
    may_commit.set()
    thread.join()
    assert names_after(cursor) == ["slow"]
    keys = dict(ChangeEvent.objects.values_list("name", "pk"))
    assert keys["slow"] < keys["quick"]


def test_a_reader_beside_many_writers_gets_every_event_once_and_in_order() -> None:
    """Each writer changes an object of its own, and all of them one that they share."""
    on_postgresql()
    writers, rounds = 6, 30
    make_cluster(name="shared")

    def change(writer: int) -> None:
        for number in range(rounds):
            with transaction.atomic():
                write(f"own-{writer}", number)
                shared = Cluster.objects.select_for_update().get(name="shared")
                shared.revision += 1
                shared.save(update_fields=["revision"])
                write("shared", shared.revision)

    threads = [in_thread(lambda writer=writer: change(writer)) for writer in range(writers)]  # type: ignore[misc]
    position = 0
    received: list[tuple[str, int]] = []
    while True:
        over = not any(thread.is_alive() for thread in threads)
        rows = list(read.published().filter(position__gt=position).order_by("position"))
        received += [(row.name, int(row.data["uid"])) for row in rows]
        position = rows[-1].position or 0 if rows else position
        if over and not rows:
            break
    assert len(received) == len(set(received)) == 2 * writers * rounds
    for name in {name for name, _ in received}:
        numbers = [number for other, number in received if other == name]
        assert numbers == sorted(numbers), name


def test_a_thread_that_publishes_does_so_once_more_for_all_that_commit_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, may_end = threading.Event(), threading.Event()
    calls: list[int] = []

    def slow() -> int:
        calls.append(1)
        begun.set()
        assert may_end.wait(30)
        return 0

    monkeypatch.setattr(record_module, "publish", slow)
    first = in_thread(record_module.publish_soon)
    assert begun.wait(30)
    others = [in_thread(record_module.publish_soon) for _ in range(5)]
    for thread in others:
        thread.join(10)
        assert not thread.is_alive(), "waits for the publisher"
    may_end.set()
    first.join()
    assert len(calls) == 2
    record_module.publish_soon()
    assert len(calls) == 3


def test_a_publication_that_fails_is_followed_by_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> int:
        raise OperationalError("away")

    with monkeypatch.context() as patched:
        patched.setattr(record_module, "publish", fail)
        with transaction.atomic():
            write("unpublished")
    assert names_after(0) == []
    with transaction.atomic():
        write("next")
    assert names_after(0) == ["unpublished", "next"]


def test_events_of_a_transaction_that_is_rolled_back_are_not_recorded() -> None:
    with transaction.atomic():
        write("never")
        transaction.set_rollback(True)
    with transaction.atomic():
        write("first")
    assert names_after(0) == ["first"]
    assert read.ends() == (0, 1)


def test_events_of_a_process_that_ended_after_its_commit_are_published_by_the_task() -> None:
    with transaction.atomic():
        write("unpublished")
        transaction.get_connection().run_on_commit = []  # as if it was killed
    assert names_after(0) == []
    publish_events()
    assert names_after(0) == ["unpublished"]
    assert publish() == 0


def test_publication_costs_a_fixed_number_of_queries() -> None:
    def queries(events: int) -> int:
        ChangeEvent.objects.bulk_create(
            ChangeEvent(type="operator.deleted", at=timezone.now(), kind="K", name=f"n{number}")
            for number in range(events)
        )
        with CaptureQueriesContext(connection) as captured:
            assert publish() == events
        return len(captured)

    queries(1)  # makes the row of the counter
    assert queries(1) == queries(40)


def test_the_texts_of_an_event_are_cut() -> None:
    failure = FailureData("code", "m" * 3000, "")
    now = timezone.now()
    record([event(EventType.CATALOG_FAILING, now, failure, cluster_id=None, kind="URL", name="c")])
    assert len(ChangeEvent.objects.get().data["message"]) == 1000
    with pytest.raises(TypeError, match="RevisionData"):
        event(EventType.CATALOG_REVISION, now, failure, cluster_id=None, kind="URL", name="c")


def test_retention_deletes_the_oldest_events_and_numbers_go_on() -> None:
    for name in ("old", "older", "new"):
        write(name)
    long_ago = timezone.now() - timedelta(days=400)
    ChangeEvent.objects.exclude(name="new").update(at=long_ago)
    assert prune(timezone.now())["event_log"] == 2
    assert (names_after(0), read.ends()) == (["new"], (2, 3))
    ChangeEvent.objects.update(at=long_ago)
    assert prune(timezone.now())["event_log"] == 1
    write("next")
    assert read.published().get().position == 4
    assert read.ends() == (3, 4)
    assert prune(timezone.now())["event_log"] == 0
