"""When a feed is asked again, and from where: pure policy."""

import pytest

from installs.state.resources import BY_NAME
from installs.state.watch.backoff import WatchState
from olmweb.kube.errors import Broken, Forbidden, Gone, KubeError, TooMany, Unreachable
from olmweb.kube.resources import PLATFORM_OPERATORS, Served


@pytest.fixture(autouse=True)
def _no_jitter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("random.uniform", lambda low, high: (low + high) / 2)


@pytest.fixture
def watch() -> WatchState:
    """A watch that has been open since 100."""
    made = WatchState(BY_NAME["PlatformOperator"], Served(PLATFORM_OPERATORS, "v1alpha1"), "7")
    made.mark_started()
    made.mark_opened(100.0)
    return made


def fail(watch: WatchState, error: KubeError | None, at: float, times: int = 1) -> list[float]:
    """Starts and fails at once, as often as told; the waits."""
    waits = []
    for _ in range(times):
        watch.mark_ended(error, at)
        waits.append(watch.retry_at - at)
        watch.mark_started()
    return waits


def test_a_watch_that_was_accepted_works(watch: WatchState) -> None:
    assert (watch.state, watch.watches) == ("watching", 1)


def test_a_watch_that_the_server_ended_in_its_time_goes_on_at_once(watch: WatchState) -> None:
    watch.mark_ended(None, 400.0)
    assert (watch.retry_at, watch.position, watch.state) == (400.0, "7", "watching")


def test_a_server_that_ends_every_watch_at_once_is_asked_ever_less_often(watch: WatchState) -> None:
    assert fail(watch, None, 100.1, 8) == [0.5, 1, 2, 4, 8, 16, 30, 30]
    assert watch.position == "7"


def test_a_failure_is_told_and_tried_again_from_the_same_position(watch: WatchState) -> None:
    assert fail(watch, Unreachable("Can't reach it."), 200.0) == [0.5]
    assert (watch.state, watch.error, watch.position) == ("retrying", "Can't reach it.", "7")


def test_after_failures_a_watch_has_to_last_before_it_counts_as_working(watch: WatchState) -> None:
    fail(watch, Broken("Garbage."), 101.0)
    watch.mark_opened(102.0)
    watch.check_steady(103.0)
    assert watch.state == "retrying"
    watch.check_steady(105.1)
    assert (watch.state, watch.error, watch.failures) == ("watching", "", 0)


def test_a_position_that_is_too_old_means_a_list_at_once(watch: WatchState) -> None:
    assert fail(watch, Gone("Too old."), 200.0) == [0]
    assert (watch.position, watch.state) == ("", "watching")


def test_a_list_that_is_too_old_at_once_is_not_repeated_in_a_hurry(watch: WatchState) -> None:
    fail(watch, Gone("Too old."), 200.0)
    assert fail(watch, Gone("Too old."), 200.1, 3) == [1, 2, 4]
    assert watch.state == "retrying"


def test_garbage_three_times_in_a_row_puts_the_position_in_doubt(watch: WatchState) -> None:
    fail(watch, Broken("Garbage."), 101.0, 2)
    assert watch.position == "7"
    fail(watch, Broken("Garbage."), 101.0)
    assert watch.position == ""


def test_a_network_that_fails_for_long_leaves_the_position_alone(watch: WatchState) -> None:
    fail(watch, Unreachable("Gone."), 101.0, 20)
    assert watch.position == "7"


def test_a_refused_watch_is_retried_soon_and_then_ever_less_often(watch: WatchState) -> None:
    assert fail(watch, Forbidden("No."), 101.0, 9) == [0.5, 1, 2, 4, 8, 16, 32, 60, 60]
    assert (watch.state, watch.position) == ("forbidden", "7")


def test_the_server_may_ask_for_a_longer_wait_but_not_for_ever(watch: WatchState) -> None:
    assert fail(watch, TooMany("Busy.", retry_after=20), 101.0) == [20]
    assert fail(watch, TooMany("Busy.", retry_after=9999), 101.0) == [60]


def test_a_cluster_that_is_back_is_asked_soon(watch: WatchState) -> None:
    fail(watch, Unreachable("Gone."), 101.0, 9)
    watch.mark_ended(Unreachable("Gone."), 101.0)
    watch.retry_soon(110.0)
    assert watch.retry_at <= 110.3
    assert fail(watch, Forbidden("Not yet."), 110.3, 2) == [1, 2]


def test_a_watch_that_ended_in_good_order_before_an_outage_is_not_said_to_watch(
    watch: WatchState,
) -> None:
    away = Unreachable("Can't reach it.")
    watch.mark_unreachable(away)
    assert (watch.state, watch.error) == ("watching", ""), "it is still open"
    watch.mark_ended(None, 400.0)
    watch.mark_unreachable(away)
    assert (watch.state, watch.error) == ("retrying", "Can't reach it.")
    watch.mark_started()
    watch.mark_opened(410.0)
    assert (watch.state, watch.error) == ("watching", "")
