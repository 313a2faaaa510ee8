"""What the tables of lists have in common: sorts, columns, exports, pages, queries."""

import csv
import io
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoDbBlocker

from catalogs.views.catalogs import CATALOGS
from installs.models import InstallRequest
from installs.queries.activity import ACTIONS, REQUESTS
from installs.queries.clusteroperators import CLUSTEROPERATORS
from installs.queries.crds import CRDS
from installs.queries.operator_table import OPERATORS
from olmweb.models import Cluster, Preferences
from olmweb.web.pagination import PAGE_SIZE
from olmweb.web.tables import Table
from tests.factories import make_catalog, make_cluster, make_crd, make_operator, make_package
from tests.worlds.html import assert_page
from tests.worlds.operators import make_action, make_clusteroperator, make_failing_world
from tests.worlds.rest_fixtures import rows_of_module

pytestmark = pytest.mark.django_db
TABLES = {
    "/operators/": OPERATORS,
    "/cluster-operators/": CLUSTEROPERATORS,
    "/crds/": CRDS,
    "/catalogs/": CATALOGS,
    "/activity/": ACTIONS,
    "/activity/requests/": REQUESTS,
}
SORTS = [
    (path, f"{sign}{column}")
    for path, table in TABLES.items()
    for column in table.names
    for sign in ("", "-")
]
ROWS = 3 * PAGE_SIZE


@pytest.fixture(scope="module", autouse=True)
def lists(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    with rows_of_module(django_db_blocker, fill_lists):
        yield


@pytest.fixture
def prod(db: None) -> Cluster:
    return Cluster.objects.get(name="prod")


def fill_lists() -> None:
    """Three pages of rows for each list, with values that are missing, equal and different."""
    clusters = [make_cluster(name="edge"), make_cluster(name="prod")]
    user = User.objects.create_user("ada")
    now = timezone.now()
    for number in range(ROWS):
        cluster, name = clusters[number % 2], f"row-{number:02}"
        some = ("", "a", "b")[number % 3]
        make_operator(cluster=cluster, name=name, channel=some)
        make_clusteroperator(cluster, name, severity=number % 4, reason=some)
        make_crd(
            cluster=cluster, name=name, stored=["v1", *some], owner_name=some,
            finding="x" * (number % 2),
        )  # fmt: skip
        make_catalog(
            cluster=cluster, name=name, package_count=number % 5,
            changed_at=now if number % 3 else None,
        )  # fmt: skip
        make_action(
            cluster, name, user=user if number % 3 else None,
            state="succeeded" if number % 2 else "pending",
            finished_at=now + timedelta(seconds=number) if number % 2 else None,
        )  # fmt: skip
        make_request(cluster, name, user, number)


def make_request(cluster: Cluster, package: str, user: User | None = None, number: int = 0) -> None:
    decided = number % 2 == 1
    InstallRequest.objects.create(
        cluster=cluster, catalog_name="catalog", package=package, version="1.0.0", name=package,
        path="Subscription", reason=("", "a", "b")[number % 3], user=user if number % 3 else None,
        state="declined" if decided else "waiting", decided_by=user if decided else None,
        decided_at=timezone.now() + timedelta(seconds=number) if decided else None,
    )  # fmt: skip


def read_export(client: Client, path: str, **params: Any) -> list[dict[str, str]]:
    answer = client.get(f"{path}export.csv", params)
    assert answer.status_code == 200
    text = b"".join(answer.streaming_content).decode()  # type: ignore[attr-defined]
    return list(csv.DictReader(io.StringIO(text)))


@pytest.mark.parametrize(("path", "sort"), SORTS)
def test_every_column_sorts_its_pages_and_its_export_alike(
    reader: Client, path: str, sort: str
) -> None:
    params: dict[str, Any] = {"sort": sort, "columns": TABLES[path].names}
    params |= {"view": "all"} if path == "/operators/" else {}
    shown: list[str] = []
    for number in (1, 2, 3):
        answer = reader.get(path, params | {"page": str(number)})
        text = assert_page(answer).text
        assert f"{(number - 1) * PAGE_SIZE + 1} to {number * PAGE_SIZE} of {ROWS}" in text
        heads = re.findall(r'aria-sort="(\w+)"', answer.content.decode())
        assert heads == ["descending" if sort.startswith("-") else "ascending"]
        body = answer.content.decode().partition("<tbody>")[2].partition("</tbody>")[0]
        shown += dict.fromkeys(re.findall(r"row-\d\d", body))
    assert sorted(shown) == [f"row-{number:02}" for number in range(ROWS)]
    assert [row["name"] for row in read_export(reader, path, **params)] == shown


@pytest.mark.parametrize("path", TABLES)
def test_an_export_has_the_shown_columns_without_formulas(
    reader: Client, prod: Cluster, path: str
) -> None:
    make_operator(cluster=prod, name="=cmd()")
    make_clusteroperator(prod, "=cmd()")
    make_crd(cluster=prod, name="=cmd()")
    make_catalog(cluster=prod, name="=cmd()")
    make_action(prod, "=cmd()", state="failed")
    make_request(prod, "=cmd()")
    table = TABLES[path]
    rows = read_export(reader, path, columns=table.columns[0].name)
    assert len(rows) == ROWS + 1
    assert list(rows[0]) == list(table.columns[0].exported or ("name",))
    assert "'=cmd()" in [row["name"] for row in rows]
    assert reader.get(f"{path}export.csv", {"sort": "colour"}).status_code == 400


@pytest.mark.parametrize("path", TABLES)
def test_columns_are_chosen_and_remembered_for_each_list(
    reader: Client, bob: User, path: str
) -> None:
    table: Table = TABLES[path]
    chosen = [table.columns[0].name, table.columns[-1].name]
    params = "view=all" if path == "/operators/" else "sort=" + table.sorted_by
    answer = reader.post(f"{path}columns?{params}", {"columns": chosen})
    assert answer["Location"] == (f"{path}?{params}&columns={chosen[0]}&columns={chosen[1]}")
    assert Preferences.objects.get(user=bob).columns == {table.name: chosen}
    text = reader.get(f"{path}?{params}").content.decode()
    head = text[text.index("<thead>") : text.index("</thead>")]
    assert head.count("<th ") == len(chosen)
    assert text.count("<td data-label") + text.count("<td class=") <= 2 * PAGE_SIZE


@pytest.mark.parametrize("path", [*TABLES, "/software/", "/software/?view=table"])
def test_a_list_costs_at_most_twelve_queries_and_60_kb(
    olivia: User, prod: Cluster, path: str, django_assert_max_num_queries: Any
) -> None:
    make_failing_world(prod, modes=30, webhooks=30)
    catalog = make_catalog(cluster=prod, name="catalog")
    for name in range(30):
        make_package(
            catalog=catalog, name=f"package-{name}", display_name="A package with a long name"
        )
    writer = Client()
    writer.force_login(olivia)
    address = f"{path}?view=all" if path == "/operators/" else path
    with django_assert_max_num_queries(12):
        response = writer.get(address)
    assert len(response.content) <= 60_000
