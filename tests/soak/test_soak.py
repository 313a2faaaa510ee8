"""Actions requested over REST while every kind of process is killed, and PostgreSQL and Redis
restart, are carried out exactly once. `make soak` measures the times, with load and 50 clusters."""

import shutil

import pytest

from tests.conftest import need
from tests.services import postgres_bin
from tests.soak.run import DIFFERENT, DOUBLED, ENDED, LOST, SHORT, SURPLUS, soak

pytestmark = pytest.mark.soak


def test_actions_are_carried_out_once_while_processes_are_killed() -> None:
    need("postgres", postgres_bin() is not None)
    need("redis", shutil.which("redis-server") is not None)
    values = {row["name"]: row["value"] for row in soak(SHORT)}
    counts = {name: values[name] for name in (ENDED, SURPLUS, LOST, DOUBLED, DIFFERENT)}
    assert counts == {
        ENDED: SHORT.clusters * SHORT.each,
        SURPLUS: 0,
        LOST: 0,
        DOUBLED: 0,
        DIFFERENT: 0,
    }
