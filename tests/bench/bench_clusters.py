"""Fifty clusters on one Celery worker, with two dead ones and a slow one among them.

How old the rows of the others get is measured beside the same worker without the three, and what
that worker takes while nothing happens.
"""

import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import yaml

from tests.bench.fleet import REASON
from tests.bench.tools import ROOT, at_rest, environment, migrate, one, p95, row, until
from tests.services import free_port, postgres, postgres_bin, redis

CLUSTERS = 48  # the first is slow; two more are dead
TURNS = 5
REST_SECONDS = 30
HEALTHY = [f"c{number}" for number in range(1, CLUSTERS)]
ALL = ["c0", "dead-refused", "dead-silent", *HEALTHY]


class Measured(NamedTuple):
    seconds: list[float]  # from a change in every cluster to its row, each healthy cluster and turn
    rest_cores: float  # of the worker, before the first change
    rest_mb: float


def run() -> list[dict[str, Any]]:
    """Rows of the table; none without PostgreSQL and Redis."""
    if not (postgres_bin() and shutil.which("redis-server")):
        return []
    with tempfile.TemporaryDirectory(prefix="olmweb-bench-") as name, ExitStack() as stack:
        folder = Path(name)
        fleet = stack.enter_context(_fleet(folder / "kubeconfig"))
        alone = _measure(folder, fleet, HEALTHY, turn=0)
        among = _measure(folder, fleet, ALL, turn=TURNS)
    others = ("without the three", p95(alone.seconds))
    return [
        row("clusters: event to row of 47 on one worker, p95", p95(among.seconds), "s", 2.0),
        row("clusters: the same beside it", p95(among.seconds), "s", 1.5, beside=others),
        row("clusters: the worker of 47 at rest", alone.rest_cores, "cores", 0.5),
        row("clusters: the worker of 47 at rest, memory", alone.rest_mb, "MB", 400),
    ]


@contextmanager
def _fleet(kubeconfig: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.bench.fleet", str(CLUSTERS), str(kubeconfig)]
    fleet = subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        _answer(fleet)
        _add_dead(kubeconfig)
        yield fleet
    finally:
        fleet.communicate(timeout=120)


def _answer(fleet: subprocess.Popen[str]) -> str:
    assert fleet.stdout
    return fleet.stdout.readline()


def _add_dead(kubeconfig: Path) -> None:
    """A port where nobody listens, and one where somebody does but never says a word."""
    config = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
    ports = {"dead-refused": free_port(), "dead-silent": _silent_port()}
    for name, port in ports.items():
        config["clusters"].append({"name": name, "cluster": {"server": f"http://127.0.0.1:{port}"}})
        config["users"].append({"name": name, "user": {"token": "none"}})
        config["contexts"].append({"name": name, "context": {"cluster": name, "user": name}})
    kubeconfig.write_text(yaml.safe_dump(config), encoding="utf-8")


_LISTENERS: list[socket.socket] = []


def _silent_port() -> int:
    """Of a socket that takes connections and says nothing; open while this process lives."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=200)
    _LISTENERS.append(listener)
    return int(listener.getsockname()[1])


def _measure(
    folder: Path, fleet: subprocess.Popen[str], names: list[str], *, turn: int
) -> Measured:
    with postgres() as url, redis() as broker:
        environ = environment(
            folder,
            DATABASE_URL=url,
            REDIS_URL=broker,
            KUBECONFIG=str(folder / "kubeconfig"),
            OLMWEB_SECRET_KEY="only for this measurement " * 3,
            OLMWEB_HOSTS="olmweb.example",
            OLMWEB_CLUSTERS=",".join(f"{name}={name}" for name in names),
        )
        migrate(environ)
        with _celery(environ) as worker, psycopg.connect(url, autocommit=True) as database:
            until(lambda: one(database, _WATCHED) >= len(HEALTHY), 240)
            time.sleep(5)
            rest = at_rest(worker.pid, REST_SECONDS)
            found = []
            for number in range(turn, turn + TURNS):
                found += _turn(database, fleet, number)
    return Measured(found, *rest)


_WATCHED = (
    "select count(distinct cluster_id) from olmweb_resourcewatch"
    " where resource = 'PlatformOperator' and state = 'watching'"
)


def _turn(
    database: psycopg.Connection[Any], fleet: subprocess.Popen[str], number: int
) -> list[float]:
    assert fleet.stdin
    fleet.stdin.write("touch\n")
    fleet.stdin.flush()
    _answer(fleet)
    began = time.monotonic()
    seen: dict[str, float] = {}
    until(lambda: _note(database, f"{REASON}{number}", seen, began) >= len(HEALTHY), 60, pause=0.05)
    return [seen.get(name, 60.0) for name in HEALTHY]


def _note(
    database: psycopg.Connection[Any], reason: str, seen: dict[str, float], began: float
) -> int:
    rows = database.execute(
        "select c.name from installs_clusteroperator o join olmweb_cluster c on c.id = o.cluster_id"
        " where o.reason = %s",
        (reason,),
    ).fetchall()
    for (name,) in rows:
        seen.setdefault(name, time.monotonic() - began)
    return sum(1 for name in seen if name in HEALTHY)


@contextmanager
def _celery(environ: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """One worker, yielded, with a place for every cluster, and the beat that starts the watches."""
    celery = [sys.executable, "-m", "celery", "-A", "olmweb"]
    of_watches = ["--queues", "actions,watch", "--pool", "threads", "--concurrency", "60"]
    schedule = Path(environ["OLMWEB_DATA_DIR"]) / "schedule"
    schedule.parent.mkdir(parents=True, exist_ok=True)
    processes = [
        subprocess.Popen([*celery, "worker", *of_watches, "-l", "error"], env=environ, cwd=ROOT),
        subprocess.Popen(
            [*celery, "beat", "--schedule", str(schedule), "-l", "error"], env=environ, cwd=ROOT
        ),
    ]
    try:
        yield processes[0]
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            try:
                process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                process.kill()
