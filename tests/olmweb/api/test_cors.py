"""Pages of other origins use the REST API with a token, where a setting names them."""

import os
import subprocess
import sys
from typing import Any

import pytest
from django.test import Client

from tests.conftest import ROOT

pytestmark = pytest.mark.django_db
PORTAL, PATH = "https://portal.example.com", "/api/v1/operators"


@pytest.fixture
def allowed(settings: Any) -> None:
    settings.CORS_ALLOWED_ORIGINS = [PORTAL]
    settings.PUBLIC_READ = True


def preflight(client: Client, origin: str, path: str = PATH) -> Any:
    headers = {
        "Origin": origin,
        "Access-Control-Request-Method": "GET",
        "Access-Control-Request-Headers": "authorization,idempotency-key",
    }
    return client.options(path, headers=headers)


def test_a_named_origin_may_read_and_send_a_token(client: Client, allowed: None) -> None:
    response = preflight(client, PORTAL)
    assert response.status_code == 200
    assert response["Access-Control-Allow-Origin"] == PORTAL
    assert "authorization" in response["Access-Control-Allow-Headers"]
    answer = client.get(PATH, headers={"Origin": PORTAL})
    assert answer["Access-Control-Allow-Origin"] == PORTAL
    assert "ETag" in answer["Access-Control-Expose-Headers"]


def test_cookies_of_another_origin_do_not_count(client: Client, allowed: None) -> None:
    assert "Access-Control-Allow-Credentials" not in preflight(client, PORTAL)
    assert "Access-Control-Allow-Credentials" not in client.get(PATH, headers={"Origin": PORTAL})


@pytest.mark.parametrize(
    ("origin", "path"),
    [
        ("https://other.example.com", PATH),
        (f"{PORTAL}.evil.example", PATH),
        (PORTAL, "/operators/"),
    ],
)
def test_no_other_origin_and_no_page_is_open(
    client: Client, allowed: None, origin: str, path: str
) -> None:
    assert "Access-Control-Allow-Origin" not in preflight(client, origin, path)
    assert "Access-Control-Allow-Origin" not in client.get(path, headers={"Origin": origin})


def test_no_origin_is_open_without_the_setting(client: Client, settings: Any) -> None:
    settings.PUBLIC_READ = True
    assert "Access-Control-Allow-Origin" not in preflight(client, PORTAL)
    assert "Access-Control-Allow-Origin" not in client.get(PATH, headers={"Origin": PORTAL})


def test_an_origin_with_a_path_ends_the_start_with_one_sentence() -> None:
    done = subprocess.run(
        [sys.executable, "manage.py", "check"],
        cwd=ROOT, capture_output=True, text=True, timeout=60,
        env={**os.environ, "OLMWEB_CORS_ORIGINS": f"{PORTAL}/app"},
    )  # fmt: skip
    assert done.returncode
    assert f'OLMWEB_CORS_ORIGINS names "{PORTAL}/app"; write https://host' in done.stderr
