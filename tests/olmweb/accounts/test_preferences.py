"""The preferences of an account: saved once, kept for all its sessions, seen on every page."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from olmweb.models import ApiToken, Preferences
from tests.factories import make_catalog, make_cluster, make_package
from tests.worlds.html import assert_page

pytestmark = pytest.mark.django_db

URL = "/account/"
FORM = {"theme": "dark", "density": "compact", "time_zone": "Europe/Berlin", "cluster": ""}
SINCE = datetime(2026, 7, 1, 22, 30, tzinfo=UTC)


def save(client: Client, **changes: str) -> None:
    assert client.post(URL, FORM | changes).status_code == 302


def root(client: Client, path: str = "/activity/") -> str:
    """The start tag of the document."""
    match = re.search(r"<html[^>]*>", client.get(path).content.decode())
    assert match
    return match[0]


def test_a_row_is_made_at_the_first_save_only(reader: Client, bob: User) -> None:
    assert_page(reader.get(URL))
    reader.get("/")
    assert not Preferences.objects.exists()
    answer = reader.post(URL, FORM, follow=True)
    assert answer.redirect_chain == [(URL, 302)]
    page = assert_page(answer)
    assert "Preferences saved" in page.text
    save(reader, theme="light")
    row = Preferences.objects.get()
    assert (row.user, row.theme, row.density, row.time_zone) == (
        bob, "light", "compact", "Europe/Berlin",
    )  # fmt: skip
    text = reader.get(URL).content.decode()
    for chosen in ("light", "compact", "Europe/Berlin"):
        assert f'<option value="{chosen}" selected>' in text


def test_preferences_are_those_of_the_account_in_every_session(
    reader: Client, bob: User, alice: User
) -> None:
    other, of_alice = Client(), Client()
    other.force_login(bob)
    of_alice.force_login(alice)
    assert "olm-compact" not in root(other)
    save(reader)
    assert "olm-compact" in root(other)
    assert "pf-v6-theme-dark" in root(other)
    assert "olm-compact" not in root(of_alice)
    assert "theme" not in root(of_alice)


@pytest.mark.parametrize(
    ("theme", "classes"),
    [("dark", {"pf-v6-theme-dark", "olm-theme-set"}), ("light", {"olm-theme-set"}),
     ("system", set())],
)  # fmt: skip
def test_the_server_sets_the_theme_so_that_the_first_paint_has_it(
    reader: Client, theme: str, classes: set[str]
) -> None:
    save(reader, theme=theme, density="comfortable")
    start = root(reader)
    match = re.search(r'class="([^"]*)"', start)
    assert set(match[1].split() if match else ()) == classes
    # The button of the masthead is for those who left the theme to the system.
    assert ("data-theme-toggle" in reader.get(URL).content.decode()) is (theme == "system")


def test_visitors_without_an_account_have_the_defaults(client: Client, settings: Any) -> None:
    settings.PUBLIC_READ = True
    client.cookies["olmweb_zone"] = "Europe/Berlin"
    make_cluster(name="prod", reachable=False, synced_at=SINCE)
    assert root(client) == '<html lang="en">'
    assert "2026-07-01 22:30 UTC" in assert_page(client.get("/activity/")).text
    assert client.get(URL)["Location"].startswith("/login/?next=/account/")


@pytest.mark.parametrize(
    ("zone", "cookie", "shown"),
    [("Europe/Berlin", "", "2026-07-02 00:30 CEST"), ("UTC", "Asia/Tokyo", "2026-07-01 22:30 UTC"),
     ("browser", "Asia/Tokyo", "2026-07-02 07:30 JST"), ("browser", "", "2026-07-01 22:30 UTC"),
     ("browser", "../../etc/passwd", "2026-07-01 22:30 UTC"),
     ("browser", "x" * 3000, "2026-07-01 22:30 UTC")],
)  # fmt: skip
def test_absolute_times_follow_the_time_zone(
    reader: Client, zone: str, cookie: str, shown: str
) -> None:
    make_cluster(name="prod", reachable=False, synced_at=SINCE)
    save(reader, time_zone=zone)
    if cookie:
        reader.cookies["olmweb_zone"] = cookie
    assert shown in assert_page(reader.get("/activity/")).text
    assert shown in assert_page(reader.get("/clusters/prod")).text
    assert ('data-zone="browser"' in root(reader)) is (zone == "browser")
    assert timezone.get_current_timezone_name() == "UTC", "the next request begins anew"


def test_rest_and_the_admin_keep_utc(client: Client, alice: User) -> None:
    client.force_login(alice)
    make_cluster(name="prod", synced_at=SINCE)
    save(client)
    answer = client.get("/api/v1/clusters").json()["items"][0]
    assert answer["synced_at"].startswith("2026-07-01T22:30")
    assert "2026-07-01 22:30:00 UTC" in client.get("/admin/olmweb/cluster/").content.decode()


@pytest.mark.parametrize(
    ("field", "value"),
    [("theme", "pink"), ("theme", ""), ("density", "x" * 5000), ("time_zone", "Mars/Olympus"),
     ("time_zone", "localtime"), ("cluster", "nope")],
)  # fmt: skip
def test_a_value_that_is_not_offered_is_told_at_its_field(
    reader: Client, field: str, value: str
) -> None:
    response = reader.post(URL, FORM | {field: value})
    assert "Choose one of the" in assert_page(response, 422).text
    assert f'id="field-{field}-error"' in response.content.decode()
    assert not Preferences.objects.exists()


def test_the_navigation_leads_to_the_default_cluster(reader: Client) -> None:
    for name in ("dev", "prod east"):
        make_cluster(name=name)
    assert "/operators/" in assert_page(reader.get("/activity/")).links
    save(reader, cluster="prod east")
    page = assert_page(reader.get("/operators/"))
    paths = ("/", "/operators/", "/cluster-operators/", "/readiness/", "/crds/")
    for path in paths:
        assert f"{path}?cluster=prod%20east" in page.links
        assert_page(reader.get(path, {"cluster": "prod east"}))
    assert '<option value="prod east" selected>' in reader.get(URL).content.decode()
    nav = reader.get("/cluster-operators/", follow=True).content.decode()
    assert nav.count('aria-current="page"') == 1


def test_a_default_cluster_that_is_no_longer_configured_is_left_out(reader: Client) -> None:
    cluster = make_cluster(name="old")
    save(reader, cluster="old")
    cluster.delete()
    assert "cluster=old" not in " ".join(assert_page(reader.get("/activity/")).links)
    assert_page(reader.get(URL))


def test_a_catalog_without_a_cluster_is_shown_for_the_default_cluster(reader: Client) -> None:
    for name in ("dev", "prod"):
        make_cluster(name=name)
    make_package(catalog=make_catalog(name="mine"), name="etcd")
    url = "/software/-/mine/etcd"
    assert "From the catalog alone, for no cluster" in assert_page(reader.get(url)).text
    save(reader, cluster="prod")
    assert "On cluster prod" in assert_page(reader.get(url)).text
    assert (
        "From the catalog alone, for no cluster"
        in assert_page(reader.get(url, {"cluster": "-"})).text
    )
    assert "On cluster dev" in assert_page(reader.get(url, {"cluster": "dev"})).text


def test_preferences_cost_no_query_of_their_own(
    reader: Client, django_assert_num_queries: Any
) -> None:
    for number in range(3):
        make_cluster(name=f"c{number}")
    save(reader, cluster="c1")
    with django_assert_num_queries(3):  # session, user with preferences, clusters
        reader.get("/no/such/page")
    with django_assert_num_queries(3):
        reader.get(URL)


def test_a_disabled_account_is_signed_out(reader: Client, bob: User) -> None:
    save(reader)
    User.objects.filter(pk=bob.pk).update(is_active=False)
    assert reader.get(URL)["Location"].startswith("/login/")


def test_an_account_is_deleted_with_its_preferences(reader: Client, bob: User) -> None:
    save(reader)
    bob.delete()
    assert not Preferences.objects.exists()


def test_the_menu_of_the_person_has_preferences_tokens_help_and_sign_out(reader: Client) -> None:
    page = assert_page(reader.get("/activity/"))
    for link in (URL, "/account/tokens/", "/help/"):
        assert link in page.links
    assert "Sign out" in page.text


def test_help_tells_the_version_the_keys_and_the_rest_api(reader: Client, settings: Any) -> None:
    page = assert_page(reader.get("/help/"))
    assert settings.VERSION in page.text
    assert "/api/v1/docs" in page.links
    assert "Escape" in page.text


def test_a_relative_time_has_the_exact_one_in_the_zone(reader: Client, bob: User) -> None:
    ApiToken.issue(bob.pk, "read", name="job")
    made = timezone.now() - timedelta(minutes=5)
    ApiToken.objects.update(created_at=made)
    save(reader, time_zone="Asia/Tokyo")
    assert " JST" in reader.get("/account/tokens/").content.decode()
