"""Watches in real worker processes: one bad cluster costs the others nothing; places are shared."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from olmweb.sandbox.cluster import Sandbox
from tests.bench.tools import until
from tests.migrated import fill_database
from tests.olmweb.runtime import test_redis_worker
from tests.olmweb.runtime.test_redis_worker import ROOT, count, select

pytestmark = pytest.mark.peers  # minutes of real processes: not among the quick tests
database = test_redis_worker.database

OPERATOR = {"apiVersion": "platform.openshift.io/v1alpha1", "kind": "PlatformOperator"}


def put(sandbox: Sandbox, name: str) -> None:
    sandbox.store.put(
        {**OPERATOR, "metadata": {"name": name}, "spec": {"package": {"name": "etcd"}}}
    )


@pytest.fixture
def sandboxes() -> Iterator[list[Sandbox]]:
    """Two clusters that answer."""
    made = [Sandbox() for _ in range(2)]
    for one in made:
        one.start()
    yield made
    for one in made:
        one.stop()


def kubeconfig(path: Path, servers: Sequence[str], token: str = "sandbox-admin-token") -> None:  # noqa: S107
    """A context for each server: c0, c1, ..."""
    names = [f"c{number}" for number in range(len(servers))]
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c0",
        "clusters": [
            {"name": name, "cluster": {"server": url}}
            for name, url in zip(names, servers, strict=True)
        ],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": "u"}} for name in names],
    }
    path.write_text(yaml.safe_dump(config))


class Fleet:
    """Workers and beat, as production runs them, and a look into their database."""

    def __init__(self, folder: Path, redis: str, database: str, servers: Sequence[str]) -> None:
        kubeconfig(folder / "kubeconfig", servers)
        self.database = database
        self.environ = {
            **os.environ,
            "REDIS_URL": redis,
            "DATABASE_URL": database,
            "OLMWEB_DATA_DIR": str(folder),
            "OLMWEB_SECRET_KEY": "only for this test " * 4,
            "OLMWEB_HOSTS": "olmweb.example",
            "OLMWEB_CLUSTERS": ",".join(f"c{number}" for number in range(len(servers))),
            "KUBECONFIG": str(folder / "kubeconfig"),
        }
        fill_database(database)

    @contextmanager
    def running(self, folder: Path, places: int) -> Iterator[None]:
        with (
            self.worker("few", 4, "actions,sync"),
            self.worker("watch", places, "watch"),
            self._process("beat", "--schedule", str(folder / "beat")),
        ):
            yield

    @contextmanager
    def worker(self, name: str, places: int, queues: str) -> Iterator[None]:
        options = ("--pool", "threads", "-c", str(places), "-Q", queues)
        with self._process("worker", *options, "--hostname", f"{name}@test"):
            yield

    @contextmanager
    def _process(self, *arguments: str) -> Iterator[None]:
        process = subprocess.Popen(
            [sys.executable, "-m", "celery", "-A", "olmweb", *arguments, "-l", "error"],
            cwd=ROOT, env=self.environ,
        )  # fmt: skip
        try:
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=45)

    def shares(self) -> list[int]:
        """Number of clusters that each watcher has, the fewest first."""
        owners = select(self.database, "select owner from olmweb_lease where name like 'cluster:%'")
        return sorted(Counter(owner.rsplit(":", 2)[0] for (owner,) in owners if owner).values())

    def has(self, name: str) -> bool:
        query = f"select count(*) from installs_operator where name='{name}'"  # noqa: S608
        return bool(count(self.database, query))

    def wait_for(self, name: str, seconds: float) -> float:
        began = time.monotonic()
        while not self.has(name):
            assert time.monotonic() - began < seconds, f"{name} is not shown after {seconds} s"
            time.sleep(0.05)
        return time.monotonic() - began


def test_dead_and_slow_clusters_do_not_hold_up_another(
    redis_server: str, database: str, tmp_path: Path, sandboxes: list[Sandbox]
) -> None:
    good, slow = sandboxes
    for _ in range(200):
        slow.script.delay_next(2)
    with socket.socket() as silent, socket.socket() as refusing:
        silent.bind(("127.0.0.1", 0))
        silent.listen(50)  # takes connections and never says a word
        refusing.bind(("127.0.0.1", 0))
        servers = [
            slow.url,
            f"http://127.0.0.1:{silent.getsockname()[1]}",
            f"http://127.0.0.1:{refusing.getsockname()[1]}",
            good.url,
        ]
        fleet = Fleet(tmp_path, redis_server, database, servers)
        with fleet.running(tmp_path, places=4):
            put(good, "first")
            fleet.wait_for("first", 90)
            for number in range(5):
                put(good, f"next-{number}")
                fleet.wait_for(f"next-{number}", 10)  # a silent server is given up after 30 s
                time.sleep(1)
            told = count(database, "select count(*) from olmweb_cluster where not reachable")
            assert told >= 1


def test_a_watcher_that_is_started_later_gets_its_share(
    redis_server: str, database: str, tmp_path: Path, sandboxes: list[Sandbox]
) -> None:
    servers = [sandbox.url for sandbox in sandboxes] * 3
    fleet = Fleet(tmp_path, redis_server, database, servers)
    with fleet.running(tmp_path, places=8):
        assert until(lambda: fleet.shares() == [6], 60)
        with fleet.worker("later", 8, "watch"):
            assert until(lambda: fleet.shares() == [3, 3], 60)
        assert until(lambda: fleet.shares() == [6], 30), "taken back"
    with fleet.worker("alone", 8, "watch"):
        assert until(lambda: fleet.shares() == [6], 60), "neither beat nor a worker of actions"


def test_clusters_share_a_single_place_by_turns(
    redis_server: str, database: str, tmp_path: Path, sandboxes: list[Sandbox]
) -> None:
    fleet = Fleet(tmp_path, redis_server, database, [one.url for one in sandboxes])
    with fleet.running(tmp_path, places=1):
        for number, one in enumerate(sandboxes):
            put(one, f"first-{number}")
        for number in range(2):
            fleet.wait_for(f"first-{number}", 120)
        lists = count(database, "select sum(lists) from olmweb_resourcewatch")
        for number, one in enumerate(sandboxes):
            put(one, f"second-{number}")
        for number in range(2):
            fleet.wait_for(f"second-{number}", 90)
        assert count(database, "select sum(lists) from olmweb_resourcewatch") == lists
