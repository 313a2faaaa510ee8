"""A lease of few seconds that a thread keeps: while the work lasts, no longer than it lives."""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from django.db import DatabaseError, connection
from django.test.utils import CaptureQueriesContext

from olmweb.models import Lease
from olmweb.runtime.leases import acquire, is_held, is_ours, renewed_lease

pytestmark = pytest.mark.django_db(transaction=True)


def eventually(true: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        if true():
            return True
        time.sleep(0.05)
    return False


def expiry() -> float:
    return Lease.objects.get(name="cluster:1").expires_at.timestamp()


def test_it_is_renewed_while_the_work_goes_on_and_free_after_it() -> None:
    with renewed_lease("cluster:1", 1) as held:
        assert held
        first = expiry()
        assert eventually(lambda: expiry() > first)
        assert acquire("cluster:1", 60) is None
        assert is_held("cluster:1")
    assert not is_held("cluster:1")
    assert acquire("cluster:1", 60)


def test_one_that_was_taken_away_is_not_taken_back() -> None:
    with renewed_lease("cluster:1", 1) as held:
        assert held
        Lease.objects.update(owner="thief")
        time.sleep(0.6)
        assert not held.renew(1)
    assert Lease.objects.get(name="cluster:1").owner == "thief"


def test_a_lease_renewed_in_time_is_ours_without_a_query() -> None:
    with renewed_lease("cluster:1", 1) as held:

        def queries() -> int:
            with CaptureQueriesContext(connection) as captured:
                assert held
                assert is_ours(held, 1)
            return len(captured)

        assert queries() == 1, "not renewed yet"
        assert eventually(lambda: queries() == 0)


def test_an_expired_lease_of_another_process_is_not_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    with renewed_lease("cluster:1", 1) as held:
        assert held
        first = expiry()
        assert eventually(lambda: expiry() > first)
        Lease.objects.update(owner="thief")
        # As after a pause of the process that was longer than the lease.
        real = time.monotonic
        monkeypatch.setattr("olmweb.runtime.leases.time.monotonic", lambda: real() + 2)
        assert not is_ours(held, 1)


def test_one_that_is_held_is_told_so() -> None:
    assert acquire("cluster:1", 60)
    with renewed_lease("cluster:1", 1) as held:
        assert held is None


def test_one_thread_keeps_all_that_a_process_has() -> None:
    with renewed_lease("cluster:1", 1), renewed_lease("cluster:2", 1):
        names = [thread.name for thread in threading.enumerate()]
        assert names.count("leases") == 1
        before = dict(Lease.objects.values_list("name", "expires_at"))

        def all_moved() -> bool:
            now = dict(Lease.objects.values_list("name", "expires_at"))
            return all(now[name] > before[name] for name in before)

        assert eventually(all_moved)
    assert "leases" not in [thread.name for thread in threading.enumerate()]


def test_a_database_that_is_away_for_a_moment_costs_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real, failures = Lease.objects.filter, iter([True])

    def away(*args: Any, **fields: Any) -> Any:
        if "owner__in" in fields and next(failures, False):
            raise DatabaseError
        return real(*args, **fields)

    monkeypatch.setattr(Lease.objects, "filter", away)
    with renewed_lease("cluster:1", 1):
        first = expiry()
        assert eventually(lambda: expiry() > first)
    assert "leases not renewed" in caplog.text
