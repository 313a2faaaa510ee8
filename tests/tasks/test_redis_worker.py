"""Production's shape: a worker process of its own, fed through a real Redis, reads a cluster."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

from olmweb.sandbox.server import Sandbox

ROOT = Path(__file__).resolve().parent.parent.parent


def manage(environ: dict[str, str], *arguments: str) -> None:
    subprocess.run(
        [sys.executable, "-m", *arguments], cwd=ROOT, env=environ, check=True, timeout=60,
        stdout=subprocess.DEVNULL,
    )  # fmt: skip


def count(database: Path, query: str) -> int:
    with sqlite3.connect(database) as connection:
        return int(connection.execute(query).fetchone()[0])


def test_a_worker_behind_redis_reads_cluster_and_catalogs(
    redis_server: str, tmp_path: Path
) -> None:
    sandbox = Sandbox(scenario="audit")
    sandbox.start()
    database = tmp_path / "olmweb.sqlite3"
    environ = {
        **os.environ,
        "REDIS_URL": redis_server,
        "DATABASE_URL": f"sqlite:///{database}",
        "OLMWEB_DATA_DIR": str(tmp_path),
        "OLMWEB_SECRET_KEY": "only for this test " * 4,
        "OLMWEB_HOSTS": "olmweb.example",
        "OLMWEB_CLUSTERS": "sandbox=sandbox",
        "KUBECONFIG": str(tmp_path / "kubeconfig"),
    }
    sandbox.write_kubeconfig(tmp_path / "kubeconfig", context="sandbox")
    manage(environ, "django", "migrate", "--settings", "olmweb.settings")
    worker = subprocess.Popen(
        [sys.executable, "-m", "celery", "-A", "olmweb", "worker", "-c", "2",
         "-Q", "actions,sync,watch", "--loglevel", "error"],
        cwd=ROOT, env=environ,
    )  # fmt: skip
    try:
        manage(environ, "celery", "-A", "olmweb", "call", "installs.sync_clusters", "--queue=watch")
        deadline = time.monotonic() + 60
        operators = packages = 0
        while time.monotonic() < deadline and not (operators and packages):
            time.sleep(0.5)
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
