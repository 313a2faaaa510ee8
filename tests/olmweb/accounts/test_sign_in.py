"""Sign-in by OpenID Connect against a real provider: whose account, which role, what is refused."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from olmweb.accounts.oidc_settings import OidcSettings
from olmweb.accounts.roles import impersonation_for
from olmweb.models import OidcIdentity
from tests.worlds.html import assert_page
from tests.worlds.oidc_provider import RunningProvider, provider

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def idp() -> Iterator[RunningProvider]:
    with provider() as running:
        yield running


@pytest.fixture(autouse=True)
def clean_end(settings: Any) -> None:
    settings.AUTHENTICATION_BACKENDS = [
        "django.contrib.auth.backends.ModelBackend",
        "olmweb.accounts.oidc.OidcBackend",
    ]


def use(settings: Any, idp: RunningProvider, **changed: Any) -> OidcSettings:
    reported = OidcSettings(
        issuer=idp.issuer,
        client_id="olmweb",
        client_secret="secret",
        scopes="openid profile email",
        username_claim="preferred_username",
        groups_claim="groups",
        roles={"sre": "operator", "platform": "admin"},
        cluster_groups={"sre": "cluster-sre"},
        default_role="viewer",
    )
    settings.OIDC = replace(reported, **changed)
    settings.OIDC_RP_SCOPES = "openid profile email"
    return settings.OIDC


def come_back(
    client: Client, idp: RunningProvider, subject: str, start: str = "/login/oidc/"
) -> Any:
    """Starts at OLM Web, signs in at the provider, follows it back."""
    begun = client.get(start)
    assert begun.status_code == 302, begun.content.decode()
    back = idp.sign_in(begun["Location"], subject)
    return client.get(back.removeprefix("http://testserver"))


def groups(name: str) -> set[str]:
    return set(User.objects.get(username=name).groups.values_list("name", flat=True))


def test_a_person_signs_in_and_is_what_their_groups_say(
    client: Client, settings: Any, idp: RunningProvider
) -> None:
    use(settings, idp)
    idp.set_user("s-1", preferred_username="olga", email="olga@example.com", groups=["sre", "x"])
    response = come_back(client, idp, "s-1", "/login/oidc/?next=/operators/")
    assert (response.status_code, response["Location"]) == (302, "/operators/")
    user = User.objects.get(username="olga")
    assert client.session["_auth_user_id"] == str(user.pk)
    assert client.session.get_expiry_age() <= 8 * 3600
    assert (user.email, user.is_staff, user.is_superuser) == ("olga@example.com", False, False)
    assert not user.has_usable_password()
    who = impersonation_for(user)
    assert who is not None
    assert (who.user, who.groups) == ("olga", ("cluster-sre", "olmweb-operators"))


def test_groups_that_changed_at_the_provider_change_here_at_the_next_sign_in(
    client: Client, settings: Any, idp: RunningProvider
) -> None:
    use(settings, idp)
    idp.set_user("s-2", preferred_username="paul", groups=["platform", "sre"])
    come_back(client, idp, "s-2")
    assert groups("paul") == {"olmweb-admins", "cluster-sre"}
    assert User.objects.get(username="paul").is_staff
    idp.set_user("s-2", preferred_username="paul", groups=[])
    come_back(Client(), idp, "s-2")
    assert groups("paul") == {"olmweb-viewers"}
    assert not User.objects.get(username="paul").is_staff


def test_a_person_who_is_renamed_keeps_the_account(
    client: Client, settings: Any, idp: RunningProvider
) -> None:
    use(settings, idp)
    idp.set_user("s-3", preferred_username="mary")
    come_back(client, idp, "s-3")
    idp.set_user("s-3", preferred_username="mary.smith")
    come_back(Client(), idp, "s-3")
    assert OidcIdentity.objects.get(subject="s-3").user.username == "mary.smith"
    assert User.objects.filter(username__startswith="mary").count() == 1


def test_nobody_takes_over_an_account_by_its_name(
    client: Client, alice: User, settings: Any, idp: RunningProvider
) -> None:
    use(settings, idp)
    idp.set_user("s-4", preferred_username="alice", email=alice.email, groups=["platform"])
    page = assert_page(come_back(client, idp, "s-4"), 403)
    assert "Another account is called alice here." in page.text
    assert not OidcIdentity.objects.exists()
    assert "_auth_user_id" not in client.session


@pytest.mark.parametrize(
    ("claims", "changed", "sentence"),
    [
        ({"email": "a@b.c"}, {}, "the claim preferred_username is missing"),
        ({"preferred_username": 7}, {}, "the claim preferred_username is missing"),
        ({"preferred_username": "system:admin"}, {}, "can't be used here"),
        (
            {"preferred_username": "nina"},
            {"default_role": ""},
            "nina is in no group that may use OLM Web (the claim groups is missing).",
        ),
        (
            {"preferred_username": "nina", "groups": ["dev"]},
            {"default_role": ""},
            "nina is in no group that may use OLM Web.",
        ),
    ],
)
def test_claims_that_do_not_do_are_named(
    client: Client,
    settings: Any,
    idp: RunningProvider,
    claims: dict[str, Any],
    changed: dict[str, Any],
    sentence: str,
) -> None:
    use(settings, idp, **changed)
    idp.set_user("s-5", **claims)
    page = assert_page(come_back(client, idp, "s-5"), 403)
    assert sentence in page.text
    assert not User.objects.exists()


def test_a_token_for_another_client_signs_nobody_in(client: Client, settings: Any) -> None:
    with provider(audience="another") as running:
        use(settings, running)
        running.set_user("s", preferred_username="eve", groups=["platform"])
        page = assert_page(come_back(client, running, "s"), 403)
    assert "meant for another client" in page.text
    assert not User.objects.exists()


def test_an_expired_token_signs_nobody_in(client: Client, settings: Any) -> None:
    with provider(age=-120) as running:
        use(settings, running)
        running.set_user("s", preferred_username="eve", groups=["platform"])
        page = assert_page(come_back(client, running, "s"), 403)
    assert "expired" in page.text
    assert not User.objects.exists()


def test_a_provider_that_is_down_is_told_before_and_after_the_way_to_it(
    client: Client, settings: Any
) -> None:
    with provider() as running:
        use(settings, running)
        begun = client.get("/login/oidc/")
        back = running.sign_in(begun["Location"], "s")
        running.stop()
    for path in ("/login/oidc/", back.removeprefix("http://testserver")):
        page = assert_page(client.get(path), 502)
        assert "does not answer" in page.text
        assert "Sign in with" in page.text
    assert not User.objects.exists()


def test_an_issuer_that_is_none_is_told(
    client: Client, settings: Any, idp: RunningProvider
) -> None:
    use(settings, idp, issuer=f"{idp.issuer}/realms/x")
    assert "answers 404" in assert_page(client.get("/login/oidc/"), 502).text


def test_a_callback_without_its_start_and_one_sent_twice_sign_nobody_in(
    client: Client, settings: Any, idp: RunningProvider
) -> None:
    use(settings, idp)
    idp.set_user("s-6", preferred_username="olga")
    forged = assert_page(client.get("/login/oidc/callback?code=x&state=y"), 403)
    assert "was not started in this browser" in forged.text
    back = idp.sign_in(client.get("/login/oidc/")["Location"], "s-6").removeprefix(
        "http://testserver"
    )
    assert client.get(back).status_code == 302
    other = Client()
    other.get("/login/oidc/")
    assert_page(other.get(back), 403)
    assert_page(client.get("/login/oidc/callback"), 403)


def test_a_person_who_says_no_at_the_provider_is_back_at_the_sign_in_page(
    client: Client, settings: Any, idp: RunningProvider
) -> None:
    use(settings, idp)
    back = idp.deny(client.get("/login/oidc/")["Location"]).removeprefix("http://testserver")
    page = assert_page(client.get(back), 403)
    assert "access was denied" in page.text


def test_an_account_that_is_switched_off_is_refused_and_its_session_ends(
    client: Client, settings: Any, idp: RunningProvider
) -> None:
    use(settings, idp)
    idp.set_user("s-7", preferred_username="otto")
    come_back(client, idp, "s-7")
    assert client.get("/operators/").status_code == 200
    User.objects.filter(username="otto").update(is_active=False)
    assert client.get("/operators/").status_code == 302
    assert "switched off" in assert_page(come_back(Client(), idp, "s-7"), 403).text


def test_signing_out_offers_the_providers_own_sign_out(
    client: Client, settings: Any, idp: RunningProvider
) -> None:
    use(settings, idp)
    idp.set_user("s-8", preferred_username="otto")
    come_back(client, idp, "s-8")
    page = assert_page(client.post("/logout/"))
    assert "_auth_user_id" not in client.session
    assert any(link.startswith(f"{idp.issuer}/oauth2/end_session?") for link in page.links)


def test_the_sign_in_page_calls_nobody_and_has_a_button_only_where_it_is_set_up(
    client: Client, settings: Any, idp: RunningProvider
) -> None:
    assert "/login/oidc/" not in assert_page(client.get("/login/")).links
    assert_page(client.get("/login/oidc/"), 404)
    use(settings, replace(idp, issuer="https://nowhere.example"))
    page = assert_page(client.get("/login/?next=/crds/"))
    assert "/login/oidc/?next=/crds/" in page.links
    assert "Sign in with nowhere.example" in page.text
    assert client.login(username="nobody", password="x") is False, "passwords go on working"
