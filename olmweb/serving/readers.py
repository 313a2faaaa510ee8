"""Whether those who follow the log of events may still read it.

Django checks the credentials of a request when its stream begins. An account is deactivated, a
token deleted, a session ended while the stream is open: so the credentials of all open streams are
checked again, together.
"""

from collections.abc import Set
from dataclasses import dataclass

import structlog
from django.conf import settings
from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db import DatabaseError, connection
from django.http import parse_cookie
from django.utils import timezone
from django.utils.crypto import constant_time_compare

from olmweb.accounts.roles import sign_in_problem
from olmweb.models import ApiToken
from olmweb.serving.bridge import Scope, make_environ

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Reader:
    """The credentials of a request that Django accepted: the digest of a token, or else the key of
    a session."""

    token: str = ""
    session: str = ""


def reader_of(scope: Scope) -> Reader:
    """The credentials by which olmweb.accounts.api_tokens.PEOPLE_ONLY let the request read: those
    of the Authorization header, without one the session."""
    environ = make_environ(scope, b"")
    if "HTTP_AUTHORIZATION" in environ:
        _, _, secret = environ["HTTP_AUTHORIZATION"].partition(" ")
        return Reader(token=ApiToken.hash(secret.strip()))
    cookies = parse_cookie(environ.get("HTTP_COOKIE", ""))
    return Reader(session=cookies.get(settings.SESSION_COOKIE_NAME, ""))


def ended_readers(readers: Set[Reader]) -> Set[Reader]:
    """Those of `readers` that may not read any more, by three queries. None of them while the
    database is away: there are no new events to read, either."""
    try:
        valid = _valid_tokens(readers) | _valid_sessions(readers)
    except DatabaseError as error:
        log.warning("the rights of streams can't be checked", error=str(error))
        connection.close()
        return frozenset()
    return readers - valid


def _valid_tokens(readers: Set[Reader]) -> set[Reader]:
    digests = [reader.token for reader in readers if reader.token]
    rows = ApiToken.objects.filter(digest__in=digests).select_related("user__oidc_identity")
    now = timezone.now()
    return {
        Reader(token=row.digest)
        for row in rows
        if row.ends_at > now and row.user.is_active and not sign_in_problem(row.user)
    }


def _valid_sessions(readers: Set[Reader]) -> set[Reader]:
    keys = [reader.session for reader in readers if reader.session]
    rows = Session.objects.filter(session_key__in=keys, expire_date__gt=timezone.now())
    sessions = {row.session_key: row.get_decoded() for row in rows}
    people = [session[SESSION_KEY] for session in sessions.values() if SESSION_KEY in session]
    # A hash of the password: another password ends all sessions.
    hashes = {
        str(user.pk): user.get_session_auth_hash()
        for user in User.objects.filter(pk__in=people, is_active=True)
    }
    return {
        Reader(session=key)
        for key, session in sessions.items()
        if (expected := hashes.get(session.get(SESSION_KEY, "")))
        and constant_time_compare(session.get(HASH_SESSION_KEY, ""), expected)
    }
