"""Lists lose and repeat no row when the collation of the database ignores case."""

import pytest
from django.db import connection

from catalogs.models import Catalog, Package
from installs.models import Operator
from olmweb.models import Cluster
from tests.factories import make_catalog, make_cluster, make_component, make_operator, make_package
from tests.worlds.operators import make_clusteroperator
from tests.worlds.rest_fixtures import Get

pytestmark = pytest.mark.django_db
CLUSTERS = ("dev", "Prod", "qa")
LISTS = ("migrations", "readiness", "operators", "packages", "bundles", "clusters", "catalogs")


@pytest.fixture
def mixed_case(db: None) -> None:
    """Clusters and operators with names in mixed case, which ICU orders as dev, Prod, qa."""
    columns = [(Cluster, "name"), (Catalog, "slug"), (Package, "name"), (Operator, "name")]
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            for model, column in columns:
                cursor.execute(
                    f'ALTER TABLE {model._meta.db_table} ALTER COLUMN "{column}" '
                    'TYPE varchar(300) COLLATE "en-US-x-icu"'
                )
    for name in CLUSTERS:
        cluster = make_cluster(name=name, version="4.16.3")
        catalog = make_catalog(cluster=cluster, name="Community")
        make_component(
            cluster=cluster, kind="ClusterVersion", name="version", details={"version": "4.16.3"}
        )
        make_clusteroperator(cluster=cluster, name="dns", upgradeable="False")
        for package in ("alpha", "Beta", "gamma"):
            make_package(name=package, catalog=catalog)
            make_operator(
                cluster=cluster, kind="Subscription", name=package, namespace="ops",
                package=package, catalog="Community",
            )  # fmt: skip


@pytest.mark.parametrize("name", LISTS)
def test_walking_the_cursor_gives_every_row_once(mixed_case: None, get: Get, name: str) -> None:
    whole = get(name).json()["items"]
    walked = []
    cursor: str | None = ""
    while cursor is not None:
        page = get(name, {"limit": 2} | ({"cursor": cursor} if cursor else {})).json()
        walked += page["items"]
        cursor = page["next"]
    assert walked == whole
    assert {row["cluster"] for row in whole} == set(CLUSTERS)
