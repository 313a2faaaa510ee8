"""What packages are found by, as syncs leave it: in the index of the database that runs."""

from pathlib import Path

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from catalogs.models import Package, PackageSearch
from catalogs.search.matching import packages_with
from catalogs.sync.catalog import sync_catalog
from catalogs.sync.deletion import delete_catalog
from tests.factories import make_package
from tests.worlds import fbc
from tests.worlds.syncing import make


def found(word: str) -> set[str]:
    (ids,) = packages_with([word])
    names = Package.objects.in_bulk(ids)
    assert names.keys() == ids  # no words of packages that are gone
    return {item.name for item in names.values()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


@pytest.mark.django_db
def test_words_come_change_and_go_with_their_package(folder: Path) -> None:
    catalog = make(folder, [*fbc.package("etcd"), *fbc.package("kafka")])
    sync_catalog(catalog)
    assert found("kafka") == {"kafka"}
    row = PackageSearch.objects.get(package__name="etcd")
    assert "etcd" in row.words.split()

    blobs = [*fbc.package("etcd"), {"schema": "olm.deprecations", "package": "etcd", "entries": []}]
    sync_catalog(make(folder, blobs))
    assert found("kafka") == set()
    assert found("etcd") == {"etcd"}
    assert PackageSearch.objects.count() == Package.objects.count() == 1

    delete_catalog(catalog.pk)
    assert packages_with(["etcd"]) == [set()]
    assert not PackageSearch.objects.exists()


@pytest.mark.django_db
def test_the_upgrade_path_is_the_longest_of_the_default_channel(folder: Path) -> None:
    versions = ["1.0.0", "1.1.0", "1.2.0"]
    steps, ranged, single = (fbc.package(name, versions) for name in ("steps", "ranged", "single"))
    ranged[1]["entries"][2]["skipRange"] = "<1.2.0"
    single[1]["entries"] = [{"name": "single.v1.2.0"}]
    others = fbc.channel_blob("single", "all", [{"name": f"single.v{v}"} for v in versions])
    sync_catalog(make(folder, [*steps, *ranged, *single, others]))
    assert dict(PackageSearch.objects.values_list("package__name", "upgrade_path")) == {
        "steps": versions,
        "ranged": ["1.1.0", "1.2.0"],
        "single": [],
    }


@pytest.mark.django_db(transaction=True)
def test_the_migration_goes_back_and_forth_with_rows_there() -> None:
    latest = MigrationExecutor(connection).loader.graph.leaf_nodes()
    MigrationExecutor(connection).migrate([("catalogs", None)])
    try:
        assert "catalogs_packagesearch" not in connection.introspection.table_names()
    finally:
        MigrationExecutor(connection).migrate(latest)
    package = make_package(name="kafka")
    assert packages_with(["kafka"]) == [{package.pk}]
