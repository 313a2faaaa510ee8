"""Token bucket and conditions: no network."""

from typing import Any

import pytest

from olmweb.kube import conditions
from olmweb.kube.fields import text
from olmweb.kube.transport import TokenBucket


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_a_burst_passes_then_the_rate_holds() -> None:
    clock = Clock()
    bucket = TokenBucket(rate=20, burst=40, clock=clock, sleep=clock.sleep)
    assert sum(bucket.take() for _ in range(40)) == 0
    for _ in range(20):
        bucket.take()
    assert clock.now == pytest.approx(101.0)


def test_a_pause_fills_the_bucket_but_not_over_its_brim() -> None:
    clock = Clock()
    bucket = TokenBucket(rate=10, burst=2, clock=clock, sleep=clock.sleep)
    clock.now += 1000
    assert [round(bucket.take(), 3) for _ in range(3)] == [0, 0, 0.1]


def test_conditions_are_read_from_whatever_a_controller_wrote() -> None:
    good = {"type": "Installed", "status": "True", "reason": "Ok", "extra": {"a": 1}}
    obj: dict[str, Any] = {"status": {"conditions": [None, {"status": "True"}, {"type": 1}, good]}}
    assert conditions.read(obj) == [{"type": "Installed", "status": "True", "reason": "Ok"}]


def test_a_field_of_another_type_than_its_own_is_left_out() -> None:
    odd = {"type": "Installed", "status": True, "message": 5, "reason": "Ok"}
    odd["observedGeneration"] = "3"
    result = conditions.read({"status": {"conditions": [odd]}})
    assert result == [{"type": "Installed", "reason": "Ok"}]


@pytest.mark.parametrize(
    "obj", [{}, {"status": None}, {"status": {"conditions": None}}, {"status": {"conditions": {}}}]
)
def test_an_object_without_conditions_has_none(obj: dict[str, Any]) -> None:
    assert conditions.read(obj) == []


def test_the_last_condition_of_a_type_wins() -> None:
    twice = [{"type": "A", "status": "False"}, {"type": "A", "status": "True"}]
    assert conditions.read({"status": {"conditions": twice}}) == [{"type": "A", "status": "True"}]


def test_a_missing_condition_is_unknown() -> None:
    result = [{"type": "A", "status": "True"}]
    assert conditions.status_of(result, "A") == "True"
    assert conditions.status_of(result, "B") == "Unknown"
    assert text(conditions.find(result, "A"), "reason") == text(None, "reason") == ""
