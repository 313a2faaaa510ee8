"""Real workers that are killed or paused in a sync: another one takes over, and writes alone."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.catalogs.sync.holder import SECONDS
from tests.conftest import ROOT
from tests.migrated import fill_database
from tests.olmweb.runtime import test_redis_worker
from tests.olmweb.runtime.test_redis_worker import count
from tests.worlds.fbc import jsonl, package

pytestmark = pytest.mark.database
database = test_redis_worker.database
PROGRAM = Path(__file__).with_name("holder.py")


class Worker:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def line(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().strip()

    def go_on(self) -> str:
        """Lets it read the source; returns the outcome."""
        assert self.process.stdin
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.line()


class World:
    def __init__(self, folder: Path, database: str) -> None:
        self.database = database
        self.environ = {
            **os.environ,
            "DATABASE_URL": database,
            "OLMWEB_DATA_DIR": str(folder),
            "DJANGO_SETTINGS_MODULE": "olmweb.settings",
            "PYTHONPATH": str(ROOT),
        }
        self.files = {name: folder / name for name in ("old", "new")}
        self.files["old"].write_bytes(jsonl(package("old")))
        self.files["new"].write_bytes(jsonl(package("new")))
        fill_database(database)
        code = "import django; django.setup(); from tests.factories import make_catalog; "
        code += "make_catalog(content_hash='', revision=0)"
        subprocess.run([sys.executable, "-c", code], env=self.environ, check=True, cwd=ROOT)

    @contextmanager
    def worker(self, file: str) -> Iterator[Worker]:
        command = [sys.executable, str(PROGRAM), "1", str(self.files[file])]
        process = subprocess.Popen(
            command, env=self.environ, cwd=ROOT, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        with process:
            try:
                yield Worker(process)
            finally:
                process.kill()

    def packages(self, name: str) -> int:
        query = f"select count(*) from catalogs_package where name='{name}'"  # noqa: S608
        return count(self.database, query)


@pytest.fixture
def world(tmp_path: Path, database: str) -> World:
    return World(tmp_path, database)


def test_a_killed_worker_is_replaced_when_its_short_lease_ends(world: World) -> None:
    with ExitStack() as stack:
        killed = stack.enter_context(world.worker("old"))
        assert killed.line() == "held"
        time.sleep(2 * SECONDS)  # renewed meanwhile
        other = stack.enter_context(world.worker("new"))
        time.sleep(2 * SECONDS)
        began = time.monotonic()
        killed.process.kill()
        assert other.line() == "held"
        took = time.monotonic() - began
        assert other.go_on() == "changed"
    assert 0.3 < took < SECONDS + 2
    assert (world.packages("old"), world.packages("new")) == (0, 1)


def test_a_worker_paused_past_its_lease_writes_nothing(world: World) -> None:
    with ExitStack() as stack:
        paused = stack.enter_context(world.worker("old"))
        assert paused.line() == "held"
        paused.process.send_signal(signal.SIGSTOP)
        other = stack.enter_context(world.worker("new"))
        assert other.line() == "held"
        assert other.go_on() == "changed"
        paused.process.send_signal(signal.SIGCONT)
        assert paused.go_on() == "lost"
    assert (world.packages("old"), world.packages("new")) == (0, 1)
    query = "select count(*) from catalogs_catalog where state='serving' and revision=1"
    assert count(world.database, query) == 1
