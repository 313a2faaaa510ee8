"""Who may not read any more, by the credentials that a request had."""

from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.core.handlers.wsgi import WSGIHandler
from django.core.signals import request_finished, request_started
from django.db import close_old_connections, connections
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from olmweb.models import ApiToken
from olmweb.serving import tail
from olmweb.serving.bridge import ThreadedWsgi
from olmweb.serving.readers import Reader, ended_readers, reader_of
from olmweb.serving.streams import EventStreams, Hub
from olmweb.serving.tail import EventLog, Tail
from tests.olmweb.serving.serving import BODY_LIMIT, serving
from tests.olmweb.serving.test_streams import FeedOfTheTest
from tests.olmweb.serving.test_tail import Client as Follower
from tests.olmweb.serving.test_tail import LogOfTheTest

Change = Callable[[User, ApiToken], object]


def by_token(user: User) -> tuple[Reader, ApiToken]:
    secret, row = ApiToken.issue(user.pk, "read")
    headers = [(b"authorization", f"Bearer {secret}".encode())]
    return reader_of(_scope(headers)), row


def by_session(user: User) -> Reader:
    client = Client()
    client.force_login(user)
    cookies = f"a=1; olmweb_session={client.cookies['olmweb_session'].value}"
    return reader_of(_scope([(b"cookie", cookies.encode())]))


def _scope(headers: list[tuple[bytes, bytes]]) -> dict[str, Any]:
    return {
        "method": "GET", "raw_path": b"/api/v1/events", "query_string": b"", "headers": headers,
        "http_version": "1.1", "scheme": "http",
    }  # fmt: skip


def deactivate(user: User, _: ApiToken) -> None:
    User.objects.filter(pk=user.pk).update(is_active=False)


def delete_account(user: User, _: ApiToken) -> None:
    user.delete()


def delete_token(_: User, token: ApiToken) -> None:
    token.delete()


def expire_token(_: User, token: ApiToken) -> None:
    ApiToken.objects.filter(pk=token.pk).update(expires_at=timezone.now() - timedelta(seconds=1))


def sign_out(user: User, _: ApiToken) -> None:
    for session in Session.objects.all():
        if session.get_decoded().get("_auth_user_id") == str(user.pk):
            session.delete()


def change_password(user: User, _: ApiToken) -> None:
    user.set_password("another")
    user.save()


@pytest.mark.parametrize(
    ("change", "ends_token", "ends_session"),
    [
        (deactivate, True, True),
        (delete_account, True, True),
        (delete_token, True, False),
        (expire_token, True, False),
        (sign_out, False, True),
        (change_password, False, True),
    ],
)
def test_credentials_that_end_are_found_with_all_others_in_three_queries(
    bob: User, alice: User, django_assert_num_queries: DjangoAssertNumQueries,
    change: Change, ends_token: bool, ends_session: bool,
) -> None:  # fmt: skip
    (token, row), session = by_token(bob), by_session(bob)
    readers = {token, session, by_token(alice)[0], by_session(alice)}
    with django_assert_num_queries(3):
        assert ended_readers(readers) == set()
    change(bob, row)
    expected = ({token} if ends_token else set()) | ({session} if ends_session else set())
    assert ended_readers(readers) == expected


def test_unknown_credentials_may_not_read(db: None) -> None:
    readers = {Reader(), Reader(token="x"), Reader(session="x")}
    assert ended_readers(readers) == readers


@pytest.mark.parametrize("change", [deactivate, delete_token])
def test_a_stream_ends_with_the_rights_of_its_token(
    bob: User, settings: Any, monkeypatch: pytest.MonkeyPatch, change: Change
) -> None:
    settings.TRUSTED_PROXIES, settings.ALLOWED_HOSTS = [], ["x"]
    monkeypatch.setattr(tail, "READ_SECONDS", 0.02)
    monkeypatch.setattr(tail, "CHECK_SECONDS", 0.1)
    secret, row = ApiToken.issue(bob.pk, "read")
    connection, django, log = connections["default"], WSGIHandler(), LogOfTheTest()

    # The threads of the server see the rows of the test's transaction.
    def app(environ: dict[str, Any], start_response: Any) -> Any:
        connections["default"] = connection
        return django(environ, start_response)

    def ended(readers: Any) -> Any:
        connections["default"] = connection
        return ended_readers(readers)

    headers = (
        f"Authorization: Bearer {secret}\r\nAccept: text/event-stream\r\nConnection: close\r\n"
    )
    connection.inc_thread_sharing()
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    try:
        pages = ThreadedWsgi(app, 1, BODY_LIMIT)
        streams = EventStreams(pages, Hub(FeedOfTheTest(), lambda: 0.0))
        with serving(EventLog(streams, pages, Tail(log, ended))) as port:
            with closing((follower := Follower(port, headers=headers)).socket):
                follower.ids(1, 0.5)
                log.add()
                assert follower.ids(1) == [1]
                change(bob, row)
                follower.ids(2)
                assert follower.text.endswith(b"0\r\n\r\n"), "the response ended"
            with closing((refused := Follower(port, headers=headers)).socket):
                refused.ids(1, 0.5)
                assert refused.text.startswith(b"HTTP/1.1 401 ")
    finally:
        for signal in (request_started, request_finished):
            signal.connect(close_old_connections)
        connection.dec_thread_sharing()
