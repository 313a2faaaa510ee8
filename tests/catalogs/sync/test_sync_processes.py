"""Workers as real processes on a database of their own: killed, two at once, a catalog deleted."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.conf import settings

from tests.bench.tools import environment
from tests.migrated import fill_database

pytestmark = pytest.mark.database
PROGRAM = Path(__file__).with_name("survivor.py")


@pytest.fixture(scope="module")
def surroundings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment of processes that share one database of the kind that the tests run on."""
    folder = tmp_path_factory.mktemp("processes")
    (folder / "data").mkdir()
    url = os.environ.get("DATABASE_URL", "")
    if not url.startswith("postgres"):
        found = environment(folder)
        fill_database(f"sqlite:///{folder / 'data' / 'olmweb.sqlite3'}")
        yield found
        return
    name = f"processes_{os.getpid()}"
    with psycopg.connect(url, autocommit=True) as server:
        server.execute(f'CREATE DATABASE "{name}"'.encode())
        try:
            own = url.rpartition("/")[0] + f"/{name}"
            found = environment(folder, DATABASE_URL=own, OLMWEB_SECRET_KEY=settings.SECRET_KEY)
            fill_database(own)
            yield found
        finally:
            server.execute(f'DROP DATABASE "{name}" WITH (FORCE)'.encode())


def run(scenario: str, folder: Path, surroundings: dict[str, str]) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), scenario, str(folder)],
        check=False, capture_output=True, env=surroundings, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("step", ["fetch", "index", "write", "before-commit", "before-sweep"])
def test_a_killed_worker_leaves_the_last_good_content_and_the_next_run_completes(
    step: str, tmp_path: Path, surroundings: dict[str, str]
) -> None:
    found = run(f"killed:{step}", tmp_path, surroundings)
    assert found["code"] == -9
    new = ["etcd", "mongo", "nats"]
    assert found["served"] == (new if step == "before-sweep" else ["etcd", "redis"])
    assert (found["again"], found["packages"]) == ("changed", new)
    assert (found["blobs"], found["orphans"], found["running"]) == (12, 0, 0)


def test_two_workers_on_one_catalog_read_it_once(
    tmp_path: Path, surroundings: dict[str, str]
) -> None:
    found = run("one", tmp_path, surroundings)
    assert found == {"codes": [0, 0], "revision": 1, "packages": ["etcd", "redis"]}


def test_several_catalogs_sync_at_once_and_share_their_blobs(
    tmp_path: Path, surroundings: dict[str, str]
) -> None:
    found = run("many", tmp_path, surroundings)
    assert found["codes"] == [0, 0, 0, 0]
    assert found["states"] == ["serving"] * 4
    assert (found["packages"], found["blobs"], found["orphans"]) == (32, 32, 0)


def test_a_catalog_deleted_while_it_is_written_leaves_nothing(
    tmp_path: Path, surroundings: dict[str, str]
) -> None:
    found = run("deleted", tmp_path, surroundings)
    assert found["code"] == 0
    assert set(found["left"].values()) == {0}
    assert found["orphans"] == 0
