"""The page of a person's own API tokens: made, shown once, revoked."""

import re
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.core.management import call_command
from django.test import Client
from django.utils import timezone

from olmweb.accounts.api_tokens import token_of
from olmweb.errors import OlmwebError
from olmweb.models import ApiToken, AuditEvent, OidcIdentity
from tests.worlds.html import Page, assert_page

pytestmark = pytest.mark.django_db

URL = "/account/tokens/"
FORM = {"name": "backup job", "scope": "read", "days": "30"}
SECRET = re.compile(r"olmweb_[\w-]{43}")


@pytest.fixture
def operator(client: Client, bob: User) -> Client:
    bob.groups.add(Group.objects.get_or_create(name="olmweb-operators")[0])
    client.force_login(bob)
    return client


def make(client: Client, **changes: str) -> Any:
    return client.post(URL, FORM | changes)


def secrets_of(response: Any) -> set[str]:
    return set(SECRET.findall(response.content.decode()))


def test_a_person_makes_a_named_token_that_works_and_is_shown_once(
    reader: Client, bob: User
) -> None:
    response = make(reader)
    page = assert_page(response)
    (secret,) = secrets_of(response)
    row = ApiToken.objects.get()
    assert (row.user, row.name, row.scope) == (bob, "backup job", "read")
    assert row.ends_at - timezone.now() > timedelta(days=29)
    assert "It is not shown again" in page.text
    assert "no-store" in response["Cache-Control"]
    assert token_of(f"Bearer {secret}") == row
    for again in (reader.get(URL), reader.get(f"{URL}{row.pk}/revoke"), reader.get("/")):
        assert not secrets_of(again)
        assert row.digest not in again.content.decode()


def test_sending_the_form_again_makes_no_second_token(reader: Client) -> None:
    make(reader)
    again = make(reader)
    page = assert_page(again, 422)
    assert "has a valid token with the name backup job" in page.text
    assert not secrets_of(again)
    assert ApiToken.objects.count() == 1
    ApiToken.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert make(reader).status_code == 200, "the name of an expired token is free"


def test_the_list_tells_name_scope_and_times_of_the_own_tokens_alone(
    operator: Client, bob: User, alice: User
) -> None:
    ApiToken.issue(alice.pk, "act", name="of-alice")
    _, used = ApiToken.issue(bob.pk, "act", name="deploys")
    ApiToken.issue(bob.pk, "read")
    _, ended = ApiToken.issue(bob.pk, "read", name="last year")
    today = timezone.now().date()
    ApiToken.objects.filter(pk=used.pk).update(last_used_on=today)
    ApiToken.objects.filter(pk=ended.pk).update(expires_at=timezone.now() - timedelta(days=1))
    page = assert_page(operator.get(URL))
    assert "of-alice" not in page.text
    assert "deploys" in page.text
    assert "Read and act" in page.text
    assert f"{today:%Y-%m-%d}" in page.text
    assert "Not used" in page.text
    assert "Without a name" in page.text
    assert "2 of 20 valid tokens" in page.text
    assert "Expired" in page.text
    assert f"{URL}{used.pk}/revoke" in page.links
    assert f"{URL}{ended.pk}/revoke" not in page.links


def test_a_page_without_tokens_says_what_they_are_for(reader: Client) -> None:
    assert "No API tokens" in assert_page(reader.get(URL)).text


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [("name", "", "Enter a name"), ("name", " \t ", "Enter a name"),
     ("name", "x" * 61, "at most 60 characters"), ("days", "0", "1 to 365 days"),
     ("days", "366", "1 to 365 days"), ("days", "soon", "1 to 365 days"),
     ("days", "9" * 500, "1 to 365 days"), ("days", "", "1 to 365 days"),
     ("scope", "admin", "Choose one of the scopes"), ("scope", "", "Choose one of the scopes")],
)  # fmt: skip
def test_what_is_out_of_bounds_is_told_at_its_field(
    reader: Client, field: str, value: str, sentence: str
) -> None:
    response = make(reader, **{field: value})
    page = assert_page(response, 422)
    assert sentence in page.text
    assert 'aria-invalid="true"' in response.content.decode()
    assert not ApiToken.objects.exists()


def test_an_account_without_role_makes_no_token_that_acts(reader: Client, bob: User) -> None:
    bob.groups.clear()
    page = assert_page(reader.get(URL))
    assert "Your account has no role" in page.text
    assert "Read and act" not in page.text
    assert make(reader, scope="act").status_code == 422
    assert not ApiToken.objects.exists()


def test_every_role_makes_a_token_that_acts(reader: Client) -> None:
    assert make(reader, scope="act").status_code == 200
    assert ApiToken.objects.get().scope == "act"


def test_the_limit_of_valid_tokens_is_told_and_kept(reader: Client, bob: User) -> None:
    for _ in range(ApiToken.MAX_COUNT):
        ApiToken.issue(bob.pk, "read")
    response = make(reader)
    assert "The user has 20 valid tokens already" in assert_page(response, 409).text
    assert not secrets_of(response)
    assert ApiToken.objects.count() == ApiToken.MAX_COUNT
    assert "20 of 20 valid tokens" in assert_page(reader.get(URL)).text


def test_a_token_is_revoked_after_a_confirmation(reader: Client, bob: User) -> None:
    secret, row = ApiToken.issue(bob.pk, "read", name="backup job")
    page = assert_page(reader.get(f"{URL}{row.pk}/revoke"))
    assert "backup job" in page.text
    assert ApiToken.objects.exists()
    answer = reader.post(f"{URL}{row.pk}/revoke", follow=True)
    assert answer.redirect_chain == [(URL, 302)]
    assert "The token backup job is revoked" in assert_page(answer).text
    with pytest.raises(OlmwebError, match="not known"):
        token_of(f"Bearer {secret}")
    assert AuditEvent.objects.filter(event="token-revoked", user=bob).count() == 1
    assert reader.post(f"{URL}{row.pk}/revoke").status_code == 404


def test_a_token_of_another_person_is_not_found(operator: Client, alice: User) -> None:
    _, row = ApiToken.issue(alice.pk, "read", name="of-alice")
    for response in (
        operator.get(f"{URL}{row.pk}/revoke"),
        operator.post(f"{URL}{row.pk}/revoke"),
        operator.get(f"{URL}{2**64}/revoke"),
    ):
        assert "of-alice" not in assert_page(response, 404).text
    assert ApiToken.objects.get() == row


def test_a_bearer_token_makes_and_revokes_none(client: Client, alice: User) -> None:
    secret, row = ApiToken.issue(alice.pk, "act")
    headers = {"Authorization": f"Bearer {secret}"}
    for url in (URL, f"{URL}{row.pk}/revoke"):
        assert client.post(url, FORM, headers=headers).status_code == 302
    assert ApiToken.objects.get() == row


def test_visitors_without_an_account_are_sent_to_sign_in(client: Client, settings: Any) -> None:
    settings.PUBLIC_READ = True
    for response in (client.get(URL), client.post(URL, FORM)):
        assert response["Location"].startswith("/login/?next=/account/tokens/")


def test_a_name_is_shown_as_text(reader: Client) -> None:
    response = make(reader, name="<script>alert(1)</script>\u202e")
    assert "<script>alert" not in response.content.decode()
    assert ApiToken.objects.get().name == "<script>alert(1)</script>"


def test_an_account_of_the_provider_is_told_when_its_tokens_pause(
    reader: Client, bob: User, settings: Any
) -> None:
    assert "last sign-in" not in assert_page(reader.get(URL)).text
    OidcIdentity.objects.create(user=bob, issuer="https://idp.example", subject="s-1")
    settings.OIDC_MAX_AGE = 30 * 86_400
    assert "30 days after your last sign-in" in assert_page(reader.get(URL)).text


def test_the_page_costs_a_fixed_number_of_queries(
    operator: Client, bob: User, django_assert_max_num_queries: Any
) -> None:
    for number in range(ApiToken.MAX_COUNT):
        ApiToken.issue(bob.pk, "read", name=f"token {number}")
    # session, user, two of permissions, tokens, identity at the provider, clusters
    with django_assert_max_num_queries(7):
        operator.get(URL)


def test_the_command_names_a_token_and_the_audit_log_has_the_name(bob: User) -> None:
    out, err = StringIO(), StringIO()
    call_command("apitoken", "bob", "--scope", "read", "--name", "backup job", stdout=out,
                 stderr=err)  # fmt: skip
    assert ApiToken.objects.get().name == "backup job"
    assert "backup job" in err.getvalue()
    assert AuditEvent.objects.get(event="token-issued").detail["name"] == "backup job"
    with pytest.raises(Exception, match="valid token with the name backup job"):
        call_command("apitoken", "bob", "--scope", "read", "--name", "backup job")


def test_the_menu_of_the_person_leads_to_the_tokens(reader: Client) -> None:
    page: Page = assert_page(reader.get("/activity/"))
    assert URL in page.links
