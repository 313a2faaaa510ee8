"""While every kind of process is killed, and PostgreSQL and Redis, too, actions requested over REST
are carried out exactly once, and readers of the log of events receive each one exactly once.
`make soak` measures the times, with load, 50 clusters and 10,000 events."""

import shutil

import pytest

from tests.conftest import need
from tests.services import postgres_bin
from tests.soak.run import (
    BROKEN,
    DIFFERENT,
    DOUBLED,
    ENDED,
    EVENTS,
    LOST,
    SHORT,
    SURPLUS,
    TAILED,
    soak,
)

pytestmark = pytest.mark.soak


def test_actions_and_events_happen_once_while_processes_are_killed() -> None:
    need("postgres", postgres_bin() is not None)
    need("redis", shutil.which("redis-server") is not None)
    values = {row["name"]: row["value"] for row in soak(SHORT)}
    assert values.pop(EVENTS) >= SHORT.events
    exact = {
        ENDED: SHORT.clusters * SHORT.each,
        SURPLUS: 0,
        LOST: 0,
        DOUBLED: 0,
        DIFFERENT: 0,
        TAILED: 0,
        BROKEN: 0,
    }
    assert {name: values[name] for name in exact} == exact
