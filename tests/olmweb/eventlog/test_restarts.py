"""A reader of the stream loses and repeats no event while the processes are killed."""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from tests.bench.tools import ROOT, environment, one, until
from tests.migrated import fill_database
from tests.services import free_port
from tests.soak.followers import StreamReader

pytestmark = pytest.mark.slow
EVENTS = 3000
THREADS = 4
# Writes in overlapping transactions, each of a few events, until there are enough in all.
WRITER = f"""
import random, threading
import django
django.setup()
from django.db import connection, transaction
from django.utils import timezone
from olmweb.eventlog.record import event, record
from olmweb.eventlog.types import EventType, ExistenceData
from olmweb.models import ChangeEvent

def write(thread):
    while ChangeEvent.objects.count() < {EVENTS}:
        with transaction.atomic():
            for _ in range(random.randint(1, 9)):
                data = ExistenceData(str(random.random()))
                record([event(EventType.OBJECT_APPEARED, timezone.now(), data, cluster_id=None,
                              kind="Deployment", name=f"d{{thread}}")])
    connection.close()

threads = [threading.Thread(target=write, args=(n,)) for n in range({THREADS})]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


Start = Callable[[str], subprocess.Popen[bytes]]


@pytest.fixture
def environ(postgres_server: str, tmp_path: Path) -> Iterator[dict[str, str]]:
    server = postgres_server.rpartition("/")[0]
    with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
        connection.execute("CREATE DATABASE event_restarts")
    environ = environment(
        tmp_path,
        DATABASE_URL=f"{server}/event_restarts",
        REDIS_URL="redis://127.0.0.1:1/0",  # away: nothing here needs it
        OLMWEB_SECRET_KEY="only for this test " * 4,
        OLMWEB_HOSTS="127.0.0.1",
        OLMWEB_HTTPS="false",
        OLMWEB_WEB_PROCESSES="1",
    )
    fill_database(environ["DATABASE_URL"])
    yield environ
    with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
        connection.execute("DROP DATABASE event_restarts WITH (FORCE)")


@pytest.fixture
def start(environ: dict[str, str]) -> Iterator[Start]:
    processes: list[subprocess.Popen[bytes]] = []

    def start_one(command: str) -> subprocess.Popen[bytes]:
        arguments = ["-c", WRITER] if command == "writer" else ["manage.py", *command.split()]
        process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=ROOT,
            env=environ,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        processes.append(process)
        return process

    yield start_one
    for process in processes:
        process.kill()
        process.wait()


def manage(environ: dict[str, str], *arguments: str) -> str:
    command = [sys.executable, "manage.py", *arguments]
    run = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=True)
    return run.stdout.strip()


def test_no_event_is_lost_or_repeated_while_servers_and_writers_are_killed(
    environ: dict[str, str], start: Start
) -> None:
    manage(environ, "shell", "-c", "from django.contrib.auth.models import User; "
           "User.objects.create_user('reader')")  # fmt: skip
    token = manage(environ, "apitoken", "reader", "--scope", "read")
    port = free_port()
    web, writer = start(f"web --host 127.0.0.1 --port {port}"), start("writer")
    reader = StreamReader([f"http://127.0.0.1:{port}"], token)
    for part in (1, 2, 3):
        reader.follow(lambda: len(reader.received) >= EVENTS * part // 4)  # noqa: B023 - at once
        for process in (web, writer):
            process.send_signal(signal.SIGKILL)
            process.wait()
        web, writer = start(f"web --host 127.0.0.1 --port {port}"), start("writer")
    assert writer.wait(120) == 0
    manage(environ, "shell", "-c", "from olmweb.eventlog.record import publish; publish()")
    with psycopg.connect(environ["DATABASE_URL"], autocommit=True) as database:
        written = one(database, "SELECT count(*) FROM olmweb_changeevent")
        assert written >= EVENTS
        assert until(
            lambda: one(database, "SELECT max(position) FROM olmweb_changeevent") == written, 10
        )
    reader.follow(lambda: len(reader.received) >= written)
    assert [event["id"] for event in reader.received] == list(range(1, written + 1))
    assert reader.connections >= 4
    assert not reader.refusals
    reader.close()
