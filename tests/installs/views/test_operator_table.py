"""The columns of the operators table: what they show, how they sort, which are shown."""

import csv
import io
import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from catalogs.models import Icon
from installs.actions.buttons import rights_of
from installs.diagnosis.entries import by_id
from installs.models import AccessAnswer, Component, Operator
from installs.queries.operator_table import OPERATORS
from olmweb.models import Cluster, Preferences
from olmweb.web.pagination import PAGE_SIZE
from tests.factories import make_catalog, make_cluster, make_component, make_operator, make_package
from tests.installs.actions.test_permissions import keep, sent  # noqa: F401 - a fixture
from tests.worlds.html import Page, assert_page
from tests.worlds.operators import make_failing_world
from tests.worlds.subscriptions import (
    make_csv,
    make_orphan,
    make_pending_approval,
    make_subscription,
)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("sent")]
URL = "/operators/"
ALL: dict[str, Any] = {"view": "all"}
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
    detail = "/operators/prod/Subscription/openshift-operators/grafana"
    assert "Healthy Needs approval" in assert_page(reader.get(detail)).text
    Component.objects.filter(kind="ClusterServiceVersion", name="grafana.v1.0.0").delete()
    page = assert_page(reader.get(URL, ALL | {"q": "grafana"}))
    assert "Healthy 1.0.0" not in page.text, "nothing says that the installed version runs"
    assert "Needs approval" in page.text
    assert "Healthy" not in assert_page(reader.get(detail)).text


def test_a_first_install_that_waits_needs_approval(reader: Client, prod: Cluster) -> None:
    make_subscription(
        prod, "new", installed="", current="1.0.0", health="NeedsApproval",
        reason="RequiresApproval", details={"approval": "Manual", "plan": "install-new"},
    )  # fmt: skip
    text = assert_page(reader.get(URL, ALL)).text
    assert "Needs approval RequiresApproval – stable Manual" in text


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
        "lost Subscription nowhere Healthy",
        "platform PlatformOperator All Healthy",
        "extension ClusterExtension Healthy",
    ):
        assert row in text
    page = assert_page(reader.get(URL, ALL | {"sort": "managed"}))
    assert names(page) == ["extension", "lost", "platform", "wide", "many", "own"]


def test_a_subscription_without_channel_shows_the_default_one(
    reader: Client, prod: Cluster
) -> None:
    catalog = make_catalog(cluster=prod, name="team")
    make_package(name="etcd", catalog=catalog, channels={"stable-1": ["1.0.0"]})
    make_subscription(prod, "etcd", package="etcd", catalog="team", channel="")
    make_subscription(prod, "other", package="etcd", catalog="elsewhere", channel="")
    text = assert_page(reader.get(URL, ALL)).text
    assert text.count("stable-1 (default)") == 1


def test_what_was_never_installed_has_neither_a_version_nor_managed_namespaces(
    reader: Client, prod: Cluster
) -> None:
    finding = next(entry.id for entry in by_id().values() if entry.installs_nothing)
    failed: dict[str, Any] = {
        "cluster": prod,
        "health": "Failed",
        "finding": finding,
        "version": "2.6.2",
    }
    make_operator(name="platform", **failed)
    make_operator(kind="ClusterServiceVersion", namespace="apps", name="orphan.v2.6.2", **failed)
    rows = {row["name"]: row for row in exported(reader, view="all")}
    assert (rows["platform"]["version"], rows["platform"]["managed_namespaces"]) == ("", "")
    assert rows["orphan.v2.6.2"]["version"] == "2.6.2", "a kind that no method installs"
    page = assert_page(reader.get(URL, ALL | {"q": "platform"}))
    assert "2.6.2" not in page.text
    page = assert_page(reader.get("/operators/prod/PlatformOperator/-/platform"))
    assert "Version – (2.6.2 is not installed)" in page.text


def test_the_version_of_a_first_installplan_is_not_installed(reader: Client, prod: Cluster) -> None:
    make_subscription(prod, "first", namespace="apps", installed="", health="NeedsApproval")
    (row,) = exported(reader, view="all")
    assert row["version"] == ""
    page = assert_page(reader.get("/operators/prod/Subscription/apps/first"))
    assert "Version – (1.0.0 is not installed)" in page.text


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
    for number in range(PAGE_SIZE + 10):
        namespace = f"ns-{number % 3}"
        make_subscription(
            prod, f"op-{number:02}", namespace=namespace, channel=("a", "b", "")[number % 3],
            details={"approval": ("Manual", "", "Automatic")[number % 3]},
        )  # fmt: skip
    make_group(prod, "ns-0", "")
    make_group(prod, "ns-1", "ns-1")
    first = assert_page(reader.get(URL, ALL | {"sort": sort}))
    following = [link for link in first.links if "page=2" in link]
    second = assert_page(reader.get(URL + following[0]))
    seen = [*names(first), *names(second)]
    assert len(seen) == PAGE_SIZE + 10
    assert sorted(seen) == sorted(set(seen))
    if sort == "approval":
        assert [int(name[3:]) % 3 for name in seen[-10:]] == [0] * 10, "Manual comes last"


def test_the_table_costs_at_most_twelve_queries(
    reader: Client, olivia: User, prod: Cluster, django_assert_max_num_queries: Any
) -> None:
    make_failing_world(prod, modes=20, webhooks=10)
    make_pending_approval(prod)
    make_orphan(prod)
    make_csv(make_subscription(prod, "etcd"))
    writer = Client()
    writer.force_login(olivia)
    for right in rights_of("remove", "PlatformOperator"):
        keep(olivia, prod, right, allowed=False, age=5)
    for client, most in ((reader, 10), (writer, 12)):
        for sort in ("", "managed"):
            with django_assert_max_num_queries(most):
                client.get(URL, ALL | {"sort": sort})


# --- which columns -----------------------------------------------------------------------------


def test_columns_of_the_address_are_shown_and_survive_sorts_and_filters(
    reader: Client, prod: Cluster
) -> None:
    make_operator(cluster=prod)
    chosen: dict[str, Any] = {"columns": ["version", "path"]}
    assert [words for words, _ in heads(reader, **chosen)] == ["Name", "Install method", "Version"]
    page = assert_page(reader.get(URL, ALL | chosen))
    assert "?view=all&columns=version&columns=path&sort=version" in page.links
    text = reader.get(URL, ALL | chosen).content.decode()
    assert '<input type="hidden" name="columns" value="path">' in text
    refused = assert_page(reader.get(URL, ALL | {"columns": "colour"}), 400)
    assert "columns=colour is no column; use one of: name, cluster" in refused.text


def test_the_chosen_columns_are_remembered_for_the_person(
    reader: Client, bob: User, olivia: User, prod: Cluster
) -> None:
    make_operator(cluster=prod)
    answer = reader.post(
        "/operators/columns?view=all&q=etcd&sort=-name", {"columns": ["name", "channel"]}
    )
    assert answer.status_code == 302
    assert answer["Location"] == (
        "/operators/?view=all&q=etcd&sort=-name&columns=name&columns=channel"
    )
    assert [words for words, _ in heads(reader)] == ["Name", "Channel"], "without the address"
    assert "Version" in dict(heads(reader, columns="version")), "the address comes first"
    reader.post("/account/", {"theme": "dark", "density": "compact", "time_zone": "UTC"})
    assert Preferences.objects.get(user=bob).columns == {"operators": ["name", "channel"]}
    other = Client()
    other.force_login(olivia)
    assert "Version" in dict(heads(other))


@pytest.mark.parametrize("stored", [[], {"operators": 3}, {"operators": ["gone", 4]}, "x"])
def test_odd_stored_columns_show_a_table(
    reader: Client, bob: User, prod: Cluster, stored: Any
) -> None:
    make_operator(cluster=prod)
    Preferences.objects.create(user=bob, columns=stored)
    assert heads(reader)[0] == ("Name", "")


def test_unknown_columns_are_not_remembered(reader: Client) -> None:
    assert reader.post("/operators/columns", {"columns": ["colour"]}).status_code == 400
    assert not Preferences.objects.exists()
    assert reader.get("/operators/columns").status_code == 405


def test_a_visitor_chooses_columns_in_the_address(public: None, prod: Cluster) -> None:
    make_operator(cluster=prod)
    text = Client().get(URL, ALL | {"q": "etcd", "columns": "version"}).content.decode()
    form = text[text.index('id="columns"') :]
    form = form[: form.index("</form>")]
    assert 'method="get"' in form
    assert '<input type="hidden" name="q" value="etcd">' in form
    assert re.search(r'value="version"\s+checked', form)
    assert not re.search(r'value="channel"\s+checked', form)


# --- the menu of a row -------------------------------------------------------------------------


def menu(client: Client, name: str) -> dict[str, str]:
    """Words -> address of the menu of the row of the operator."""
    text = client.get(URL, ALL | {"q": name}).content.decode()
    found = re.search(rf'aria-label="Actions for {name}".*?</details>', text, re.DOTALL)
    entries = re.findall(r'<a href="([^"]*)">([^<]*)</a>', found[0]) if found else []
    return {words: url for url, words in entries}


def test_the_menu_of_a_row_has_what_its_state_allows(olivia: User, prod: Cluster) -> None:
    writer = Client()
    writer.force_login(olivia)
    make_pending_approval(prod)
    make_orphan(prod)
    make_operator(cluster=prod, name="broken", health="Failed")
    make_subscription(prod, "fine", namespace="apps")
    make_subscription(
        prod, "first", namespace="apps", installed="", health="NeedsApproval",
        details={"plan": "install-first", "plan_namespace": "apps"},
    )  # fmt: skip
    fine = "/operators/prod/Subscription/apps/fine"
    change = "Change channel or approval"
    assert menu(writer, "fine") == {change: f"{fine}/upgrade", "Remove": f"{fine}/remove"}
    Operator.objects.filter(name="fine").update(upgrade="9.0.0")
    assert menu(writer, "fine") == {"Upgrade": f"{fine}/upgrade", "Remove": f"{fine}/remove"}
    assert list(menu(writer, "broken")) == ["Retry", "Remove"]
    assert list(menu(writer, "first")) == ["Approve", "Remove"]
    assert menu(writer, "first")["Approve"] == "/installplans/prod/apps/install-first/approve"
    assert list(menu(writer, "grafana")) == ["Approve", "Upgrade", "Remove"]
    assert menu(writer, "mongodb.v0.3.0") == {}, "nothing that OLM Web can change"


def test_the_menu_leaves_out_what_the_cluster_refuses_the_person(
    olivia: User, prod: Cluster
) -> None:
    writer = Client()
    writer.force_login(olivia)
    make_subscription(prod, "fine", namespace="apps")
    make_subscription(prod, "other", namespace="free")
    change = "Change channel or approval"
    for right in rights_of("remove", "Subscription", "apps"):
        keep(olivia, prod, right, allowed=False, age=5)
    assert list(menu(writer, "fine")) == [change]
    assert list(menu(writer, "other")) == [change, "Remove"]
    AccessAnswer.objects.update(checked_at=timezone.now() - timedelta(hours=2))
    assert list(menu(writer, "fine")) == [change, "Remove"], "an old answer says nothing"


def test_people_who_may_not_act_have_no_menu(reader: Client, prod: Cluster) -> None:
    make_subscription(prod, "fine")
    text = reader.get(URL, ALL).content.decode()
    assert "Actions for" not in text
    assert ">Actions<" not in text


# --- export ------------------------------------------------------------------------------------


def exported(client: Client, **params: Any) -> list[dict[str, str]]:
    answer = client.get("/operators/export.csv", params)
    assert answer.status_code == 200
    assert answer["Content-Disposition"] == 'attachment; filename="operators.csv"'
    text = b"".join(answer.streaming_content).decode()  # type: ignore[attr-defined]
    return list(csv.DictReader(io.StringIO(text)))


def test_the_export_has_the_rows_columns_and_order_of_the_page(
    reader: Client, prod: Cluster
) -> None:
    make_pending_approval(prod)
    for number in range(60):
        make_operator(cluster=prod, name=f"op-{number:02}", namespace="")
    make_operator(cluster=prod, name="=cmd()", health="Failed", message="=1+1")
    rows = exported(reader, sort="-name", q="op-")
    assert [row["name"] for row in rows] == [f"op-{number:02}" for number in reversed(range(60))]
    row = exported(reader, q="grafana", view="all")[0]
    assert (row["status"], row["version"], row["upgrade"]) == ("Healthy", "1.0.0", "1.1.0")
    assert row["approval"] == "Manual"
    assert list(exported(reader, columns=["version"])[0]) == [
        *("name", "package", "version", "upgrade"),
    ]
    assert exported(reader, health="Failed")[0]["name"] == "'=cmd()", "no formula"
    assert exported(reader, q="nothing") == []
    assert reader.get("/operators/export.csv", {"health": "Sick"}).status_code == 400
    page = assert_page(reader.get(URL, ALL | {"q": "op-", "sort": "-name"}))
    assert "/operators/export.csv?view=all&q=op-&sort=-name" in page.links
