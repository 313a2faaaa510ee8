"""When a feed is asked again, and from where: pure policy."""

import pytest

from installs.state.resources import BY_NAME
from installs.state.watch.backoff import Course
from olmweb.kube.errors import Broken, Forbidden, Gone, KubeError, TooMany, Unreachable
from olmweb.kube.resources import PLATFORM_OPERATORS, Served


@pytest.fixture(autouse=True)
def _no_jitter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("random.uniform", lambda low, high: (low + high) / 2)


@pytest.fixture
def course() -> Course:
    """A watch that has been open since 100."""
    made = Course(BY_NAME["PlatformOperator"], Served(PLATFORM_OPERATORS, "v1alpha1"), "7")
    made.starts()
    made.opened(100.0)
    return made


def fail(course: Course, error: KubeError | None, at: float, times: int = 1) -> list[float]:
    """Starts and fails at once, as often as told; the waits."""
    waits = []
    for _ in range(times):
        course.ended(error, at)
        waits.append(course.retry_at - at)
        course.starts()
    return waits


def test_a_watch_that_was_accepted_works(course: Course) -> None:
    assert (course.state, course.watches) == ("watching", 1)


def test_a_watch_that_the_server_ended_in_its_time_goes_on_at_once(course: Course) -> None:
    course.ended(None, 400.0)
    assert (course.retry_at, course.position, course.state) == (400.0, "7", "watching")


def test_a_server_that_ends_every_watch_at_once_is_asked_ever_less_often(course: Course) -> None:
    assert fail(course, None, 100.1, 8) == [0.5, 1, 2, 4, 8, 16, 30, 30]
    assert course.position == "7"


def test_a_failure_is_told_and_tried_again_from_the_same_position(course: Course) -> None:
    assert fail(course, Unreachable("Can't reach it."), 200.0) == [0.5]
    assert (course.state, course.error, course.position) == ("retrying", "Can't reach it.", "7")


def test_after_failures_a_watch_has_to_last_before_it_counts_as_working(course: Course) -> None:
    fail(course, Broken("Garbage."), 101.0)
    course.opened(102.0)
    course.settles(103.0)
    assert course.state == "retrying"
    course.settles(105.1)
    assert (course.state, course.error, course.failures) == ("watching", "", 0)


def test_a_position_that_is_too_old_means_a_list_at_once(course: Course) -> None:
    assert fail(course, Gone("Too old."), 200.0) == [0]
    assert (course.position, course.state) == ("", "watching")


def test_a_list_that_is_too_old_at_once_is_not_repeated_in_a_hurry(course: Course) -> None:
    fail(course, Gone("Too old."), 200.0)
    assert fail(course, Gone("Too old."), 200.1, 3) == [1, 2, 4]
    assert course.state == "retrying"


def test_garbage_three_times_in_a_row_puts_the_position_in_doubt(course: Course) -> None:
    fail(course, Broken("Garbage."), 101.0, 2)
    assert course.position == "7"
    fail(course, Broken("Garbage."), 101.0)
    assert course.position == ""


def test_a_network_that_fails_for_long_leaves_the_position_alone(course: Course) -> None:
    fail(course, Unreachable("Gone."), 101.0, 20)
    assert course.position == "7"


def test_a_refusal_is_tried_again_when_somebody_may_have_granted_it(course: Course) -> None:
    assert fail(course, Forbidden("No."), 101.0) == [60]
    assert course.state == "forbidden"


def test_the_server_may_ask_for_a_longer_wait_but_not_for_ever(course: Course) -> None:
    assert fail(course, TooMany("Busy.", retry_after=20), 101.0) == [20]
    assert fail(course, TooMany("Busy.", retry_after=9999), 101.0) == [60]


def test_a_cluster_that_is_back_is_asked_soon(course: Course) -> None:
    fail(course, Unreachable("Gone."), 101.0, 9)
    course.ended(Unreachable("Gone."), 101.0)
    course.hurry(110.0)
    assert course.retry_at <= 110.3


def test_a_watch_that_ended_in_good_order_before_an_outage_is_not_said_to_watch(
    course: Course,
) -> None:
    away = Unreachable("Can't reach it.")
    course.misses(away)
    assert (course.state, course.error) == ("watching", ""), "it is still open"
    course.ended(None, 400.0)
    course.misses(away)
    assert (course.state, course.error) == ("retrying", "Can't reach it.")
    course.starts()
    course.opened(410.0)
    assert (course.state, course.error) == ("watching", "")
