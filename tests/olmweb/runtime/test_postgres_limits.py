"""What PostgreSQL may take at most, for web, workers and migrations."""

import os
import subprocess
import sys
from typing import Any

import psycopg

from olmweb.runtime.postgres import MIGRATE, WEB, WORKER, connection_options
from tests.conftest import ROOT

PROGRAM = """
import django
{before}
django.setup()
from django.db import connection
with connection.cursor() as cursor:
    for name in ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"):
        cursor.execute(f"SHOW {{name}}")
        print(cursor.fetchone()[0])
{after}
"""


def shown(url: str, before: str = "", after: str = "", **environ: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(before=before, after=after)],
        cwd=ROOT, check=True, capture_output=True, text=True, timeout=60,
        env={**os.environ, "DATABASE_URL": url, "DJANGO_SETTINGS_MODULE": "olmweb.settings",
             "REDIS_URL": "redis://127.0.0.1:1/0", "OLMWEB_SECRET_KEY": "x" * 60,
             "OLMWEB_HOSTS": "a.example", **environ},
    )  # fmt: skip
    return done.stdout.split()


def test_workers_and_commands_have_long_limits_and_web_short_ones(postgres_server: str) -> None:
    assert shown(postgres_server) == ["10min", "1min", "1min"]
    assert shown(postgres_server, before="import olmweb.asgi") == ["30s", "10s", "30s"]


def test_queries_are_not_compiled(postgres_server: str) -> None:
    show = "with connection.cursor() as c: c.execute('SHOW jit'); print(*c.fetchone())"
    assert shown(postgres_server, after=show)[3:] == ["off"]


def test_a_database_url_with_options_of_its_own_keeps_them(postgres_server: str) -> None:
    url = f"{postgres_server}?options=-c%20statement_timeout%3D7s"
    assert shown(url) == ["7s", "0", "0"]
    assert shown(url, before="import olmweb.asgi") == ["7s", "0", "0"]


def test_a_vanished_server_is_noticed() -> None:
    options = connection_options({"sslmode": "require", "connect_timeout": 9})
    assert (options["sslmode"], options["connect_timeout"]) == ("require", 9)
    assert options["keepalives_idle"] == 30
    assert options["options"] == WORKER.options
    assert WEB.statement < WORKER.statement


MIGRATING = """
from django.core.management import call_command
from django.core.management.commands import migrate
def report(self, *args, **options):
    with connection.cursor() as cursor:
        for name in ("statement_timeout", "lock_timeout"):
            cursor.execute(f"SHOW {name}")
            print(cursor.fetchone()[0])
migrate.Command.handle = report
call_command("migrate")
with connection.cursor() as cursor:
    cursor.execute("SHOW statement_timeout")
    print(cursor.fetchone()[0])
"""


def test_migrations_wait_for_locks_for_seconds_and_run_for_as_long_as_they_need(
    postgres_server: str,
) -> None:
    assert shown(postgres_server, after=MIGRATING)[3:] == ["0", "10s", "10min"]
    assert MIGRATE.statement == 0


LOCKED = """
from django.db import OperationalError, transaction
try:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL lock_timeout = '200ms'")
        cursor.execute("SELECT * FROM limits_of FOR UPDATE")
except OperationalError as error:
    print(type(error.__cause__).__name__)
"""


def test_a_wait_for_a_lock_ends_as_an_error_of_the_database(postgres_server: str) -> None:
    with psycopg.connect(postgres_server) as holder:
        holder.execute("CREATE TABLE limits_of (id int)")
        holder.execute("INSERT INTO limits_of VALUES (1)")
        holder.commit()
        holder.execute("SELECT * FROM limits_of FOR UPDATE")
        found: Any = shown(postgres_server, after=LOCKED)
        assert found[3:] == ["LockNotAvailable"]
        holder.rollback()
        holder.execute("DROP TABLE limits_of")
