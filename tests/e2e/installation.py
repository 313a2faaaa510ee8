"""OLM Web on a PostgreSQL database of its own, with a sandbox cluster and a catalog from a file."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import LiteralString
from uuid import uuid4

import psycopg
from psycopg import sql

from tests.conftest import ROOT
from tests.services import postgres_bin

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
    """`folder` has its data and the kubeconfig. `code` is the checkout whose commands are run."""

    def __init__(self, server: str, folder: Path) -> None:
        self.code = ROOT
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
            cwd=self.code, env=environment, capture_output=True, text=True, timeout=180,
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
