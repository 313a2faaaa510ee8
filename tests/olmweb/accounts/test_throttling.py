"""Wrong passwords and tokens are refused for a while, by account and by address."""

from datetime import timedelta
from typing import Any

import pytest
from axes.models import AccessAttempt
from django.contrib.auth.models import User
from django.core.cache import cache
from django.core.management import call_command
from django.test import Client
from django.utils import timezone

from tests.worlds.html import assert_page

pytestmark = pytest.mark.django_db
PASSWORD = "correct-horse-battery"


@pytest.fixture
def mia() -> User:
    return User.objects.create_user("mia", password=PASSWORD)


def post(name: str, password: str, address: str = "192.0.2.1", path: str = "/login/") -> Any:
    return Client(REMOTE_ADDR=address).post(path, {"username": name, "password": password})


def fail(name: str, times: int, address: str = "192.0.2.1") -> list[int]:
    return [post(name, f"wrong-{i}", address).status_code for i in range(times)]


@pytest.mark.parametrize("name", ["mia", "nobody"])
def test_the_sixth_sign_in_of_an_account_from_an_address_is_refused(mia: User, name: str) -> None:
    assert fail(name, 4) == [200] * 4
    assert fail(name, 1) == [429]
    page = assert_page(post(name, PASSWORD), 429)
    assert "Too many failed sign-ins" in page.text
    assert "15 minutes" in page.text


def test_a_locked_account_locks_neither_the_address_nor_the_account_elsewhere(mia: User) -> None:
    User.objects.create_user("noa", password=PASSWORD)
    fail("mia", 5)
    assert post("noa", PASSWORD).status_code == 302
    assert post("mia", PASSWORD, "192.0.2.2").status_code == 302
    assert post("mia", PASSWORD).status_code == 429, "a success elsewhere does not unlock"


def test_a_success_resets_the_count_of_the_pair(mia: User) -> None:
    for _ in range(3):
        assert fail("mia", 4) == [200] * 4
        assert post("mia", PASSWORD).status_code == 302


def test_one_address_fails_for_fifty_accounts_at_most(mia: User) -> None:
    statuses = [fail(f"guess-{i}", 1)[0] for i in range(60)]
    assert statuses == [200] * 49 + [429] * 11
    assert AccessAttempt.objects.count() == 50, "refused attempts write nothing"
    assert post("mia", PASSWORD).status_code == 429
    assert post("mia", PASSWORD, "192.0.2.2").status_code == 302


def test_a_success_does_not_give_the_address_more_guesses(mia: User) -> None:
    for i in range(49):
        fail(f"guess-{i}", 1)
    assert post("mia", PASSWORD).status_code == 302
    assert fail("guess-x", 1) == [429]


def test_many_addresses_fail_a_hundred_times_for_an_account_at_most(mia: User) -> None:
    for i in range(25):
        fail("mia", 4, f"198.51.100.{i}")
    assert post("mia", PASSWORD).status_code == 429


def test_the_addresses_of_one_ipv6_network_count_as_one(mia: User) -> None:
    for i in range(5):
        fail("mia", 1, f"2001:db8:0:1:{i:x}::{i + 1:x}")
    assert post("mia", PASSWORD, "2001:db8:0:1::ffff").status_code == 429
    assert post("mia", PASSWORD, "2001:db8:0:2::1").status_code == 302
    call_command("axes_reset_ip", "2001:db8:0:1::7")
    assert post("mia", PASSWORD, "2001:db8:0:1::ffff").status_code == 302


def test_ipv4_addresses_written_as_ipv6_stay_apart(mia: User) -> None:
    fail("mia", 5, "::ffff:192.0.2.1")
    assert post("mia", PASSWORD, "192.0.2.1").status_code == 429
    assert post("mia", PASSWORD, "::ffff:192.0.2.2").status_code == 302


def test_a_lock_ends_by_itself_and_by_command(mia: User) -> None:
    fail("mia", 5)
    AccessAttempt.objects.update(attempt_time=timezone.now() - timedelta(minutes=16))
    assert post("mia", PASSWORD).status_code == 302
    fail("mia", 5)
    call_command("axes_reset_username", "mia")
    assert post("mia", PASSWORD).status_code == 302


def test_passwords_are_not_stored_with_the_attempts(mia: User) -> None:
    post("mia", "hunter2-hunter2")
    assert "hunter2" not in AccessAttempt.objects.get().post_data


def test_the_admin_site_signs_in_on_the_same_page(admin_user: User, mia: User) -> None:
    client = Client()
    assert client.get("/admin/login/?next=/admin/")["Location"].startswith("/login/?next=/admin/")
    assert client.post("/admin/login/", {"username": "a", "password": "b"}).status_code == 302
    client.force_login(mia)
    assert_page(client.get("/admin/", follow=True), 403)
    client.force_login(admin_user)
    assert client.get("/admin/login/")["Location"] == "/admin/"


def test_wrong_tokens_of_an_address_are_refused_without_a_query(
    client: Client, django_assert_num_queries: Any
) -> None:
    cache.clear()
    header = {"Authorization": "Bearer olmweb_wrong"}
    statuses = {client.get("/api/v1/status", headers=header).status_code for _ in range(60)}
    assert statuses == {401}
    with django_assert_num_queries(0):
        answer = client.get("/api/v1/status", headers=header)
    assert answer.status_code == 429
    other = Client(REMOTE_ADDR="192.0.2.9")
    assert other.get("/api/v1/status", headers=header).status_code == 401
    cache.clear()


def test_wrong_tokens_of_one_ipv6_network_are_counted_together() -> None:
    cache.clear()
    header = {"Authorization": "Bearer olmweb_wrong"}
    for i in range(60):
        client = Client(REMOTE_ADDR=f"2001:db8:0:1::{i + 1:x}")
        assert client.get("/api/v1/status", headers=header).status_code == 401
    client = Client(REMOTE_ADDR="2001:db8:0:1::abcd")
    assert client.get("/api/v1/status", headers=header).status_code == 429
    client = Client(REMOTE_ADDR="2001:db8:0:2::1")
    assert client.get("/api/v1/status", headers=header).status_code == 401
    cache.clear()
