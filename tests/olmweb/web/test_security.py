"""What holds for every response and every route: access, headers, CSRF, cookies, sign-in."""

import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as live
from django.contrib.auth.models import User
from django.db import OperationalError
from django.test import Client

from tests.factories import make_icon
from tests.migrated import fill_database
from tests.olmweb.web.test_hostile_urls import ROUTES, fill
from tests.worlds.rest import build_world

# Routes that answer strangers: signing in, and what probes ask.
OPEN = {"/login/", "/login/oidc/", "/login/oidc/callback", "/livez", "/readyz", "/admin/login/"}


@pytest.mark.parametrize("method", ["get", "post"])
def test_without_public_reading_every_route_asks_strangers_to_sign_in(
    client: Client, db: None, method: str
) -> None:
    build_world()
    for route in sorted(set(ROUTES) - OPEN):
        response = getattr(client, method)(fill(route))
        if response.status_code in (301, 302):
            assert "/login/" in response["Location"], route
        elif response.status_code != 404 or not route.startswith("/api/"):
            assert response.status_code in (401, 405), route
        else:
            assert b"no" in response.content, route
        assert b"etcd" not in response.content, route


def test_every_response_has_the_policy_and_forbids_sniffing(
    client: Client, db: None, settings: Any
) -> None:
    settings.PUBLIC_READ = True
    build_world()
    icon = make_icon(data=b"<svg xmlns='http://www.w3.org/2000/svg'><path/></svg>")
    paths = [fill(route) for route in ROUTES]
    for path in (*paths, f"/icons/{icon.sha256}", "/operators", "/nothing", "/static/nothing.css"):
        response = client.get(path)
        assert "default-src 'none'" in response["Content-Security-Policy"], path
        assert response["X-Content-Type-Options"] == "nosniff", path


def test_a_foreign_host_name_is_a_400_with_the_policy_and_a_sentence(client: Client) -> None:
    response = client.get("/", headers={"host": "evil.example"})
    assert response.status_code == 400
    assert b"data-error" in response.content
    assert "default-src 'none'" in response["Content-Security-Policy"]


def test_every_post_of_a_signed_in_person_needs_a_csrf_token(alice: User) -> None:
    build_world()
    client = Client(enforce_csrf_checks=True)
    client.force_login(alice)
    for route in ROUTES:
        if not route.startswith(("/livez", "/readyz", "/metrics")):
            assert client.post(fill(route)).status_code in (401, 403, 404, 405), route


@pytest.mark.parametrize(
    "to", ["https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)"]
)
def test_signing_in_leads_nowhere_else(client: Client, bob: User, to: str) -> None:
    form = {"username": "bob", "password": "bob-password", "next": to}
    response = client.post("/login/", form)
    assert (response.status_code, response["Location"]) == (302, "/")
    cookie = response.cookies["olmweb_session"]
    assert cookie["httponly"]
    assert cookie["samesite"] == "Lax"


def _manage(*args: str, **environ: str) -> "subprocess.CompletedProcess[str]":
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("OLMWEB_", "DJANGO_"))}
    return subprocess.run(
        [sys.executable, "manage.py", *args],
        cwd=live.BASE_DIR,
        env=kept | environ,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.slow
def test_a_production_start_passes_djangos_deployment_checks(tmp_path: Path) -> None:
    done = _manage(
        *("check", "--deploy", "--fail-level", "WARNING"),
        OLMWEB_DATA_DIR=str(tmp_path),
        REDIS_URL="redis://127.0.0.1:1/0",
        OLMWEB_SECRET_KEY="".join(chr(40 + i) for i in range(60)),
        OLMWEB_HOSTS="olm.example.org",
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("args", "environ", "words"),
    [
        (("serve", "--port", "99999"), {}, "ports go from 1 to 65535"),
        (("serve",), {"OLMWEB_CLUSTERS": "a/b=c"}, "OLMWEB_CLUSTERS has"),
        (("serve",), {"OLMWEB_CLUSTER": "a=b"}, "OLMWEB_CLUSTER is not a setting"),
        (("check",), {"DATABASE_URL": "me:hush@there"}, "DATABASE_URL is no database's address"),
        (("sync_cluster", "a"), {}, "run `manage.py migrate`"),
    ],
)
def test_a_start_that_can_not_work_ends_with_a_sentence(
    tmp_path: Path, args: tuple[str, ...], environ: dict[str, str], words: str
) -> None:
    own = {"OLMWEB_DATA_DIR": str(tmp_path), "OLMWEB_CLUSTERS": "a=b"}
    done = _manage(*args, **(own | environ))
    assert done.returncode == 1
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert "hush" not in done.stderr


@pytest.mark.slow
def test_a_start_without_a_usable_context_ends_before_it_asks_for_an_administrator(
    tmp_path: Path,
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text("{contexts: [{name: east, context: {}}]}")
    own = {
        "OLMWEB_DATA_DIR": str(tmp_path),
        "KUBECONFIG": str(kubeconfig),
        "OLMWEB_ADMIN_PASSWORD": "",
    }
    for entry, words in (
        ("a=nope", "has no context named nope; it has: east."),
        ("a=", "has no current context; it has: east."),
    ):
        done = _manage("serve", **own, OLMWEB_CLUSTERS=entry)
        assert (done.returncode, done.stdout) == (2, "")
        assert words in done.stderr
        assert "password" not in done.stderr


@pytest.mark.slow
def test_a_database_from_before_the_first_release_is_refused(
    tmp_path: Path,
) -> None:
    own = {"OLMWEB_DATA_DIR": str(tmp_path), "OLMWEB_CLUSTERS": "a=b"}
    fill_database(f"sqlite:///{tmp_path / 'olmweb.sqlite3'}")
    with sqlite3.connect(tmp_path / "olmweb.sqlite3") as database:
        database.execute(
            "INSERT INTO django_migrations (app, name, applied) VALUES ('catalogs', '0002_x', '')"
        )
    done = _manage("serve", **own)
    assert done.returncode == 1
    assert "`make clean-demo`" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_database_that_refuses_to_write_is_a_503_with_a_sentence(
    bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OperationalError("attempt to write a readonly database")

    monkeypatch.setattr("django.contrib.auth.views.auth_login", refuse)
    client = Client(raise_request_exception=False)
    response = client.post("/login/", {"username": "bob", "password": "bob-password"})
    assert response.status_code == 503
    assert b"The database can&#x27;t be used right now" in response.content


def test_a_database_that_can_not_be_read_is_a_503_with_a_sentence(
    bob: User, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    def refuse(*_: object) -> None:
        raise OperationalError("connection refused")

    settings.PUBLIC_READ = True

    signed_in, anonymous = (Client(raise_request_exception=False) for _ in range(2))
    signed_in.force_login(bob)
    with monkeypatch.context() as patch:
        patch.setattr("django.db.backends.utils.CursorWrapper.execute", refuse)
        pages = [
            client.get(url)
            for client in (signed_in, anonymous)
            for url in ("/", "/software/", "/operators/", "/catalogs/")
        ]
        answers = [client.get("/api/v1/operators") for client in (signed_in, anonymous)]
    for page in pages:
        assert page.status_code == 503, page.request
        assert b"The database can&#x27;t be used right now" in page.content
        assert b"readyz" in page.content
    for answer in answers:
        assert answer.status_code == 503
        assert answer.json()["error"]["code"] == "database"
