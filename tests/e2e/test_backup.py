"""Backup and restore on PostgreSQL, as docs/operations.md describes them."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.apps import apps

from olmweb.sandbox.cluster import Sandbox
from tests.conftest import ROOT, need
from tests.e2e.installation import FILL, READ_AGAIN, Installation
from tests.migrated import fill_database
from tests.services import postgres, postgres_bin

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


def tables_of(heading: str) -> set[str]:
    """Names of tables in the row of docs/operations.md that begins with `heading`."""
    text = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    [row] = re.findall(rf"^\| {heading} \|.*$", text, re.MULTILINE)
    return set(re.findall(r"`(\w+)`", row))


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
    fill_database(made.url)
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
