"""Faults of the processes of a stack, and how long after each the rows follow the clusters again.

Recovery is counted from the moment at which the fault ends: a killed process is started again (a
container's restart policy does that after a second), a stopped server is there again, a paused
process goes on.
"""

import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import psycopg

from tests.bench.tools import one, until
from tests.services import PostgresServer, RedisServer
from tests.soak.fleet import Fleet
from tests.soak.stack import Process, Stack, wait_for_answer

RESTART_SECONDS = 1.0
START_SECONDS = 30.0  # for a server to start again
ROWS_LIMIT = 120.0  # seconds waited for the rows to follow
_REASON = "select count(*) from installs_clusteroperator where reason = %s"
_ROWS = """
    select c.name, o.kind, o.name, o.uid, o.conditions
    from installs_{table} o join olmweb_cluster c on c.id = o.cluster_id where o.kind = any(%s)
"""


@dataclass(frozen=True, slots=True)
class Fault:
    """`apply` returns when the fault is over."""

    name: str
    apply: Callable[[], None]


def all_faults(
    stack: Stack, *, actions_pause: float, watch_pause: float, redis: float
) -> Iterator[Fault]:
    """Each kind of process killed, the servers killed and stopped, workers paused past their
    leases, whose work others take over meanwhile; `actions_pause` 0 leaves that pause out."""
    processes = stack.processes
    for name in ("worker-actions-0", "watcher-0", "web-0", "worker-sync", "worker-reports"):
        yield _killed(stack, processes[name])
    for name in ("beat-0", "beat-1"):  # one of them schedules
        yield _killed(stack, processes[name])
    if actions_pause:
        yield _paused(processes["worker-actions-0"], actions_pause)
    yield _paused(processes["watcher-1"], watch_pause)
    yield _server_restarted(stack.postgres, "PostgreSQL killed", signal.SIGKILL, RESTART_SECONDS)
    yield _server_restarted(stack.redis, "Redis killed", signal.SIGKILL, RESTART_SECONDS)
    yield _server_restarted(stack.postgres, "PostgreSQL restarted", signal.SIGINT, RESTART_SECONDS)
    yield _server_restarted(stack.redis, f"Redis stopped for {redis:g} s", signal.SIGTERM, redis)


def _killed(stack: Stack, process: Process) -> Fault:
    def apply() -> None:
        process.kill()
        time.sleep(RESTART_SECONDS)
        process.start()
        if process.name == "web-0":
            wait_for_answer(stack.ports[0])

    return Fault(f"{process.name} killed", apply)


def _paused(process: Process, seconds: float) -> Fault:
    def apply() -> None:
        process.signal(signal.SIGSTOP)
        time.sleep(seconds)
        process.signal(signal.SIGCONT)

    return Fault(f"{process.name} paused for {seconds:g} s", apply)


def _server_restarted(
    server: PostgresServer | RedisServer, name: str, number: int, seconds: float
) -> Fault:
    def apply() -> None:
        server.stop(number)
        time.sleep(seconds)
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                server.start()
                return
            except RuntimeError:  # the children of a killed PostgreSQL are still ending
                if time.monotonic() > deadline:
                    raise
                time.sleep(RESTART_SECONDS)

    return Fault(name, apply)


def seconds_until_rows(stack: Stack, fleet: Fleet, reason: str) -> float:
    """Seconds from a change in every cluster to the rows of all; ROWS_LIMIT at most."""
    began = time.monotonic()
    fleet.touch(reason)
    with psycopg.connect(stack.postgres.url, autocommit=True) as database:
        until(lambda: one(database, _REASON, reason) >= len(fleet.names), ROWS_LIMIT, pause=0.1)
    return time.monotonic() - began


def different_rows(stack: Stack, fleet: Fleet, seconds: float) -> list[str]:
    """Objects whose uid or conditions in the rows are not those of the clusters, after at most so
    many seconds."""
    found: list[str] = []

    def equal() -> bool:
        nonlocal found
        there = {tuple(item[:3]): item[3:] for item in fleet.objects()}
        rows = _rows(stack)
        found = sorted(
            "/".join(key) for key in there.keys() | rows.keys() if there.get(key) != rows.get(key)
        )
        return not found

    until(equal, seconds, pause=1)
    return found


def _rows(stack: Stack) -> dict[tuple[str, ...], list[Any]]:
    found = {}
    with psycopg.connect(stack.postgres.url) as database:
        for table, kind in (
            ("operator", "PlatformOperator"),
            ("clusteroperator", "ClusterOperator"),
        ):
            query = _ROWS.format(table=table).encode()
            for *key, uid, conditions in database.execute(query, [[kind]]):
                named = sorted(
                    [each["type"], each["status"], each.get("reason", "")] for each in conditions
                )
                found[tuple(key)] = [uid, named]
    return found
