"""A lease is one worker's at a time, and nobody's for ever."""

from datetime import timedelta

import pytest
from django.utils import timezone

from olmweb.models import Lease
from olmweb.runtime.leases import acquire, lease, release

pytestmark = pytest.mark.django_db


def test_a_held_lease_is_refused_to_a_second_worker() -> None:
    assert acquire("cluster:1", 60)
    assert acquire("cluster:1", 60) is None
    assert acquire("cluster:2", 60)


def test_a_released_lease_is_free_at_once() -> None:
    with lease("cluster:1", 60) as held:
        assert held
    assert acquire("cluster:1", 60)


def test_a_lease_of_a_dead_worker_is_taken_over_when_it_expires() -> None:
    first = acquire("cluster:1", 60)
    assert first
    Lease.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    second = acquire("cluster:1", 60)
    assert second
    assert first.renew(60) is False
    release(first)
    assert acquire("cluster:1", 60) is None


def test_an_error_inside_releases_the_lease() -> None:
    with pytest.raises(ZeroDivisionError), lease("cluster:1", 60):
        raise ZeroDivisionError
    assert acquire("cluster:1", 60)
