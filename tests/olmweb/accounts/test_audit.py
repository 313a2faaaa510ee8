"""The audit log: each event once, from whom and where; bounded, append-only, without secrets."""

import logging
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from axes.models import AccessAttempt
from django.contrib.auth.models import Group, Permission, User
from django.core.management import call_command
from django.db import DatabaseError, connection, transaction
from django.test import Client
from django.utils import timezone

from installs.retention import prune
from olmweb.accounts import audit
from olmweb.accounts.roles import create_roles
from olmweb.models import ApiToken, AuditEvent, OidcIdentity
from tests.olmweb.serving.serving import get, running

pytestmark = pytest.mark.django_db
PASSWORD = "correct-horse-battery"
WRONG = "not-her-password"
ADDRESS = "192.0.2.1"
Event = AuditEvent.Event


@pytest.fixture(autouse=True)
def without_memory() -> Iterator[None]:
    audit._uses.clear()
    yield
    audit._uses.clear()


@pytest.fixture
def mia() -> User:
    return User.objects.create_user("mia", password=PASSWORD)


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Any:
    """Returns the lines of the log so far."""
    caplog.set_level(logging.INFO, "olmweb.audit")

    def collected() -> list[dict[str, Any]]:
        records = [record for record in caplog.records if record.name == "olmweb.audit"]
        return [record.msg for record in records if isinstance(record.msg, dict)]

    return collected


def sign_in(
    name: str = "mia", password: str = PASSWORD, address: str = ADDRESS, **extra: Any
) -> Any:
    client = Client(REMOTE_ADDR=address, **extra)
    return client, client.post("/login/", {"username": name, "password": password})


def events(*names: str) -> list[AuditEvent]:
    """The rows of these events (all without a name), oldest first."""
    rows = AuditEvent.objects.order_by("id")
    return list(rows.filter(event__in=names) if names else rows)


def names_since(first: int) -> list[str]:
    return list(AuditEvent.objects.order_by("id").values_list("event", flat=True)[first:])


def read(token: str, address: str = ADDRESS) -> Any:
    return Client(REMOTE_ADDR=address).get(
        "/api/v1/clusters", headers={"Authorization": f"Bearer {token}"}
    )


# --- sign-in -------------------------------------------------------------------------------------


def test_a_sign_in_and_its_end_are_one_event_each(mia: User) -> None:
    client, answer = sign_in(HTTP_USER_AGENT="Mozilla/5.0 " + "x" * 500)
    assert answer.status_code == 302
    for _ in range(3):
        client.get("/")
    client.post("/logout/")
    first, last = events(Event.SIGNED_IN, Event.SIGNED_OUT)
    assert (first.event, first.username, first.user, first.actor) == ("signed-in", "mia", mia, "")
    assert (first.address, first.detail) == (ADDRESS, {"method": "password"})
    assert first.user_agent.startswith("Mozilla/5.0 xxx")
    assert len(first.user_agent) == 200
    assert (last.event, last.username, last.address) == ("signed-out", "mia", ADDRESS)
    assert len(events()) == 3, "and the account"


def test_a_wrong_password_is_an_event_and_the_fifth_locks(mia: User) -> None:
    for _ in range(5):
        sign_in(password=WRONG)
    assert [row.event for row in events()[1:]] == ["sign-in-failed"] * 5 + ["locked-out"]
    failed = events(Event.SIGN_IN_FAILED)[0]
    assert (failed.username, failed.user, failed.address) == ("mia", mia, ADDRESS)
    assert failed.detail == {"method": "password", "reason": "wrong user name or password"}
    (locked,) = events(Event.LOCKED_OUT)
    assert (locked.username, locked.user, locked.address) == ("mia", mia, ADDRESS)


def test_refused_sign_ins_of_a_locked_account_are_one_row_a_minute(mia: User) -> None:
    with time_machine.travel(timezone.now(), tick=False) as clock:
        for _ in range(5):
            sign_in(password=WRONG)
        before = len(events())
        for _ in range(20):
            assert sign_in(password=WRONG)[1].status_code == 429
        assert len(events()) == before, "the minute has rows of this account and address"
        for _ in range(2):
            clock.shift(61)
            sign_in(password=WRONG)
            sign_in()
    assert [row.detail["reason"] for row in events()[before:]] == ["locked"] * 2


def test_a_flood_of_failures_from_everywhere_is_bounded_a_minute(mia: User, lines: Any) -> None:
    with time_machine.travel(timezone.now(), tick=False) as clock:
        for i in range(100):
            sign_in(f"guess-{i}", WRONG, f"198.51.100.{i}")
        assert len(events(Event.SIGN_IN_FAILED)) == audit.ATTEMPTS
        logged = [line for line in lines() if line["event"] == "sign-in-failed"]
        assert len(logged) == 100, "the log has all of them"
        assert sum(line["stored"] for line in logged) == audit.ATTEMPTS
        sign_in()
        assert len(events(Event.SIGNED_IN)) == 1, "a flood hides no sign-in"
        clock.shift(61)
        sign_in("guess-x", WRONG)
    assert len(events(Event.SIGN_IN_FAILED)) == audit.ATTEMPTS + 1


def test_unknown_names_are_shortened_and_made_printable(db: None, lines: Any) -> None:
    sign_in("a\r\n\u202eb\x1b[31m" + "c" * 120, WRONG)
    (row,) = events()
    assert row.username == "ab[31m" + "c" * 33 + "…"
    assert row.user is None
    assert lines()[0]["user"] == row.username


def test_a_sign_in_that_cannot_be_recorded_fails(
    mia: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_log(monkeypatch)
    client = Client(raise_request_exception=False)
    answer = client.post("/login/", {"username": "mia", "password": PASSWORD})
    assert answer.status_code == 500
    assert "_auth_user_id" not in client.session
    mia.refresh_from_db()
    assert mia.last_login is None


def test_a_failed_sign_in_and_a_sign_out_work_while_the_log_does_not(
    mia: User, monkeypatch: pytest.MonkeyPatch, lines: Any
) -> None:
    client, _ = sign_in()
    break_log(monkeypatch)
    assert sign_in(password=WRONG)[1].status_code == 200
    assert [line["stored"] for line in lines() if line["event"] == "sign-in-failed"] == [False]
    client.post("/logout/")
    assert "_auth_user_id" not in client.session


def break_log(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise DatabaseError("disk full")

    monkeypatch.setattr(AuditEvent, "save", fail)


def test_unlocking_is_an_event_by_command_and_in_the_admin_pages(
    mia: User, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(5):
        sign_in(password=WRONG)
    before = len(events())
    monkeypatch.setattr("sys.argv", ["/app/manage.py", "axes_reset_username", "mia"])
    call_command("axes_reset_username", "mia")
    call_command("axes_reset_username", "mia")
    (row,) = events()[before:]
    assert (row.event, row.username, row.user, row.actor) == ("unlocked", "mia", mia, "")
    assert row.detail == {"unlocked_address": "any", "by": "manage.py axes_reset_username"}
    for address in (ADDRESS, "192.0.2.2"):
        sign_in(password=WRONG, address=address)
    client = Client()
    client.force_login(alice)
    before = len(events())
    attempts = AccessAttempt.objects.order_by("ip_address")
    first, second = attempts
    client.post(f"/admin/axes/accessattempt/{first.pk}/delete/", {"post": "yes"})
    chosen = {"action": "delete_selected", "_selected_action": [second.pk], "post": "yes"}
    client.post("/admin/axes/accessattempt/", chosen)
    assert not AccessAttempt.objects.exists()
    found = [(row.event, row.username, row.actor, row.detail) for row in events()[before:]]
    assert found == [
        ("unlocked", "mia", "alice", {"unlocked_address": ADDRESS}),
        ("unlocked", "mia", "alice", {"unlocked_address": "192.0.2.2"}),
    ]


def test_a_success_that_resets_the_count_unlocks_nobody(mia: User) -> None:
    sign_in(password=WRONG)
    sign_in()
    assert names_since(1) == ["sign-in-failed", "signed-in"]


def test_the_address_is_the_one_that_a_trusted_proxy_reports(mia: User, settings: Any) -> None:
    seen: list[dict[str, Any]] = []

    def app(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        seen.append(environ)
        start_response("200 OK", [])
        return [b""]

    for proxies, address in ([], "127.0.0.1"), (["127.0.0.1"], "203.0.113.9"):
        settings.TRUSTED_PROXIES = proxies
        with running(app) as port:
            get(port, headers="X-Forwarded-For: 198.51.100.1, 203.0.113.9\r\n")
        environ = {key: seen[-1][key] for key in ("REMOTE_ADDR", "HTTP_X_FORWARDED_FOR")}
        Client(**environ).post("/login/", {"username": "mia", "password": PASSWORD})
        assert events()[-1].event == "signed-in"
        assert events()[-1].address == address


# --- tokens --------------------------------------------------------------------------------------


def test_a_token_is_an_event_when_it_is_issued_and_at_the_first_use_of_a_day_and_address(
    mia: User,
) -> None:
    with time_machine.travel("2026-03-01T12:00:00Z", tick=False) as clock:
        token, row = ApiToken.issue(mia.pk, "read")
        for _ in range(5):
            assert read(token).status_code == 200
        assert names_since(1) == ["token-issued", "token-used"]
        issued, used = events()[1:]
        assert issued.detail["token"] == row.pk
        assert (issued.detail["scope"], issued.detail["ends"]) == ("read", "2026-05-30")
        assert (used.username, used.user, used.address) == ("mia", mia, ADDRESS)
        assert used.detail == {"token": row.pk, "scope": "read"}
        read(token, "192.0.2.7")
        audit._uses.clear()  # as another process
        read(token)
        assert names_since(3) == ["token-used"]
        clock.shift(86400)
        read(token)
        read(token)
    assert names_since(4) == ["token-used"]


@pytest.mark.django_db(transaction=True)
def test_uses_of_a_token_at_the_same_time_are_one_event(monkeypatch: pytest.MonkeyPatch) -> None:
    if connection.vendor == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    token = ApiToken.issue(User.objects.create_user("mia").pk, "read")[1]
    record = audit.record

    def record_slowly(*args: Any, **detail: Any) -> None:
        time.sleep(0.3)
        record(*args, **detail)

    def use() -> None:
        audit.token_used(token)
        connection.close()

    monkeypatch.setattr(audit, "record", record_slowly)
    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(events(Event.TOKEN_USED)) == 1


def test_later_uses_of_a_token_cost_no_query(mia: User, django_assert_num_queries: Any) -> None:
    token, _row = ApiToken.issue(mia.pk, "read")
    headers = {"Authorization": f"Bearer {token}"}
    client = Client()
    client.get("/api/v1/openapi.json", headers=headers)
    with django_assert_num_queries(1):  # the token
        client.get("/api/v1/openapi.json", headers=headers)


def test_a_page_of_a_signed_in_person_writes_no_event(mia: User) -> None:
    client, _ = sign_in()
    before = len(events())
    for address in ("/", "/software/", "/operators/", "/activity/", "/api/v1/clusters"):
        assert client.get(address).status_code == 200
    assert len(events()) == before


def test_revoking_is_an_event_and_tidying_up_is_none(alice: User, mia: User) -> None:
    _, row = ApiToken.issue(mia.pk, "act")
    _, expired = ApiToken.issue(mia.pk, "read")
    ApiToken.objects.filter(pk=expired.pk).update(expires_at=timezone.now() - timedelta(days=400))
    client = Client(REMOTE_ADDR=ADDRESS)
    client.force_login(alice)
    number = row.pk
    client.post(f"/admin/olmweb/apitoken/{number}/delete/", {"post": "yes"})
    prune(timezone.now())
    assert not ApiToken.objects.exists()
    (revoked,) = events(Event.TOKEN_REVOKED)
    assert (revoked.username, revoked.user, revoked.actor) == ("mia", mia, "alice")
    assert (revoked.address, revoked.detail) == (ADDRESS, {"token": number, "scope": "act"})


def test_wrong_tokens_are_one_row_a_minute_and_one_when_they_are_limited(db: None) -> None:
    with time_machine.travel(timezone.now(), tick=False) as clock:
        for i in range(100):
            read(f"olmweb_guess{i}")
        assert [row.detail["reason"] for row in events()] == [
            "invalid-token", "too many wrong tokens",
        ]  # fmt: skip
        clock.shift(61)
        read("olmweb_guess")
    assert len(events()) == 3
    assert {(row.event, row.username, row.address) for row in events()} == {
        ("token-refused", "", ADDRESS)
    }


@pytest.mark.parametrize("reason", ["token-expired", "user-disabled", "sign-in-over"])
def test_a_refused_token_is_named_once_a_minute(mia: User, reason: str) -> None:
    token, row = ApiToken.issue(mia.pk, "read")
    if reason == "token-expired":
        ApiToken.objects.update(expires_at=timezone.now() - timedelta(days=1))
    elif reason == "user-disabled":
        User.objects.update(is_active=False)
    else:
        OidcIdentity.objects.create(user=mia, issuer="https://idp.example", subject="m")
    for _ in range(3):
        assert read(token).status_code == 401
    (refused,) = events(Event.TOKEN_REFUSED)
    assert (refused.username, refused.detail) == ("mia", {"token": row.pk, "reason": reason})


# --- accounts and roles --------------------------------------------------------------------------


def test_what_an_admin_page_changes_of_an_account_names_who_did_it(alice: User, bob: User) -> None:
    client = Client(REMOTE_ADDR=ADDRESS)
    client.force_login(alice)
    before = len(events())
    groups = [Group.objects.get(name=f"olmweb-{role}s").pk for role in ("operator", "admin")]
    form = {
        "username": "robert", "is_active": "on", "is_staff": "on", "groups": groups,
        "user_permissions": [Permission.objects.get(codename="view_cluster").pk],
        "date_joined_0": "2026-01-01", "date_joined_1": "00:00:00",
    }  # fmt: skip
    assert client.post(f"/admin/auth/user/{bob.pk}/change/", form).status_code == 302
    found = [(row.event, row.detail) for row in events()[before:]]
    assert found == [
        ("account-renamed", {"before": "bob"}),
        ("roles-changed", {"is_staff": True}),
        ("roles-changed", {"groups_removed": ["olmweb-viewers"]}),
        ("roles-changed", {"groups_added": ["olmweb-admins", "olmweb-operators"]}),
        ("roles-changed", {"permissions_added": ["olmweb.view_cluster"]}),
    ]
    for row in events()[before:]:
        assert (row.username, row.user, row.actor) == ("robert", bob, "alice")
        assert row.address == ADDRESS
    before = len(events())
    client.post(f"/admin/auth/user/{bob.pk}/change/", form)
    assert len(events()) == before, "nothing was changed"
    passwords = {"usable_password": "true", "password1": PASSWORD, "password2": PASSWORD}
    client.post(f"/admin/auth/user/{bob.pk}/password/", passwords)
    assert names_since(before) == ["password-changed"]


def test_accounts_that_are_made_and_deleted_are_events_which_stay(alice: User) -> None:
    client = Client()
    client.force_login(alice)
    form = {"username": "noa", "password1": PASSWORD, "password2": PASSWORD}
    client.post("/admin/auth/user/add/", form | {"usable_password": "true"})
    noa = User.objects.get(username="noa")
    token = ApiToken.issue(noa.pk, "read")[1].pk
    client.post(f"/admin/auth/user/{noa.pk}/delete/", {"post": "yes"})
    rows = list(AuditEvent.objects.filter(username="noa").order_by("id"))
    assert [row.event for row in rows[:2]] == ["account-created", "token-issued"]
    assert {row.event for row in rows[2:]} == {"account-deleted", "token-revoked"}
    assert len(rows) == 4
    assert {row.user_id for row in rows} == {None}
    assert {row.actor for row in rows if row.event != "token-issued"} == {"alice"}
    assert {row.detail.get("token") for row in rows} == {None, token}


def test_both_sides_of_groups_and_permissions_are_seen(bob: User, olivia: User) -> None:
    viewers = Group.objects.get(name="olmweb-viewers")
    permission = Permission.objects.get(codename="view_lease")
    lease = "olmweb.view_lease"
    before = len(events())
    viewers.user_set.add(bob, olivia)
    olivia.groups.clear()
    viewers.permissions.add(permission)
    permission.group_set.remove(viewers)
    viewers.name = "readers"
    viewers.save()
    viewers.delete()
    found = [(row.event, row.username, row.detail) for row in events()[before:]]
    without_source = [
        (event, name, {key: detail[key] for key in detail if key != "by"})
        for event, name, detail in found
    ]
    assert without_source == [
        ("roles-changed", "olivia", {"groups_added": ["olmweb-viewers"]}),
        ("roles-changed", "olivia", {"groups_removed": ["olmweb-operators", "olmweb-viewers"]}),
        ("group-changed", "", {"group": "olmweb-viewers", "permissions_added": [lease]}),
        ("group-changed", "", {"group": "olmweb-viewers", "permissions_removed": [lease]}),
        ("group-changed", "", {"group": "readers", "before": "olmweb-viewers"}),
        ("group-changed", "", {"group": "readers", "deleted": True, "members": 1}),
    ]  # fmt: skip


def test_a_command_is_named_and_what_a_release_gives_to_roles_is_no_event(
    db: None, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.ADMIN_PASSWORD = PASSWORD
    monkeypatch.setattr("sys.argv", ["/app/manage.py", "createadmin", "--username", "root"])
    call_command("createadmin", "--username", "root")
    call_command("createadmin", "--username", "root", "--reset-password")
    made, reset = events()
    assert (made.event, made.username, made.actor) == ("account-created", "root", "")
    assert made.detail == {"is_staff": True, "is_superuser": True, "by": "manage.py createadmin"}
    assert (reset.event, reset.detail) == ("password-changed", {"by": "manage.py createadmin"})
    admins = Group.objects.get(name="olmweb-admins")
    Group.permissions.through.objects.filter(group=admins).delete()
    create_roles()
    create_roles()
    assert admins.permissions.filter(codename="view_auditevent").exists()
    assert len(events()) == 2


def test_an_account_that_cannot_be_recorded_is_not_made(
    db: None, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.ADMIN_PASSWORD = PASSWORD
    break_log(monkeypatch)
    with pytest.raises(DatabaseError):
        call_command("createadmin")
    assert not User.objects.exists()


# --- the log itself ------------------------------------------------------------------------------


def test_each_row_is_a_line_of_the_log_once_it_is_committed(
    mia: User, lines: Any, django_capture_on_commit_callbacks: Any
) -> None:
    with django_capture_on_commit_callbacks() as callbacks:
        sign_in()
    assert not lines(), "a transaction that is rolled back leaves no line"
    for callback in callbacks:
        callback()
    (line,) = lines()
    row = events()[-1]
    assert (line["event"], line["id"], line["user"]) == ("signed-in", row.pk, "mia")
    assert (line["address"], line["detail"]) == (ADDRESS, {"method": "password"})
    assert (line["stored"], line["logger"]) == (True, "olmweb.audit")


def test_no_row_and_no_line_has_a_password_or_a_token(
    mia: User,
    alice: User,
    caplog: pytest.LogCaptureFixture,
    django_capture_on_commit_callbacks: Any,
) -> None:
    caplog.set_level(logging.INFO)
    with django_capture_on_commit_callbacks(execute=True):
        client, _ = sign_in()
        sign_in(password=WRONG)
        sign_in("nobody", WRONG)
        token, row = ApiToken.issue(mia.pk, "act")
        read(token)
        read(token + "x")
        read("olmweb_somebodys-secret")
        mia.set_password("another-long-password")
        mia.save()
        row.delete()
        read(token)
        session = client.session.session_key
        client.post("/logout/")
    assert len(events()) > 8
    stored = repr(list(AuditEvent.objects.values()))
    logged = repr([record.msg for record in caplog.records]) + caplog.text
    secrets = (
        *(PASSWORD, WRONG, "another-long-password", "alice-password"),
        *(token, token.removeprefix("olmweb_"), "somebodys-secret"),
        *(row.digest, mia.password, session),
    )
    for secret in secrets:
        assert secret
        assert secret not in stored
        assert secret not in logged


def test_rows_are_neither_changed_nor_deleted(mia: User) -> None:
    (row,) = events()
    row.username = "somebody else"
    with pytest.raises(TypeError, match="can't be changed"):
        row.save()
    with pytest.raises(TypeError, match="can't be deleted"):
        row.delete()
    rows = AuditEvent.objects.all()
    for change in (
        lambda: rows.update(username="x"),
        lambda: rows.delete(),
        lambda: rows.bulk_update([row], ["username"]),
        lambda: AuditEvent.objects.update_or_create(pk=row.pk, defaults={"username": "x"}),
        lambda: AuditEvent._default_manager.filter(pk=row.pk).delete(),
    ):
        with pytest.raises(TypeError, match="can't be"), transaction.atomic():
            change()
    assert events()[0].username == "mia"


def test_the_version_before_can_delete_an_account_that_has_events(mia: User) -> None:
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM auth_user WHERE id = %s", [mia.pk])
    connection.check_constraints()
    alice = User.objects.create_superuser("alice")
    client = Client()
    client.force_login(alice)
    event = events()[0]
    text = client.get(f"/admin/olmweb/auditevent/{event.pk}/change/").text
    assert "Account created mia" in text
    assert f"{event.at:%Y-%m-%d %H:%M:%S}" in text


def test_rows_stay_for_the_set_time_or_for_ever(mia: User, settings: Any) -> None:
    settings.AUDIT_RETENTION_DAYS, settings.RETENTION_DAYS = 30, 1
    for days in (29, 31):
        AuditEvent.objects.create(
            event=Event.SIGNED_IN, username=str(days), at=timezone.now() - timedelta(days=days)
        )
    settings.AUDIT_RETENTION_DAYS = 0
    assert "audit" not in prune(timezone.now())
    settings.AUDIT_RETENTION_DAYS = 30
    assert prune(timezone.now())["audit"] == 1
    assert [row.username for row in events(Event.SIGNED_IN)] == ["29"]


# --- the admin page ------------------------------------------------------------------------------


def test_the_admin_page_filters_and_searches_and_changes_nothing(
    alice: User, mia: User, django_assert_max_num_queries: Any
) -> None:
    sign_in(password=WRONG, address="192.0.2.77")
    client = Client()
    client.force_login(alice)
    base = "/admin/olmweb/auditevent/"

    def shown(query: str) -> str:
        with django_assert_max_num_queries(10):
            text = client.get(f"{base}?{query}").content.decode()
        return text.partition('id="result_list"')[2].partition("</table>")[0]

    assert "Sign-in failed" in shown("")
    assert "reason: wrong user name or password" in shown("")
    for query in ("event=sign-in-failed", "q=192.0.2.77", "username=mia&event=sign-in-failed"):
        assert "Sign-in failed" in shown(query)
        assert "Signed in" not in shown(query)
    assert "alice" not in shown("username=mia")
    assert "nobody-of-this-name" in client.get(f"{base}?username=nobody-of-this-name").text
    row = events()[0].pk
    for path in (f"{base}add/", f"{base}{row}/delete/"):
        assert client.post(path, {"post": "yes"}).status_code == 403
    assert client.post(f"{base}{row}/change/", {"username": "x"}).status_code == 403
    assert "delete_selected" not in client.get(base).text


def test_admins_see_the_log_by_their_role_and_operators_do_not(olivia: User) -> None:
    olivia.is_staff = True
    olivia.save()
    client = Client()
    client.force_login(olivia)
    assert client.get("/admin/olmweb/auditevent/").status_code == 403
    olivia.groups.add(Group.objects.get(name="olmweb-admins"))
    assert client.get("/admin/olmweb/auditevent/").status_code == 200
