"""The view of a list that a person used last: where it is stored, when it is shown, how it ends."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from olmweb.models import Cluster
from tests.factories import make_operator, make_package
from tests.worlds.html import assert_page

pytestmark = pytest.mark.django_db
LISTS = {
    "/operators/": "view=all&health=Failed&sort=-name&columns=name&columns=channel",
    "/cluster-operators/": "state=degraded",
    "/crds/": "show=problems&sort=owner",
    "/catalogs/": "sort=-packages",
    "/software/": "view=table",
    "/activity/": "show=actions&state=failed",
    "/activity/requests/": "state=declined",
    "/readiness/": "q=etcd",
    "/readiness/olm-v1/": "q=etcd",
}


@pytest.mark.parametrize("path", LISTS)
def test_a_list_without_a_query_leads_to_the_view_used_last(
    reader: Client, prod: Cluster, path: str
) -> None:
    assert reader.get(path).status_code == 200, "nothing is remembered yet"
    assert reader.get(f"{path}?{LISTS[path]}&page=1").status_code == 200
    answer = reader.get(path)
    assert (answer.status_code, answer["Location"]) == (302, f"{path}?{LISTS[path]}")
    assert_page(reader.get(answer["Location"]))
    assert reader.get(path)["Location"] == f"{path}?{LISTS[path]}", "shown again, stored again"


def test_a_list_that_opens_filtered_says_so_until_it_is_cleared(
    reader: Client, prod: Cluster, time_machine: Any
) -> None:
    make_operator(cluster=prod)
    now = timezone.now()
    time_machine.move_to(now - timedelta(minutes=11))
    reader.get("/operators/?view=all&q=nothing")
    time_machine.move_to(now)
    page = assert_page(reader.get("/operators/", follow=True))
    assert "This list opened with the filters that you used last. Clear filters" in page.text
    assert "/operators/?filters=none" in page.links
    changed = assert_page(reader.get("/operators/?view=all&q=other"))
    assert "This list opened" not in changed.text, "without JavaScript"
    again = assert_page(reader.get("/operators/?view=all&q=nothing"))
    assert "This list opened" not in again.text, "the person filtered it"
    page = assert_page(reader.get("/operators/?filters=none", follow=True))
    assert "This list opened" not in page.text


def test_a_list_that_was_filtered_a_minute_ago_does_not_say_so(
    reader: Client, prod: Cluster, time_machine: Any
) -> None:
    now = timezone.now()
    time_machine.move_to(now - timedelta(minutes=1))
    reader.get("/operators/?view=all&q=nothing")
    time_machine.move_to(now)
    opened = reader.get("/operators/", follow=True)
    assert opened.redirect_chain
    assert "This list opened" not in assert_page(opened).text


@pytest.mark.parametrize(
    "view", ["/operators/?view=all&sort=-name&columns=name", "/activity/?show=syncs"]
)
def test_a_list_that_opens_whole_says_nothing(reader: Client, prod: Cluster, view: str) -> None:
    reader.get(view)
    opened = reader.get(view.partition("?")[0], follow=True)
    assert opened.redirect_chain
    assert "This list opened" not in assert_page(opened).text


def test_lists_below_another_list_have_a_view_of_their_own(reader: Client, prod: Cluster) -> None:
    reader.get("/activity/?show=syncs")
    assert reader.get("/activity/requests/").status_code == 200


def test_cleared_filters_stay_clear(reader: Client, prod: Cluster) -> None:
    make_operator(cluster=prod)
    page = assert_page(reader.get("/operators/", {"view": "all", "q": "nothing"}))
    assert "?filters=none" in page.links
    answer = reader.get("/operators/?filters=none")
    assert (answer.status_code, answer["Location"]) == (302, "/operators/")
    assert reader.get("/operators/").status_code == 200


def test_removing_the_last_filter_of_a_list_clears_it(reader: Client, prod: Cluster) -> None:
    make_package(name="etcd")
    for path, query in (("/crds/", "q=etcd"), ("/software/", "view=table")):
        page = assert_page(reader.get(f"{path}?{query}"))
        assert "?filters=none" in page.links
    reader.get("/crds/?filters=none")
    assert reader.get("/crds/").status_code == 200
    answer = reader.post("/crds/columns?filters=none", {"columns": ["name"]})
    assert answer["Location"] == "/crds/?columns=name"


def test_a_refused_query_is_not_remembered(reader: Client, prod: Cluster) -> None:
    assert reader.get("/operators/?health=Sick").status_code == 400
    assert reader.get("/operators/").status_code == 200


def test_a_remembered_view_that_is_refused_by_now_is_shown_once_only(
    reader: Client, bob: User
) -> None:
    reader.cookies["olmweb_view_crds"] = f"{bob.pk}:sort=colour"
    assert reader.get("/crds/", follow=True).status_code == 400
    assert reader.get("/crds/").status_code == 200


def test_the_view_is_of_the_person_and_not_of_the_browser(
    reader: Client, olivia: User, prod: Cluster
) -> None:
    reader.get("/crds/?q=etcd")
    reader.force_login(olivia)
    assert reader.get("/crds/").status_code == 200


def test_polls_and_visitors_store_nothing(reader: Client, public: None, prod: Cluster) -> None:
    assert not reader.get("/crds/?q=etcd&rev=x", headers={"HX-Request": "true"}).cookies
    visitor = Client()
    assert not visitor.get("/crds/?q=etcd").cookies
    assert visitor.get("/crds/").status_code == 200


def test_a_filter_under_htmx_is_remembered_in_a_cookie_of_the_list(
    reader: Client, bob: User, prod: Cluster
) -> None:
    answer = reader.get("/crds/?q=etcd&cluster=", headers={"HX-Request": "true"})
    cookie = answer.cookies["olmweb_view_crds"]
    assert re.fullmatch(rf"{bob.pk}\.\d+:q=etcd", cookie.value)
    assert (cookie["path"], cookie["httponly"], cookie["samesite"]) == ("/crds/", True, "Lax")
    emptied = reader.get("/crds/?q=&cluster=", headers={"HX-Request": "true"})
    assert emptied.cookies["olmweb_view_crds"].value == ""
