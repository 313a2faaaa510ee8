"""Backup and restore on PostgreSQL, as docs/operations.md describes them."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import LiteralString
from uuid import uuid4

import psycopg
import pytest
from django.apps import apps
from psycopg import sql

from olmweb.sandbox.cluster import Sandbox
from tests.conftest import ROOT, need
from tests.services import postgres, postgres_bin

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

FILL = """
from django.contrib.auth.models import Group, User
from installs.models import Action, AllowRule, InstallRequest
from olmweb.models import ApiToken, Cluster
admin = User.objects.create_superuser("ada", password="correct horse battery")
olivia = User.objects.create_user("olivia", password="correct horse battery")
olivia.groups.add(Group.objects.get(name="olmweb-operators"))
cluster = Cluster.objects.get()
Action.objects.create(
    cluster=cluster, verb="install", path="ClusterExtension", name="backup-demo",
    state="succeeded", user=olivia, package="backup-demo",
)
InstallRequest.objects.create(cluster=cluster, package="etcd", path="ClusterExtension", user=olivia)
AllowRule.objects.create(package="etcd", saved_by=admin)
print("TOKEN", ApiToken.issue(olivia.pk, "act")[0])
"""
READ_AGAIN = """
from django.conf import settings
from django.test import Client
settings.SECURE_SSL_REDIRECT = False
client = Client(headers={"host": "olmweb.example"})
answer = client.post("/login/", {"username": "ada", "password": "correct horse battery"})
assert answer.status_code == 302, answer.content
assert b"backup-demo" in client.get("/activity/").content
other = Client(headers={"host": "olmweb.example", "authorization": "Bearer %s"})
actions = other.get("/api/v1/actions").json()
assert (actions["count"], actions["items"][0]["package"]) == (1, "backup-demo"), actions
assert other.get("/api/v1/transitions").json()["count"] > 0
"""


def tables_of(heading: str) -> set[str]:
    """Names of tables in the row of docs/operations.md that begins with `heading`."""
    text = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    [row] = re.findall(rf"^\| {heading} \|.*$", text, re.MULTILINE)
    return set(re.findall(r"`(\w+)`", row))


def catalog_lines() -> str:
    """Two packages with two bundles each, as JSON Lines."""
    blobs: list[dict[str, object]] = []
    for package in ("etcd", "loki"):
        names = [f"{package}.v1.0.0", f"{package}.v1.1.0"]
        blobs.append({"schema": "olm.package", "name": package, "defaultChannel": "stable"})
        entries = [{"name": names[0]}, {"name": names[1], "replaces": names[0]}]
        blobs.append(
            {"schema": "olm.channel", "package": package, "name": "stable", "entries": entries}
        )
        blobs += [
            {"schema": "olm.bundle", "package": package, "name": name,
             "image": f"registry.example/{name}@sha256:{'0' * 64}",
             "properties": [{"type": "olm.package",
                             "value": {"packageName": package, "version": name[-5:]}}]}
            for name in names
        ]  # fmt: skip
    return "\n".join(json.dumps(blob) for blob in blobs)


class Installation:
    """OLM Web on a database of its own, with a sandbox cluster and a catalog from a file."""

    def __init__(self, server: str, folder: Path) -> None:
        self._server = server.rpartition("/")[0]
        self.name = f"backup_{uuid4().hex[:12]}"
        self.dump = folder / "olmweb.dump"
        self.folder = folder
        self.create()

    @property
    def url(self) -> str:
        return f"{self._server}/{self.name}"

    def create(self) -> None:
        self._on_server("CREATE DATABASE {}")

    def drop(self) -> None:
        self._on_server("DROP DATABASE {} WITH (FORCE)")

    def _on_server(self, statement: LiteralString) -> None:
        with psycopg.connect(f"{self._server}/postgres", autocommit=True) as connection:
            connection.execute(sql.SQL(statement).format(sql.Identifier(self.name)))

    def manage(self, *arguments: str) -> str:
        environment = {
            **os.environ,
            "DATABASE_URL": self.url,
            "OLMWEB_DATA_DIR": str(self.folder),
            "OLMWEB_SECRET_KEY": "only for this test " * 4,
            "OLMWEB_HOSTS": "olmweb.example",
            "OLMWEB_CLUSTERS": "sandbox=sandbox",
            "KUBECONFIG": str(self.folder / "kubeconfig"),
        }
        run = subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=ROOT, env=environment, capture_output=True, text=True, timeout=180,
        )  # fmt: skip
        assert run.returncode == 0, run.stderr
        return run.stdout

    def sync(self) -> None:
        file = self.folder / "catalog.jsonl"
        file.write_text(catalog_lines(), encoding="utf-8")
        self.manage("sync_catalog", "own", "--file", str(file))
        self.manage("sync_cluster", "sandbox")

    def run(self, program: str, *arguments: str) -> None:
        folder = postgres_bin()
        assert folder is not None
        subprocess.run([str(folder / program), *arguments], check=True, capture_output=True)

    def rows(self, *, without_keys: bool = False) -> dict[str, list[str]]:
        """All rows of each table as text; `without_keys` leaves generated keys, times, stored bytes
        and the versions of the cluster's objects out."""
        with psycopg.connect(self.url) as connection:
            columns: dict[str, list[str]] = {}
            for table, column, kind in connection.execute(
                "SELECT table_name, column_name, data_type FROM information_schema.columns "
                "WHERE table_schema = 'public' ORDER BY 1, 2"
            ):
                columns.setdefault(table, [])
                generated = (
                    column == "id" or column.endswith("_id") or kind == "bytea"
                    or kind.startswith("timestamp") or column in VARIABLE
                )  # fmt: skip
                if not (without_keys and generated):
                    columns[table].append(column)
            return {
                table: [
                    str(row)
                    for row in connection.execute(
                        sql.SQL("SELECT {} FROM {} ORDER BY 1").format(
                            sql.SQL("ROW({})::text").format(
                                sql.SQL(", ").join(map(sql.Identifier, names))
                            ),
                            sql.Identifier(table),
                        )
                    )
                ]
                for table, names in columns.items()
            }

    def execute(self, statement: str) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(statement.encode())


VARIABLE = {"resource_version", "details", "lists", "watches", "revision", "inputs"}


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    need("postgres", postgres_bin() is not None)
    with postgres() as url:
        yield url


@pytest.fixture
def installation(server: str, tmp_path: Path) -> Iterator[Installation]:
    sandbox = Sandbox(step_seconds=0.01)
    sandbox.start()
    sandbox.write_kubeconfig(tmp_path / "kubeconfig", context="sandbox")
    made = Installation(server, tmp_path)
    made.manage("migrate", "--verbosity", "0")
    made.sync()
    yield made
    sandbox.stop()
    made.drop()


def test_every_table_is_named_as_kept_or_derived() -> None:
    kept, derived = tables_of("kept"), tables_of("derived")
    tables = {model._meta.db_table for model in apps.get_models(include_auto_created=True)}
    assert not kept & derived
    assert kept | derived == tables | {"django_migrations"}


def test_no_kept_row_refers_to_a_derived_one() -> None:
    derived = tables_of("derived")
    for model in apps.get_models(include_auto_created=True):
        if model._meta.db_table in derived:
            continue
        for column in model._meta.concrete_fields:
            if column.is_relation and column.related_model:
                assert column.related_model._meta.db_table not in derived, column


def test_a_restored_dump_has_every_row_and_people_go_on(installation: Installation) -> None:
    token = installation.manage("shell", "-c", FILL).partition("TOKEN ")[2].strip()
    before = installation.rows()
    assert before["installs_operator"]
    assert before["catalogs_bundle"]
    installation.run("pg_dump", "--format=custom", f"--file={installation.dump}", installation.url)
    installation.drop()
    installation.create()
    installation.run("pg_restore", "--no-owner", "--exit-on-error",
                     f"--dbname={installation.url}", str(installation.dump))  # fmt: skip
    assert installation.rows() == before
    installation.manage("migrate", "--check")
    installation.manage("shell", "-c", READ_AGAIN % token)


def test_a_restore_without_derived_rows_has_them_again_after_a_sync(
    installation: Installation,
) -> None:
    token = installation.manage("shell", "-c", FILL).partition("TOKEN ")[2].strip()
    derived = tables_of("derived")
    before, same = installation.rows(), installation.rows(without_keys=True)
    excluded = [f"--exclude-table-data={table}" for table in sorted(derived)]
    installation.run("pg_dump", "--format=custom", *excluded, f"--file={installation.dump}",
                     installation.url)  # fmt: skip
    installation.drop()
    installation.create()
    installation.run("pg_restore", "--no-owner", "--exit-on-error",
                     f"--dbname={installation.url}", str(installation.dump))  # fmt: skip
    restored = installation.rows()
    for table, rows in before.items():
        assert restored[table] == ([] if table in derived else rows), table
    operations = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    [statement] = re.findall(r'-c "(UPDATE catalogs_catalog [^"]+)"', operations)
    installation.execute(statement)
    installation.sync()
    again = installation.rows(without_keys=True)
    different = {table for table in derived - NOT_COMPARED if again[table] != same[table]}
    assert not different, [(again[table][:3], same[table][:3]) for table in different]
    assert len(again["catalogs_catalogchange"]) == len(same["catalogs_catalogchange"])
    installation.manage("shell", "-c", READ_AGAIN % token)


# Holders of leases, sessions, and positions of watches belong to processes, not to the data.
NOT_COMPARED = {"olmweb_lease", "django_session", "olmweb_resourcewatch"}
