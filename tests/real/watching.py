"""A real cluster that real worker processes watch, and the ways to break either.

etcd and kube-apiserver, Redis, PostgreSQL (SQLite where it is missing), two Celery workers and
beat: what production runs. Rows are read with SQL, past the code under test.
"""

import itertools
import json
import os
import shlex
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import yaml

from tests.migrated import fill_database
from tests.peers import servers
from tests.peers.client import Client, Object, wait_until
from tests.peers.processes import Server, folder
from tests.services import free_port, postgres, postgres_bin, wait_for_port

ROOT = Path(__file__).resolve().parent.parent.parent
ACCOUNT = "olmweb"  # the user of the cluster that OLM Web is; has the reader's rights only
PLATFORM = "platform.openshift.io/v1alpha1"
# Seconds in which rows follow again once everything runs; on an idle machine it takes 1 to 5.
CATCH_UP = 25.0
# Of a cluster that was away for longer than a session waits for it: the longest backoff of
# olmweb.clusters.due, a period of beat, and the time above for the rest.
AFTER_OUTAGE = 20.0 + 10.0 + CATCH_UP
TAKE_OVER = 45.0  # for a cluster whose worker was killed: lease, beat, and a busy machine


class Database:
    """Reads the tables with SQL."""

    def __init__(self, url: str) -> None:
        self.url = url

    @property
    def is_postgres(self) -> bool:
        return self.url.startswith("postgres")

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        if self.is_postgres:
            with psycopg.connect(self.url) as server:
                return server.execute(query.encode()).fetchall()
        with sqlite3.connect(self.url.removeprefix("sqlite:///"), timeout=20) as file:
            return file.execute(query).fetchall()

    def take_lease(self, owner: str, seconds: int) -> None:
        """As a worker that believes a cluster's lease to be free."""
        update = "update olmweb_lease set owner = '{}', expires_at = {} where name like 'cluster:%'"
        until = f"datetime('now', '+{seconds} seconds')"
        if self.is_postgres:
            until = f"now() + interval '{seconds} seconds'"
        self.execute(update.format(owner, until))

    def execute(self, statement: str) -> None:
        if self.is_postgres:
            with psycopg.connect(self.url, autocommit=True) as server:
                server.execute(statement.encode())
            return
        with sqlite3.connect(self.url.removeprefix("sqlite:///"), timeout=20) as file:
            file.execute(statement)


class Watched:
    """The cluster `real` and everything that watches it."""

    def __init__(self, etcd: servers.Etcd, server: servers.ApiServer, home: Path) -> None:
        self.etcd = etcd
        self.server = server
        self.home = home
        self.database = Database("")
        self.environment: dict[str, str] = {}
        self.redis: Server
        self.postgres: Postgres | None = None
        self.workers: list[Server] = []
        self._numbers = itertools.count()

    # What a person does in the cluster

    @property
    def kubectl(self) -> Client:
        return self.server.admin

    def put(self, name: str, reason: str = "UnpackPending") -> Object:
        """A PlatformOperator in the state that its controller would give it."""
        operator = {
            "apiVersion": PLATFORM,
            "kind": "PlatformOperator",
            "metadata": {"name": name},
            "spec": {"package": {"name": "etcd"}},
        }
        applied = self.kubectl.apply(operator)
        condition = {
            "type": "Installed",
            "status": "True" if reason == "InstallSuccessful" else "False",
            "reason": reason,
            "message": f"{name} is {reason}",
            "lastTransitionTime": "2026-01-02T03:04:05Z",
        }
        self.kubectl.set_status(operator, {"conditions": [condition]})
        return applied

    def delete(self, name: str) -> None:
        meta = {"name": name}
        self.kubectl.delete({"apiVersion": PLATFORM, "kind": "PlatformOperator", "metadata": meta})

    # What OLM Web shows

    def truth(self) -> set[tuple[str, str, str]]:
        """(name, uid, reason) of what the cluster has."""
        operators = self.kubectl.list(PLATFORM, "PlatformOperator")
        return {
            (operator["metadata"]["name"], operator["metadata"]["uid"], _reason(operator))
            for operator in operators
        }

    def shown(self) -> set[tuple[str, str, str]]:
        rows = self.database.rows(
            "select name, uid, conditions from installs_operator where kind = 'PlatformOperator'"
        )
        rows_shown = set()
        for name, uid, conditions in rows:
            decoded = json.loads(conditions) if isinstance(conditions, str) else conditions
            rows_shown.add(
                (name, uid, next((str(condition["reason"]) for condition in decoded), ""))
            )
        return rows_shown

    def follows(self, seconds: float = CATCH_UP) -> float:
        """Waits until the rows are what the cluster has; returns how long it took."""
        began = time.monotonic()
        truth = self.truth()
        deadline = began + seconds
        while (shown := self.shown()) != truth:
            if time.monotonic() > deadline:
                more, less = sorted(shown - truth)[:5], sorted(truth - shown)[:5]
                raise AssertionError(f"after {seconds} s: too many {more}, missing {less}")
            time.sleep(0.05)
        return time.monotonic() - began

    def settle(self) -> None:
        """Asserts what must hold after every fault, once the rows follow again."""
        self.follows()
        wait_until(self.all_watched, "every feed being watched", 60)
        report = json.loads(self.manage("sync_cluster", "real", "--json"))
        wrong = {k: v for k, v in report["kinds"].items() if v["written"] or v["deleted"]}
        assert not wrong, f"a fresh list differs from the rows: {wrong}"
        assert self.twice() == []

    def all_watched(self) -> bool:
        states = self.database.rows("select resource, state from olmweb_resourcewatch")
        return bool(states) and {state for _, state in states} <= {"watching", "absent"}

    def twice(self) -> list[tuple[Any, ...]]:
        """Changes of an object that were recorded more than once; tests make each only once."""
        same = "kind, name, uid, type, from_status, from_reason, to_status, to_reason"
        return self.database.rows(
            f"select {same}, count(*) from installs_transition "  # noqa: S608
            f"where type in ('Object', 'Installed') group by {same} having count(*) > 1"
        )

    def watches(self) -> dict[str, tuple[int, int]]:
        """Feed -> lists and watches so far."""
        rows = self.database.rows("select resource, lists, watches from olmweb_resourcewatch")
        return {feed: (lists, watches) for feed, lists, watches in rows}

    def cluster(self) -> tuple[bool | None, str, str]:
        """reachable, error_code, error_text."""
        query = "select reachable, error_code, error_text from olmweb_cluster"
        ((reachable, code, text),) = self.database.rows(query)
        return (None if reachable is None else bool(reachable)), code, text

    def holder(self) -> int:
        """Process id of the worker that watches the cluster; 0 when none does."""
        rows = self.database.rows("select owner from olmweb_lease where name like 'cluster:%'")
        owner = rows[0][0] if rows else ""
        return int(owner.split(":")[1]) if owner.count(":") >= 3 else 0

    # Processes

    def set_clock(self, seconds: float) -> None:
        """By how much the clocks of workers and beat are wrong; see `watched`."""
        replacement = self.home / "clock.fresh"
        replacement.write_text(str(seconds), encoding="ascii")
        replacement.replace(self.home / "clock")
        time.sleep(1)  # until all have seen it

    def manage(self, *arguments: str) -> str:
        ended = subprocess.run(
            [sys.executable, "manage.py", *arguments], cwd=ROOT, timeout=120, check=False,
            env={**os.environ, **self.environment}, capture_output=True, text=True,
        )  # fmt: skip
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    def celery(self, name: str, *arguments: str) -> Server:
        clock = self.home / "clock"
        program = ["tests.real.jumping", str(clock)] if clock.exists() else ["celery"]
        command = [sys.executable, "-m", *program, "-A", "olmweb", "--workdir", str(ROOT)]
        environment = {**self.environment, "PYTHONPATH": str(ROOT)}
        server = Server(name, [*command, *arguments], self.home, environment)
        server.launch()
        return server

    def worker(self) -> Server:
        """One more worker; returns it before it is ready."""
        name = f"worker{next(self._numbers)}"
        worker = self.celery(
            name, "worker", "--pool", "threads", "--concurrency", "8", "--hostname", f"{name}@test",
            "--queues", "actions,sync,watch", "--loglevel", "warning",
        )  # fmt: skip
        self.workers.append(worker)
        return worker

    def keep_two_workers(self) -> None:
        self.workers = [
            worker for worker in self.workers if worker.process and worker.process.poll() is None
        ]
        while len(self.workers) < 2:
            self.worker()

    def stop_workers(self) -> None:
        for worker in self.workers:
            worker.stop()

    def log(self) -> str:
        """What all workers have logged so far."""
        logs = sorted(self.home.glob("worker*.log"))
        return "\n".join(log.read_text(errors="replace") for log in logs)

    def write_kubeconfig(self, token: str) -> None:
        """As a credential helper does it: at once, not half."""
        replacement = self.server.write_kubeconfig(self.home / "fresh", token=token)
        replacement.replace(self.home / "kubeconfig")


def _reason(item: Object) -> str:
    conditions = item.get("status", {}).get("conditions", [])
    return next((str(condition["reason"]) for condition in conditions), "")


def _grant(server: servers.ApiServer) -> None:
    """The rights that the project ships for reading, for our user."""
    for manifest in yaml.safe_load_all((ROOT / "deploy" / "kubernetes" / "rbac.yaml").read_text()):
        if manifest["metadata"]["name"] == "olmweb-reader":
            if manifest["kind"] == "ClusterRoleBinding":
                group = "rbac.authorization.k8s.io"
                manifest["subjects"] = [{"kind": "User", "name": ACCOUNT, "apiGroup": group}]
            server.admin.apply(manifest)


def redis(home: Path) -> Server:
    """A Redis whose data survives a restart, as that of the shipped compose.yaml."""
    port = free_port()
    path = shutil.which("redis-server") or ""
    command = [path, "--port", str(port), "--bind", "127.0.0.1", "--dir", str(home), "--save", ""]
    server = Server("redis", [*command, "--appendonly", "yes", "--loglevel", "warning"], home)
    server.launch()
    assert server.process
    wait_for_port(port, server.process, "Redis")
    return server


@contextmanager
def watched(*, clock: bool = False, watch_cache: bool = True) -> Iterator[Watched]:
    """Everything started, and the rows following the cluster.

    `clock`: that of workers and beat can be set; `watch_cache`: the API server has one.
    """
    with ExitStack() as stack:
        home = stack.enter_context(folder("watched"))
        etcd = stack.enter_context(servers.etcd())
        server = stack.enter_context(
            servers.apiserver(etcd, audit_log=True, watch_cache=watch_cache)
        )
        servers.apply_crds(server)
        _grant(server)
        running = Watched(etcd, server, home)
        if clock:
            running.set_clock(0)
        if postgres_bin() is not None:
            running.database = Database(stack.enter_context(postgres()))
            running.postgres = Postgres(running.database, home)
            stack.callback(running.postgres.stop)
        else:
            running.database = Database(f"sqlite:///{home / 'olmweb.sqlite3'}")
        running.redis = redis(home)
        stack.callback(lambda: running.redis.stop())
        port = running.redis.command[running.redis.command.index("--port") + 1]
        running.write_kubeconfig(server.tokens[ACCOUNT])
        running.environment = {
            "REDIS_URL": f"redis://127.0.0.1:{port}/0",
            "DATABASE_URL": running.database.url,
            "OLMWEB_DATA_DIR": str(home),
            "OLMWEB_SECRET_KEY": "only for this test " * 4,
            "OLMWEB_HOSTS": "olmweb.example",
            "OLMWEB_CLUSTERS": "real=real",
            "KUBECONFIG": str(home / "kubeconfig"),
        }
        fill_database(running.database.url)
        running.put("first", "InstallSuccessful")
        beat = running.celery(
            "beat", "beat", "--schedule", str(home / "beat"), "--loglevel", "error"
        )
        stack.callback(beat.stop)
        stack.callback(running.stop_workers)
        running.keep_two_workers()
        wait_until(running.all_watched, "every feed being watched", 90)
        yield running


class Postgres:
    """The server behind a database of tests.services, to be crashed and started again."""

    def __init__(self, database: Database, home: Path) -> None:
        ((data,),) = database.rows("show data_directory")
        self._data = Path(data)
        self._url = database.url
        command = shlex.split((self._data / "postmaster.opts").read_text())
        as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        self._server = Server("postgres", [*(as_user if os.getuid() == 0 else []), *command], home)
        self._port = int(command[command.index("-p") + 1])

    def restart(self, *, pause: float) -> None:
        """As a crash: no connection is ended orderly. `pause`: seconds until it starts again."""
        os.kill(int((self._data / "postmaster.pid").read_text().split()[0]), signal.SIGQUIT)
        wait_until(lambda: not (self._data / "postmaster.pid").exists(), "PostgreSQL's end")
        time.sleep(pause)
        self._server.launch()
        assert self._server.process
        wait_for_port(self._port, self._server.process, "PostgreSQL")
        # The port is open before the log of the crashed server has been replayed.
        wait_until(self._accepts, "PostgreSQL's recovery")

    def _accepts(self) -> bool:
        try:
            psycopg.connect(self._url).close()
        except psycopg.OperationalError:
            return False
        return True

    def stop(self) -> None:
        self._server.end(signal.SIGINT)
