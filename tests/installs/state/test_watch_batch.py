"""What several events come to before they are written."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from installs.state.decode import DecodedObject
from installs.state.resources import Change
from installs.state.watch.session import Batch, Window

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def change(name: str, version: int, *, deleted: bool = False, uid: str = "") -> Change:
    obj = DecodedObject("Bundle", "", name, uid or name, str(version), 1, None, False, [])
    return Change("Bundle", deleted, obj)


def filled(*events: tuple[str, Any, int]) -> Batch:
    batch = Batch()
    for resource, event, version in events:
        batch.add(resource, event, str(version), NOW)
    return batch


def changes_of(batch: Batch) -> list[tuple[str, str, bool]]:
    changes, _ = batch.take()
    return [(change.obj.uid, change.obj.resource_version, change.deleted) for change in changes]


def test_only_the_last_state_of_an_object_is_kept() -> None:
    batch = filled(
        ("Bundle", change("a", 1), 1),
        ("Bundle", change("b", 2), 2),
        ("Bundle", change("a", 3), 3),
        ("Bundle", change("b", 4, deleted=True), 4),
    )
    assert len(batch) == 2
    assert changes_of(batch) == [("a", "3", False), ("b", "4", True)]


def test_an_object_made_again_is_another_one() -> None:
    batch = filled(
        ("Bundle", change("a", 1, deleted=True, uid="old"), 1),
        ("Bundle", change("a", 2, uid="new"), 2),
    )
    assert changes_of(batch) == [("old", "1", True), ("new", "2", False)]


def test_each_feed_has_the_position_of_its_last_event_bookmarks_and_dropped_ones_included() -> None:
    batch = filled(
        ("Bundle", change("a", 1), 1), ("Event", None, 7), ("Bundle", None, 9), ("Event", None, 8)
    )
    changes, positions = batch.take()
    assert len(changes) == 1
    assert {feed: one.resource_version for feed, one in positions.items()} == {
        "Bundle": "9",
        "Event": "8",
    }


def test_what_was_taken_is_not_taken_twice() -> None:
    batch = filled(("Bundle", change("a", 1), 1))
    batch.take()
    assert batch.take() == ([], {})
    assert not batch


def open_for(times: Sequence[float]) -> float:
    """When the window closes that opens at 0 and is told of changes at these times."""
    window, left = Window(0.0, 0.25), list(times)
    now = 0.0
    while wait := window.wait(now):
        if left and left[0] <= now + wait:
            now = max(now, left.pop(0))
            window.received(now, changes=True)
        else:
            now += wait
    return round(now, 3)


def every(pause: float, until: float) -> list[float]:
    return [round(number * pause, 4) for number in range(1, int(until / pause) + 1)]


def test_a_batch_waits_a_moment_for_others_after_its_first_change() -> None:
    assert open_for([]) == 0.25
    assert open_for([0.2]) == 0.3
    assert open_for([0.01, 0.05, 0.1, 0.2]) == 0.11


def test_while_changes_rush_in_a_batch_stays_open_but_not_for_long() -> None:
    assert open_for(every(0.002, until=0.35)) == 0.502
    assert open_for(every(0.002, until=5)) == 1.002
    assert open_for(every(0.02, until=5)) == 0.12


def test_what_brings_no_change_keeps_no_batch_open() -> None:
    window = Window(0.0, 0.25)
    for at in every(0.001, until=0.25):
        window.received(at, changes=False)
    assert not window.wait(0.25)
