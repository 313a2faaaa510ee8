"""Probes and the command that makes tokens."""

import io
import json
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import DatabaseError
from django.db.migrations.executor import MigrationExecutor
from django.test import Client

from olmweb.models import ApiToken
from olmweb.serving import health
from tests.worlds.rest import ROOT


def test_livez_answers_without_the_database(client: Client) -> None:
    # No database fixture: a query would fail this test.
    assert health.livez(client.get("/livez").wsgi_request).status_code == 200


def test_readyz_names_each_check(client: Client, db: None) -> None:
    response = client.get("/readyz")
    assert response.status_code == 200
    assert set(response.json()["checks"]) == {"database", "migrations", "broker"}


def test_readyz_without_a_database_is_a_503_with_a_sentence(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken:
        def cursor(self) -> Any:
            raise DatabaseError("password=hunter2")

    monkeypatch.setattr(health, "connection", Broken())
    monkeypatch.setitem(health.CHECKS, "migrations", lambda: health.Check(True, "Fine."))
    response = client.get("/readyz")
    assert response.status_code == 503
    assert response.json()["message"] == "The database can't be reached (DatabaseError)."


@pytest.mark.django_db(transaction=False)
def test_readyz_says_how_many_migrations_wait(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MigrationExecutor, "migration_plan", lambda *_: [1, 2])
    response = client.get("/readyz")
    assert response.status_code == 503
    assert "2 migrations are not applied" in response.json()["message"]


def test_readyz_without_a_broker_is_ready_and_tells_neither_address_nor_password(
    client: Client, db: None, settings: Any
) -> None:
    settings.EMBEDDED = False
    settings.REDIS_URL = "redis://:hunter2@127.0.0.1:1/0"
    response = client.get("/readyz")
    assert response.status_code == 200
    answer = response.json()
    assert (answer["ok"], answer["message"]) == (True, "Ready.")
    assert answer["checks"]["broker"] == {
        "ok": False,
        "message": "The broker can't be reached (ConnectionError).",
    }
    assert b"hunter2" not in response.content


def test_readyz_reaches_a_real_broker(
    client: Client, db: None, settings: Any, redis_server: str
) -> None:
    settings.EMBEDDED = False
    settings.REDIS_URL = redis_server
    assert client.get("/readyz").json()["checks"]["broker"]["ok"]


def test_apitoken_makes_a_token_that_works_and_keeps_only_its_hash(
    bob: User, client: Client
) -> None:
    out = io.StringIO()
    call_command("apitoken", "bob", "--scope", "act", "--json", stdout=out)
    made = json.loads(out.getvalue())
    assert list(made) == ["token", "scope", "expires", "name"]
    row = ApiToken.objects.get()
    assert row.scope == made["scope"] == "act"
    assert made["token"] not in str(vars(row))
    headers = {"authorization": f"Bearer {made['token']}"}
    assert client.get(ROOT + "clusters", headers=headers).status_code == 200


def test_apitoken_without_json_prints_only_the_token(bob: User) -> None:
    out, err = io.StringIO(), io.StringIO()
    call_command("apitoken", "bob", "--scope", "read", stdout=out, stderr=err)
    assert ApiToken.hash(out.getvalue().strip()) == ApiToken.objects.get().digest
    assert "not shown again" in err.getvalue()


def test_apitoken_refuses_an_unknown_or_disabled_user(bob: User) -> None:
    with pytest.raises(CommandError, match='no user "nobody"'):
        call_command("apitoken", "nobody", "--scope", "read")
    bob.is_active = False
    bob.save()
    with pytest.raises(CommandError, match="is disabled"):
        call_command("apitoken", "bob", "--scope", "read")


def test_readyz_tells_a_database_that_is_read_only(
    client: Client, db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("olmweb.serving.health._is_read_only", lambda: True)
    response = client.get("/readyz")
    assert response.status_code == 503
    assert "can't be written to" in response.json()["message"]
