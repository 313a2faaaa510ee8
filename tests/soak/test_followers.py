"""What the soak says of the log of events, on logs that are right and wrong."""

from typing import Any

import pytest

from tests.soak.followers import Event, broken_histories, differences


def _event(id_: int, type_: str = "object.condition", name: str = "dns", **data: Any) -> Event:
    return {
        "id": id_,
        "type": type_,
        "cluster": "c0",
        "kind": "ClusterOperator",
        "namespace": "",
        "name": name,
        "catalog": data.pop("catalog", ""),
        "data": data,
    }


def _change(id_: int, before: str, after: str, name: str = "dns") -> Event:
    return _event(
        id_, name=name, condition="Degraded", status="True", reason=after,
        from_status="True", from_reason=before,
    )  # fmt: skip


LOG = [_change(1, "", "A"), _change(2, "A", "B"), _change(3, "", "A", "etcd"), _change(4, "B", "C")]


def test_a_reader_of_the_whole_log_differs_in_nothing() -> None:
    assert differences("it", LOG, LOG) == []


@pytest.mark.parametrize(
    ("received", "problem"),
    [
        ([LOG[0], LOG[2], LOG[3]], "it lost event 2"),
        ([*LOG[:2], *LOG[1:]], "it has event 2 2 times"),
        ([LOG[0], LOG[2], LOG[1], LOG[3]], "it has event 2 behind 3"),
        ([*LOG, _change(5, "C", "D")], "it has event 5, the log does not"),
        ([*LOG[:3], _change(4, "B", "X")], "it has other content in event 4"),
    ],
)
def test_a_reader_that_lost_doubled_or_moved_an_event(received: list[Event], problem: str) -> None:
    assert differences("it", received, LOG) == [problem]


def _action(id_: int, step: str) -> Event:
    return _event(id_, f"action.{step}", action=7)


@pytest.mark.parametrize(
    "log",
    [
        LOG,
        [
            _change(1, "", "A"),
            _event(2, "object.deleted", uid="1"),
            _event(3, "object.appeared", uid="2"),
            _change(4, "", "B"),
        ],
        [_event(number, "catalog.revision", catalog="-/a", revision=number) for number in (4, 5)],
        [_action(1, "requested"), _action(2, "applied"), _action(3, "finished")],
        [_action(1, "requested"), _action(2, "finished")],
    ],
)
def test_whole_histories(log: list[Event]) -> None:
    assert broken_histories(log) == []


@pytest.mark.parametrize(
    "log",
    [
        [LOG[0], LOG[3]],
        [LOG[0], LOG[1], {**LOG[1], "id": 3}],
        [LOG[1], {**LOG[0], "id": 3}],
        [_change(1, "", "A"), _event(2, "object.appeared", uid="2")],
        [_event(number, "catalog.revision", catalog="-/a", revision=number) for number in (4, 6)],
        [_event(1, "catalog.revision", catalog="-/a", revision=4)] * 2,
        [_event(1, "operator.health", from_health="", from_reason="", health="Failed", reason="A"),
         _event(2, "operator.health", from_health="", from_reason="", health="Failed", reason="A")],
        [_action(1, "requested"), _action(2, "applied")],
        [_action(1, "requested"), _action(2, "finished"), _action(3, "finished")],
    ],
)  # fmt: skip
def test_broken_histories(log: list[Event]) -> None:
    assert len(broken_histories(log)) == 1
