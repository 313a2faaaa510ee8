"""API tokens: bounded in number and time, and capped by the last sign-in of the account."""

from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.contrib.auth.models import Group, User
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from olmweb.accounts.api_tokens import token_of
from olmweb.errors import OlmwebError
from olmweb.models import ApiToken, OidcIdentity
from tests.factories import make_cluster

pytestmark = pytest.mark.django_db


def read(token: str) -> Any:
    return Client().get("/api/v1/clusters", headers={"Authorization": f"Bearer {token}"})


def code_of(answer: Any) -> str:
    assert answer.status_code == 401, answer.content
    return str(answer.json()["error"]["code"])


@pytest.fixture
def oidc_user(bob: User) -> User:
    """Bob, who signs in at the provider and did so just now."""
    OidcIdentity.objects.create(user=bob, issuer="https://idp.example", subject="b")
    bob.last_login = timezone.now()
    bob.save()
    return bob


def test_a_token_of_the_provider_s_account_ends_some_time_after_its_last_sign_in(
    oidc_user: User, settings: Any
) -> None:
    token, _row = ApiToken.issue(oidc_user.pk, "read", days=365)
    assert read(token).status_code == 200
    User.objects.update(last_login=timezone.now() - timedelta(days=31))
    answer = read(token)
    assert code_of(answer) == "sign-in-over"
    assert "The last sign-in of bob is too long ago" in answer.json()["error"]["message"]
    settings.OIDC_MAX_AGE = 40 * 86400
    assert read(token).status_code == 200
    User.objects.update(last_login=None)
    assert code_of(read(token)) == "sign-in-over"


def test_a_token_of_a_local_account_does_not_depend_on_a_sign_in(bob: User) -> None:
    token, _row = ApiToken.issue(bob.pk, "read")
    assert bob.last_login is None
    assert read(token).status_code == 200
    assert django_settings.OIDC_MAX_AGE == 30 * 86400


def test_a_token_is_read_with_its_account_and_sign_in_by_one_query(
    oidc_user: User, django_assert_num_queries: Any
) -> None:
    token, _row = ApiToken.issue(oidc_user.pk, "read")
    token_of(f"Bearer {token}")  # writes the day of its last use
    with django_assert_num_queries(1):
        token_of(f"Bearer {token}")


@pytest.mark.parametrize("expires_at", [None, timezone.now() + timedelta(days=5000)])
def test_no_token_is_valid_for_more_than_a_year(bob: User, expires_at: Any) -> None:
    token, row = ApiToken.issue(bob.pk, "read", days=365)
    ApiToken.objects.update(expires_at=expires_at)
    assert read(token).status_code == 200
    ApiToken.objects.update(created_at=timezone.now() - timedelta(days=366))
    assert code_of(read(token)) == "token-expired"
    for days in (0, -1, 366, 10**9):
        with pytest.raises(OlmwebError, match="valid for 1 to 365 days"):
            ApiToken.issue(bob.pk, "read", days=days)
    assert ApiToken.objects.get() == row


def test_a_user_has_a_bounded_number_of_valid_tokens(bob: User, olivia: User) -> None:
    for _ in range(ApiToken.MAX_COUNT):
        ApiToken.issue(bob.pk, "read")
    with pytest.raises(CommandError, match="The user has 20 valid tokens already"):
        call_command("apitoken", "bob", "--scope", "read")
    ApiToken.issue(olivia.pk, "read")
    first = ApiToken.objects.filter(user=bob).order_by("pk")[:1]
    ApiToken.objects.filter(pk__in=[row.pk for row in first]).update(
        expires_at=timezone.now() - timedelta(seconds=1)
    )
    ApiToken.issue(bob.pk, "read")  # one that has expired does not count


def test_a_token_that_acts_needs_the_present_role_of_its_user(olivia: User) -> None:
    make_cluster()
    token, _row = ApiToken.issue(olivia.pk, "act")
    body = {"cluster": "prod", "verb": "retry", "name": "nope"}

    def act() -> Any:
        headers = {"Authorization": f"Bearer {token}"}
        return Client().post(
            "/api/v1/actions", body, content_type="application/json", headers=headers
        )

    assert act().status_code == 404, "the role allows it; there is no such operator"
    olivia.groups.set([Group.objects.get_or_create(name="olmweb-viewers")[0]])
    answer = act()
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "not-allowed")
