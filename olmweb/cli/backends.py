"""Where a command's requests go: to the views of this process, or to an OLM Web elsewhere.

Both answer with the documents of the REST API, so that a command prints the same for both.
"""

import json
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote, urlencode, urlsplit

import urllib3

from olmweb.cli.failures import Exit, Failure, failure_of, unreachable, usage

if TYPE_CHECKING:
    from django.contrib.auth.models import User

ROOT = "/api/v1/"
PAGE = 500  # items of a list in one request: the API's limit
TIMEOUT = urllib3.Timeout(connect=5.0, read=60.0)  # seconds
TRIES = 2  # of a request that can be repeated
HINT = "Check the address and the network; --server names the address."
TLS_HINT = "Name the file with the certificate of its CA in SSL_CERT_FILE."
Pairs = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    content_type: str
    body: bytes

    def document(self) -> Any:
        """The decoded JSON. Raises Failure for an error of the API, or for another's answer."""
        try:
            document = json.loads(self.body)
        except ValueError:
            document = None
        if self.status >= 400 or not isinstance(document, dict):
            raise failure_of(self.status, document)
        return document


class Backend(Protocol):
    """Sends requests below ROOT. `key` is an Idempotency-Key. Raises Failure without an answer."""

    is_local: bool

    def send(
        self, method: str, path: str, query: Pairs = (), body: Any = None, key: str = ""
    ) -> Answer: ...


def path_of(*parts: str) -> str:
    """The path of a resource below ROOT: names may hold slashes and spaces."""
    return "/".join(quote(part, safe="") for part in parts)


def get(backend: Backend, path: str, query: Pairs = ()) -> Any:
    """The document at `path`. Raises Failure."""
    return backend.send("GET", path, query).document()


def get_list(
    backend: Backend, path: str, query: Pairs = (), limit: int | None = None
) -> dict[str, Any]:
    """The list at `path` with the items of all its pages, at most `limit`.

    `next` is null if nothing is left out. Raises Failure.
    """
    whole: dict[str, Any] = {}
    items: list[Any] = []
    cursor = ""
    while True:
        size = min(PAGE, limit - len(items)) if limit else PAGE
        page = [*query, ("limit", str(size)), *([("cursor", cursor)] if cursor else [])]
        document = get(backend, path, page)
        whole = whole or document
        items += document["items"]
        cursor = document["next"] or ""
        if not cursor or (limit and len(items) >= limit):
            return {**whole, "items": items, "next": cursor or None}


def post(backend: Backend, path: str, body: Any = None, key: str = "") -> Any:
    """The answer to a POST. Raises Failure."""
    return backend.send("POST", path, (), body, key).document()


def patch(backend: Backend, path: str, body: Any) -> Any:
    """The answer to a PATCH. Raises Failure."""
    return backend.send("PATCH", path, (), body).document()


def delete(backend: Backend, path: str) -> None:
    """Raises Failure."""
    answer = backend.send("DELETE", path)
    if answer.status >= 400:
        answer.document()


class Remote:
    """The REST API of the OLM Web at `server`, with a bearer token unless that is empty."""

    is_local = False

    def __init__(self, server: str, token: str) -> None:
        parts = urlsplit(server)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
            raise usage(
                f'"{server}" is not the address of a server.',
                "Write --server https://olmweb.example.com.",
            )
        if not token.isascii() or not token.isprintable() or " " in token:
            raise usage("The token has characters that no token has.", "Copy it again.")
        self.server = server.rstrip("/")
        self._headers = {"Accept": "application/json, */*;q=0.5"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        # Redirects are not followed: they would turn a POST into a GET.
        self._pool = urllib3.PoolManager(timeout=TIMEOUT, retries=False)

    def send(
        self, method: str, path: str, query: Pairs = (), body: Any = None, key: str = ""
    ) -> Answer:
        headers = dict(self._headers)
        content = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            content = json.dumps(body).encode()
        if key:
            headers["Idempotency-Key"] = key
        url = f"{self.server}{ROOT}{path}" + (f"?{urlencode(query)}" if query else "")
        # The same key gives the same action again, so that a lost answer is asked for once more.
        tries = TRIES if method == "GET" or key else 1
        answer = self._request(method, url, content, headers, tries)
        location = answer.headers.get("Location", "")
        if 300 <= answer.status < 400:
            raise unreachable(
                f"{self.server} redirects to {location[:200] or 'another address'}.",
                "Use the address that it redirects to as --server.",
            )
        return Answer(answer.status, answer.headers.get("Content-Type", ""), answer.data)

    def _request(
        self, method: str, url: str, content: bytes | None, headers: Mapping[str, str], tries: int
    ) -> urllib3.BaseHTTPResponse:
        for left in reversed(range(tries)):
            try:
                return self._pool.request(method, url, body=content, headers=headers)
            except urllib3.exceptions.HTTPError as error:
                # A server that can't be connected to is reported at once.
                if left and isinstance(error, urllib3.exceptions.ProtocolError):
                    continue
                is_tls = isinstance(error, urllib3.exceptions.SSLError)
                raise unreachable(
                    f"{self.server} does not answer: {_reason(error)}.",
                    TLS_HINT if is_tls else HINT,
                ) from error
        raise AssertionError("tries is at least 1")


def _reason(error: urllib3.exceptions.HTTPError) -> str:
    match error:
        case urllib3.exceptions.NameResolutionError():
            return "its name can't be resolved"
        case urllib3.exceptions.NewConnectionError():
            return "the connection is refused"
        case urllib3.exceptions.TimeoutError():
            return "no answer in time"
        case urllib3.exceptions.SSLError():
            return f"its certificate is not trusted ({str(error)[:200]})"
    return "the connection was cut"


class Local:
    """The views of this process, on its database, with the rights of the account `user`.

    Without a name: reads as an administrator, writes as the only administrator. Raises Failure if
    the settings or the database can't be used.
    """

    is_local = True

    def __init__(self, user: str = "") -> None:
        set_up_django()
        self._name = user

    def send(
        self, method: str, path: str, query: Pairs = (), body: Any = None, key: str = ""
    ) -> Answer:
        from django.test import RequestFactory
        from django.urls import resolve

        require_database()
        content = b"" if body is None else json.dumps(body).encode()
        headers = {"Idempotency-Key": key} if key else None
        address = f"{ROOT}{path}"
        request = RequestFactory().generic(
            method,
            address + (f"?{urlencode(query)}" if query else ""),
            content,
            content_type="application/json",
            headers=headers,
        )
        request.user = self._user(acts=method != "GET")
        request._dont_enforce_csrf_checks = True  # type: ignore[attr-defined]  # no browser
        view = resolve(request.path_info)
        response = view.func(request, *view.args, **view.kwargs)
        data = b"".join(response) if response.streaming else response.content
        return Answer(response.status_code, response.headers.get("Content-Type", ""), data)

    def refresh_verdicts(self, reference: str, cluster: str) -> None:
        """Evaluates the catalog now if a worker has not come to it yet. An unknown name is left to
        the request that follows."""
        from catalogs.lookup import get_named_catalog
        from installs.facts.evaluate import refresh
        from olmweb.clusters import get_cluster
        from olmweb.errors import Missing

        require_database()
        try:
            refresh(get_named_catalog(reference), [get_cluster(cluster)] if cluster else [])
        except Missing:
            return

    def _user(self, *, acts: bool) -> "User":
        from django.contrib.auth.models import User

        if self._name:
            user = User.objects.filter(username=self._name, is_active=True).first()
            if user is None:
                raise Failure(
                    f'There is no active account "{self._name}".',
                    code="unknown-user",
                    hint="`olmweb token list` and the admin pages name the accounts.",
                )
            return user
        if not acts:
            return User(username="olmweb", is_superuser=True)  # not stored: whoever runs this
        admins = list(User.objects.filter(is_superuser=True, is_active=True)[:2])
        if len(admins) != 1:
            raise usage(
                f"There {'are several administrators' if admins else 'is no administrator'}: "
                "it is not clear who acts.",
                "Name an account with --user."
                if admins
                else "Create one with `manage.py createadmin`.",
            )
        return admins[0]


def set_up_django() -> None:
    """Makes models, views and management commands usable. Raises Failure for wrong settings."""
    from django.apps import apps

    if apps.ready:
        return
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "olmweb.settings")
    import django

    try:
        django.setup()
    except SystemExit as error:
        raise Failure(
            " ".join(str(error.code).split()),
            code="settings",
            hint="Settings come from the environment; --server needs none of them.",
            exit_code=Exit.USAGE,
        ) from error
    logging.getLogger().setLevel(logging.WARNING)


def run_command(name: str, *arguments: str) -> int:
    """Runs a management command, which prints its answer; returns its exit code. Raises Failure
    with the sentence of its error."""
    from django.core.management import CommandError, call_command

    set_up_django()
    try:
        call_command(name, *arguments)
    except CommandError as error:
        raise Failure(str(error), code="refused") from error
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else Exit.REFUSED
    return Exit.DONE


def require_database() -> None:
    """Raises Failure (exit code 3) if the database does not answer or has no tables."""
    from django.db import Error

    from olmweb.models import Cluster

    try:
        Cluster.objects.exists()
    except Error as error:
        reason = str(error).strip().split("\n", 1)[0].rstrip(".")
        raise unreachable(
            f"The database can't be used: {reason}.",
            "Check DATABASE_URL and OLMWEB_DATA_DIR and run `manage.py migrate`, or name a running "
            "OLM Web with --server.",
        ) from error
