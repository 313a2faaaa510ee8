"""Production's shape: a worker process of its own, fed through a real Redis, reads a cluster."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
import redis
from django.conf import settings

from olmweb.sandbox.cluster import Sandbox
from tests.conftest import ROOT
from tests.migrated import fill_database


def manage(environ: dict[str, str], *arguments: str) -> None:
    subprocess.run(
        [sys.executable, "-m", *arguments], cwd=ROOT, env=environ, check=True, timeout=180,
        stdout=subprocess.DEVNULL,
    )  # fmt: skip


@pytest.fixture
def database(tmp_path: Path) -> Iterator[str]:
    """URL of a new database of the kind that this run tests, on the same server."""
    if "sqlite" in settings.DATABASES["default"]["ENGINE"]:
        yield f"sqlite:///{tmp_path / 'olmweb.sqlite3'}"
        return
    name = f"worker_{uuid4().hex}"
    server = settings.DATABASE_URL.rpartition("/")[0]
    with psycopg.connect(settings.DATABASE_URL, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        yield f"{server}/{name}"
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def select(database: str, query: str) -> list[Any]:
    """The rows of a query to the database of other processes."""
    if database.startswith("sqlite:///"):
        with sqlite3.connect(database.removeprefix("sqlite:///")) as connection:
            return connection.execute(query).fetchall()
    with psycopg.connect(database) as server:
        return server.execute(query.encode()).fetchall()


def count(database: str, query: str) -> int:
    return int(select(database, query)[0][0])


@pytest.mark.database
def test_a_worker_behind_redis_reads_cluster_and_catalogs(
    redis_server: str, database: str, tmp_path: Path
) -> None:
    redis.Redis.from_url(redis_server).flushall()  # other tests leave odd messages in its queues
    sandbox = Sandbox(scenario="audit")
    sandbox.start()
    environ = {
        **os.environ,
        "REDIS_URL": redis_server,
        "DATABASE_URL": database,
        "OLMWEB_DATA_DIR": str(tmp_path),
        "OLMWEB_SECRET_KEY": "only for this test " * 4,
        "OLMWEB_HOSTS": "olmweb.example",
        "OLMWEB_CLUSTERS": "sandbox=sandbox",
        "KUBECONFIG": str(tmp_path / "kubeconfig"),
    }
    sandbox.write_kubeconfig(tmp_path / "kubeconfig", context="sandbox")
    fill_database(database)
    worker = subprocess.Popen(
        [sys.executable, "-m", "celery", "-A", "olmweb", "worker", "-c", "2",
         "-Q", "actions,sync,watch", "--loglevel", "error"],
        cwd=ROOT, env=environ,
    )  # fmt: skip
    try:
        manage(environ, "celery", "-A", "olmweb", "call", "installs.sync_clusters", "--queue=watch")
        deadline = time.monotonic() + 60
        operators = packages = 0
        # Catalogs are read one after the other: the small one may be there first.
        while time.monotonic() < deadline and not (operators and packages > 69):
            time.sleep(0.2)
            operators = count(
                database, "select count(*) from installs_operator where kind='PlatformOperator'"
            )
            packages = count(database, "select count(*) from catalogs_package")
        assert operators == 69
        assert packages > 69
    finally:
        worker.send_signal(signal.SIGTERM)
        worker.wait(timeout=45)
        sandbox.stop()


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_a_worker_ends_although_a_task_does_not_and_another_one_gets_it(
    redis_server: str, tmp_path: Path, pool: str
) -> None:
    redis.Redis.from_url(redis_server).flushall()
    runs = tmp_path / "runs"
    runs.touch()
    environ = {
        **os.environ,
        "REDIS_URL": redis_server,
        "OLMWEB_DATA_DIR": str(tmp_path),
        "DATABASE_URL": f"sqlite:///{tmp_path / 'unused.sqlite3'}",
        "OLMWEB_SECRET_KEY": "only for this test " * 4,
        "OLMWEB_HOSTS": "olmweb.example",
        "OLMWEB_TEST_RUNS": str(runs),
    }
    command = [sys.executable, "-m", "celery", "-A", "olmweb", "worker", "--queues", "reports",
               "--include", "tests.olmweb.runtime.endless", "--pool", pool, "--concurrency", "1",
               "--loglevel", "error"]  # fmt: skip
    manage(environ, "celery", "-A", "olmweb", "call", "tests.endless", "--queue=reports")
    for number in (1, 2):
        worker = subprocess.Popen(command, cwd=ROOT, env=environ)
        try:
            _wait_for_runs(runs, number)
            worker.send_signal(signal.SIGTERM)
            worker.wait(timeout=15)
        finally:
            worker.kill()
            worker.wait()


def _wait_for_runs(runs: Path, number: int) -> None:
    deadline = time.monotonic() + 40
    while len(runs.read_text(encoding="utf-8").split()) < number:
        assert time.monotonic() < deadline
        time.sleep(0.1)
