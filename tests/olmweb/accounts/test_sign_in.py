"""Sign-in by OpenID Connect against a real provider: whose account, which role, what is refused."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.core.cache import cache
from django.db import OperationalError
from django.test import Client

from olmweb.accounts import oidc
from olmweb.accounts.oidc_settings import OidcSettings
from olmweb.accounts.roles import impersonation_for
from olmweb.errors import OlmwebError
from olmweb.models import AuditEvent, OidcIdentity
from tests.worlds.html import assert_page
from tests.worlds.oidc_provider import RunningProvider, provider

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def idp() -> Iterator[RunningProvider]:
    with provider() as running:
        yield running


@pytest.fixture(autouse=True)
def clean_end(settings: Any) -> None:
    oidc._discovered.clear()
    cache.clear()
    settings.AUTHENTICATION_BACKENDS = [
        "olmweb.accounts.throttling.ThrottledSignIn",
        "olmweb.accounts.roles.AccountBackend",
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


@pytest.mark.parametrize("refusal", ["no role", "name of another account"])
def test_a_refused_sign_in_takes_away_what_the_provider_took_away(
    client: Client, bob: User, settings: Any, idp: RunningProvider, refusal: str
) -> None:
    """Tokens, allow rules and queued actions go on without a session."""
    use(settings, idp, default_role="" if refusal == "no role" else "viewer")
    idp.set_user("s-2", preferred_username="paul", groups=["platform"])
    come_back(client, idp, "s-2")
    name = "paul" if refusal == "no role" else bob.username
    idp.set_user("s-2", preferred_username=name, groups=[])
    assert_page(come_back(Client(), idp, "s-2"), 403)
    assert groups("paul") == (set() if refusal == "no role" else {"olmweb-viewers"})
    assert not User.objects.get(username="paul").is_staff
    changes = AuditEvent.objects.filter(username="paul", event="roles-changed")
    removed = [change.detail.get("groups_removed") for change in changes]
    assert ["olmweb-admins"] in removed


def test_a_password_signs_nobody_in_who_has_an_account_of_the_provider(
    client: Client, settings: Any, idp: RunningProvider
) -> None:
    """It would count as a sign-in at the provider, which alone says in which groups they are."""
    use(settings, idp)
    idp.set_user("s-3", preferred_username="mary", groups=["platform"])
    come_back(client, idp, "s-3")
    mary = User.objects.get(username="mary")
    mary.set_password("a long enough password")
    mary.save()
    assert not Client().login(username="mary", password="a long enough password")
    mary.oidc_identity.delete()
    assert Client().login(username="mary", password="a long enough password")


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
    oidc._discovered.clear()
    for path in ("/login/oidc/", back.removeprefix("http://testserver")):
        page = assert_page(client.get(path), 502)
        assert "does not answer" in page.text
        assert "Sign in with" in page.text
    assert not User.objects.exists()


def test_a_silent_provider_holds_a_single_thread(
    settings: Any, idp: RunningProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = use(settings, idp)
    requested, silent = threading.Event(), threading.Event()

    def wait(address: str, **_: Any) -> None:
        requested.set()
        silent.wait(20)
        raise OSError("timed out")

    failed = OlmwebError("The sign-in provider does not answer.", code="oidc-down", status=502)
    oidc._discovered[config.issuer] = 0.0, failed  # of some seconds ago
    monkeypatch.setattr("requests.get", wait)
    with ThreadPoolExecutor() as pool:
        first = pool.submit(oidc.discover, config.issuer)
        try:
            assert requested.wait(10)
            for _ in range(8):
                with pytest.raises(OlmwebError, match="does not answer"):
                    oidc.discover(config.issuer)
            assert not first.done()
        finally:
            silent.set()
        assert isinstance(first.exception(), OlmwebError)


def test_a_provider_that_failed_is_not_asked_again_for_some_seconds(
    client: Client, settings: Any, idp: RunningProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(settings, idp)
    requests: list[str] = []

    def refuse(address: str, **_: Any) -> None:
        requests.append(address)
        raise OSError("no route")

    now = 0.0
    monkeypatch.setattr(oidc, "time", SimpleNamespace(monotonic=lambda: now))
    with monkeypatch.context() as patch:
        patch.setattr("requests.get", refuse)
        pages = [assert_page(client.get("/login/oidc/"), 502).text for _ in range(5)]
    assert len(requests) == 1
    assert all("does not answer" in page for page in pages)
    now = 9.9
    assert_page(client.get("/login/oidc/"), 502)
    now = 10.1
    assert client.get("/login/oidc/").status_code == 302


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
    begun = client.get("/login/oidc/")["Location"]
    back = idp.deny(begun).removeprefix("http://testserver")
    if "state=" not in back:  # this provider leaves it out, against RFC 6749, 4.1.2.1
        back += "&state=" + parse_qs(urlsplit(begun).query)["state"][0]
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


def test_a_start_without_an_end_changes_no_session_and_asks_the_provider_once(
    client: Client, alice: User, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with provider() as running:
        use(settings, running)
        for _ in range(3):
            assert client.get("/login/oidc/").status_code == 302
        assert not Session.objects.exists()
        client.force_login(alice)
        before = Session.objects.values().get()
        running.stop()
    assert client.get("/login/oidc/").status_code == 302, "the discovery document is stored"
    assert Session.objects.values().get() == before


@pytest.mark.parametrize("state", ["", "&state=x"])
def test_a_forged_error_ends_no_session_and_shows_none_of_its_text(
    client: Client, alice: User, settings: Any, idp: RunningProvider, state: str
) -> None:
    use(settings, idp)
    client.force_login(alice)
    client.get("/login/oidc/")
    page = assert_page(client.get(f"/login/oidc/callback?error=call-0800-evil{state}"), 403)
    assert "was not started in this browser" in page.text
    assert "0800" not in page.text
    assert client.get("/operators/").status_code == 200


def test_a_sign_in_gets_a_new_session_key_and_an_end_that_activity_does_not_move(
    client: Client, settings: Any, idp: RunningProvider
) -> None:
    use(settings, idp)
    idp.set_user("s-9", preferred_username="otto")
    come_back(client, idp, "s-9")
    session = client.session
    key, end = session.session_key, session.get_expiry_date()
    session["anything"] = 1
    session.save()
    assert client.session.get_expiry_date() == end
    come_back(client, idp, "s-9")
    assert client.session.session_key != key


def test_a_session_of_a_local_account_ends_after_twelve_hours(client: Client) -> None:
    User.objects.create_user("mia", password="correct-horse-battery")
    client.post("/login/", {"username": "mia", "password": "correct-horse-battery"})
    assert 0 < client.session.get_expiry_age() <= 12 * 3600
    assert isinstance(client.session["_session_expiry"], str), "a time, not an age"


def test_names_get_the_prefix_and_subjects_of_one_name_stay_apart(
    client: Client, alice: User, settings: Any, idp: RunningProvider
) -> None:
    use(settings, idp, username_prefix="oidc:")
    idp.set_user("s-10", preferred_username="alice", groups=["sre"])
    come_back(client, idp, "s-10")
    who = impersonation_for(User.objects.get(username="oidc:alice"))
    assert who is not None
    assert who.user == "oidc:alice"
    idp.set_user("s-11", preferred_username="alice", groups=["sre"])
    assert "Another account" in assert_page(come_back(Client(), idp, "s-11"), 403).text
    idp.set_user("s-12", preferred_username="system:admin")
    assert "system:" in assert_page(come_back(Client(), idp, "s-12"), 403).text


def test_without_local_sign_in_there_is_no_password_form_and_none_is_taken(
    client: Client, settings: Any, idp: RunningProvider
) -> None:
    User.objects.create_user("mia", password="correct-horse-battery")
    use(settings, idp)
    settings.LOCAL_SIGN_IN = False
    for path in ("/login/", "/admin/login/"):
        body = client.get(path, follow=True).content.decode()
        assert 'type="password"' not in body
        assert "Sign in with" in body
        client.post(path, {"username": "mia", "password": "correct-horse-battery"}, follow=True)
        assert "_auth_user_id" not in client.session
    refused = client.post("/login/", {"username": "mia", "password": "correct-horse-battery"})
    assert "switched off" in assert_page(refused, 403).text


def test_the_audit_log_has_sign_ins_what_the_provider_changed_and_failures(
    client: Client, alice: User, settings: Any, idp: RunningProvider
) -> None:
    use(settings, idp)
    client.force_login(alice)  # whose session is replaced: she changed nothing
    idp.set_user("s-80", preferred_username="vera", groups=["platform"])
    first = AuditEvent.objects.count()
    come_back(client, idp, "s-80")
    idp.set_user("s-80", preferred_username="vera", groups=[])
    come_back(Client(), idp, "s-80")
    come_back(Client(), idp, "s-80")
    rows = list(AuditEvent.objects.order_by("id"))[first:]
    by = {"by": "OpenID Connect"}
    signed_in = ("signed-in", {"method": "OpenID Connect"})
    assert [(row.event, row.detail) for row in rows] == [
        ("account-created", by),
        ("roles-changed", {"is_staff": True, **by}),
        ("roles-changed", {"groups_added": ["olmweb-admins"], **by}),
        signed_in,
        ("roles-changed", {"is_staff": False, **by}),
        ("roles-changed", {"groups_removed": ["olmweb-admins"], **by}),
        ("roles-changed", {"groups_added": ["olmweb-viewers"], **by}),
        signed_in,
        signed_in,
    ]
    assert {(row.username, row.actor, row.address) for row in rows} == {("vera", "", "127.0.0.1")}
    for _ in range(3):
        assert Client().get("/login/oidc/callback?state=forged").status_code == 403
    failed = AuditEvent.objects.get(event="sign-in-failed")
    assert failed.detail["method"] == "OpenID Connect"
    assert failed.detail["reason"].startswith("This sign-in was not started in this browser")


def test_a_sign_in_at_the_provider_that_cannot_be_recorded_fails(
    settings: Any, idp: RunningProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Client(raise_request_exception=False)
    use(settings, idp)
    idp.set_user("s-81", preferred_username="wanda")
    come_back(Client(), idp, "s-81")

    def fail(*_: Any, **__: Any) -> None:
        raise OperationalError("disk full")

    monkeypatch.setattr(AuditEvent, "save", fail)
    assert come_back(client, idp, "s-81").status_code == 503
    assert client.get("/activity/requests/").status_code == 302
