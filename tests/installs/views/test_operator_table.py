"""The columns of the operators table: what they show, how they sort, which are shown."""

import re
from typing import Any

import pytest
from django.test import Client

from catalogs.models import Icon
from installs.models import Component
from installs.queries.operator_table import OPERATORS
from olmweb.models import Cluster
from tests.factories import make_catalog, make_cluster, make_component, make_operator, make_package
from tests.worlds.html import Page, assert_page
from tests.worlds.operators import make_failing_world
from tests.worlds.subscriptions import (
    make_csv,
    make_orphan,
    make_pending_approval,
    make_subscription,
)

pytestmark = pytest.mark.django_db
URL = "/operators/"
ALL = {"view": "all"}
SORTS = [f"{sign}{name}" for name in OPERATORS.names for sign in ("", "-")]


def names(page: Page) -> list[str]:
    """Names of the operators that the page links to, in order."""
    found = [
        link.rsplit("/", 1)[1]
        for link in page.links
        if re.fullmatch(r"/operators/[^/]+/[^/]+/[^/]+/[^/]+", link)
    ]
    return list(dict.fromkeys(found))


def heads(client: Client, **params: Any) -> list[tuple[str, str]]:
    """(words, `aria-sort`) of the heads of the table."""
    text = client.get(URL, ALL | params).content.decode()
    head = text[text.index("<thead>") : text.index("</thead>")]
    cells = re.findall(r'<th scope="col"(?: aria-sort="(\w+)")?>(.*?)</th>', head, re.DOTALL)
    return [(" ".join(re.sub("<[^>]*>", " ", words).split()), order) for order, words in cells]


def make_group(cluster: Cluster, namespace: str, *targets: str) -> Component:
    return make_component(
        cluster=cluster,
        kind="OperatorGroup",
        namespace=namespace,
        name="group",
        details={"targets": list(targets), "namespaces": list(targets)},
    )


def test_columns_are_those_of_the_console_and_the_sorted_one_says_so(
    reader: Client, prod: Cluster
) -> None:
    make_operator(cluster=prod)
    shown = [
        *("Name", "Namespace", "Managed namespaces", "Status", "Version", "Channel"),
        *("Update approval", "Catalog", "Last updated"),
    ]
    assert [words for words, _ in heads(reader)] == shown
    assert dict(heads(reader))["Status"] == "ascending", "worst first"
    assert [words for words, order in heads(reader) if order] == ["Status"]
    assert dict(heads(reader, sort="-channel"))["Channel"] == "descending"
    page = assert_page(reader.get(URL, ALL | {"sort": "channel"}))
    assert "?view=all&sort=-channel" in page.links
    assert "?view=all&sort=catalog" in page.links
    make_operator(cluster=make_cluster(name="edge"))
    assert "Cluster" in dict(heads(reader)), "only where there are several"


def test_an_update_that_waits_for_approval_is_no_fault_of_the_operator(
    reader: Client, prod: Cluster
) -> None:
    make_pending_approval(prod)
    page = assert_page(reader.get(URL, ALL | {"q": "grafana"}))
    assert "Healthy 1.0.0 1.1.0 needs approval" in page.text
    Component.objects.filter(kind="ClusterServiceVersion", name="grafana.v1.0.0").delete()
    page = assert_page(reader.get(URL, ALL | {"q": "grafana"}))
    assert "Healthy 1.0.0" not in page.text, "nothing says that the installed version runs"
    assert "Needs approval" in page.text


def test_a_first_install_that_waits_needs_approval(reader: Client, prod: Cluster) -> None:
    make_subscription(
        prod, "new", installed="", current="1.0.0", health="NeedsApproval",
        reason="RequiresApproval", details={"approval": "Manual", "plan": "install-new"},
    )  # fmt: skip
    text = assert_page(reader.get(URL, ALL)).text
    assert "Needs approval RequiresApproval 1.0.0 stable Manual" in text


def test_managed_namespaces_are_those_of_the_operator_group(reader: Client, prod: Cluster) -> None:
    make_subscription(prod, "wide", namespace="global")
    make_subscription(prod, "own", namespace="apps")
    make_subscription(prod, "many", namespace="teams")
    make_subscription(prod, "lost", namespace="nowhere")
    make_operator(cluster=prod, name="platform")
    make_operator(cluster=prod, kind="ClusterExtension", name="extension")
    make_group(prod, "global", "")
    make_group(prod, "apps", "apps")
    make_group(prod, "teams", "a", "b", "c", "d", "e")
    make_group(make_cluster(name="edge"), "nowhere", "elsewhere")
    text = assert_page(reader.get(URL, ALL | {"sort": "name", "cluster": "prod"})).text
    for row in (
        "wide Subscription global All Healthy",
        "own Subscription apps apps Healthy",
        "many Subscription teams a b c 2 more Healthy",
        "lost Subscription nowhere – Healthy",
        "platform PlatformOperator – All Healthy",
        "extension ClusterExtension – – Healthy",
    ):
        assert row in text
    page = assert_page(reader.get(URL, ALL | {"sort": "managed"}))
    assert names(page) == ["extension", "lost", "platform", "wide", "many", "own"]


def test_the_icon_is_that_of_its_own_catalog(reader: Client, prod: Cluster) -> None:
    for catalog in ("aaa", "mine"):
        icon = Icon.objects.create(sha256=catalog * 8, media_type="image/png", data=b"x")
        make_package(name="etcd", catalog=make_catalog(cluster=prod, name=catalog), icon=icon)
    make_operator(cluster=prod, catalog="mine")
    text = reader.get(URL, ALL).content.decode()
    assert f'src="/icons/{"mine" * 8}"' in text
    assert f'src="/icons/{"aaa" * 8}"' not in text


@pytest.mark.parametrize(
    "sort", [f"{sign}{name}" for name in OPERATORS.names for sign in ("", "-")]
)
def test_every_column_sorts_and_its_pages_lose_no_row(
    reader: Client, prod: Cluster, sort: str
) -> None:
    for number in range(60):
        namespace = f"ns-{number % 3}"
        make_subscription(
            prod, f"op-{number:02}", namespace=namespace, channel=("a", "b", "")[number % 3],
            details={"approval": ("Manual", "", "Automatic")[number % 3]},
        )  # fmt: skip
    make_group(prod, "ns-0", "")
    make_group(prod, "ns-1", "ns-1")
    first = assert_page(reader.get(URL, ALL | {"sort": sort}))
    following = [link for link in first.links if "cursor=" in link]
    second = assert_page(reader.get(URL + following[0]))
    seen = [*names(first), *names(second)]
    assert len(seen) == 60
    assert sorted(seen) == sorted(set(seen))
    if sort == "approval":
        assert [int(name[3:]) % 3 for name in seen[-20:]] == [0] * 20, "Manual comes last"


def test_the_table_costs_at_most_twelve_queries(
    reader: Client, prod: Cluster, django_assert_max_num_queries: Any
) -> None:
    make_failing_world(prod, modes=20, webhooks=10)
    make_pending_approval(prod)
    make_orphan(prod)
    make_csv(make_subscription(prod, "etcd"))
    for sort in ("", "managed"):
        with django_assert_max_num_queries(9):
            reader.get(URL, ALL | {"sort": sort})
