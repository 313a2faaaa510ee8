"""Databases of the current schema: a run migrates one of each kind, and all others are its copies.

The migrations take eight seconds of processor time, and dozens of tests start processes of the
product on a database of their own. `python -m tests.migrated` migrates those of a run beforehand.
"""

import atexit
import fcntl
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import psycopg

from tests.bench.tools import ROOT, environment
from tests.services import HOW_TO_GET, postgres_bin

FOLDER = "OLMWEB_TEST_MIGRATED"  # names the folder that this process and those it starts share
SECRET = "only for this test " * 4

if FOLDER not in os.environ:
    os.environ[FOLDER] = tempfile.mkdtemp(prefix="olmweb-migrated-")
    atexit.register(shutil.rmtree, os.environ[FOLDER], ignore_errors=True)


def fill_database(url: str) -> None:
    """Gives the new database at `url` what `manage.py migrate` would."""
    if url.startswith("sqlite:///"):
        Path(url.removeprefix("sqlite:///")).write_bytes(_sqlite().read_bytes())
    else:
        command = [_program("psql"), "-q", "-v", "ON_ERROR_STOP=1", "-f", str(_dump(url)), url]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def fill_connection(connection: Any) -> None:
    """The same for the new database of a connection of Django, if this machine has the programs."""
    if connection.vendor == "sqlite":
        connection.ensure_connection()
        with closing(sqlite3.connect(_sqlite())) as source:
            source.backup(connection.connection)
    elif postgres_bin() is not None:
        database = connection.settings_dict
        password = quote(database["PASSWORD"], safe="")
        fill_database("postgres://{USER}:{0}@{HOST}:{PORT}/{NAME}".format(password, **database))


def _sqlite() -> Path:
    """A file that nobody has changed since."""
    with _made("sqlite3") as (path, missing):
        if missing:
            with tempfile.TemporaryDirectory(prefix="olmweb-migrated-") as name:
                file = Path(name) / "olmweb.sqlite3"
                _migrate(Path(name), f"sqlite:///{file}")
                with closing(sqlite3.connect(file)) as database:
                    path.write_bytes(database.serialize())
    return path


def _dump(url: str) -> Path:
    """What pg_dump says of a database that was migrated on the server of `url`."""
    with _made("sql") as (path, missing):
        if missing:
            server, name = url.rpartition("/")[0], f"migrated_{uuid4().hex}"
            with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
                connection.execute(f"CREATE DATABASE {name}".encode())
                try:
                    with tempfile.TemporaryDirectory(prefix="olmweb-migrated-") as folder:
                        _migrate(Path(folder), f"{server}/{name}")
                    target = f"{server}/{name}"
                    command = [_program("pg_dump"), "--no-owner", "-f", str(path), target]
                    subprocess.run(command, check=True)
                finally:
                    connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
    return path


@contextmanager
def _made(suffix: str) -> Iterator[tuple[Path, bool]]:
    """A file of the run, and whether it has to be made: by one process, while others wait."""
    path = Path(os.environ[FOLDER]) / f"migrated.{suffix}"
    with path.with_suffix(f".{suffix}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield path, not path.exists()
        except BaseException:
            path.unlink(missing_ok=True)
            raise


def _migrate(folder: Path, url: str) -> None:
    environ = environment(
        folder, DATABASE_URL=url, OLMWEB_SECRET_KEY=SECRET, OLMWEB_HOSTS="olmweb.example"
    )
    command = [sys.executable, str(ROOT / "manage.py"), "migrate", "--verbosity", "0"]
    subprocess.run(command, check=True, env=environ)


def _program(name: str) -> str:
    folder = postgres_bin()
    if folder is None:
        raise RuntimeError(HOW_TO_GET["postgres"])
    return str(folder / name)


if __name__ == "__main__":
    if url := os.environ.get("DATABASE_URL"):
        _dump(url)
    else:
        _sqlite()
