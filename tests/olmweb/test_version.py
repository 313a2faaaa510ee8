"""The version: one number wherever it is shown."""

import json
import re
import subprocess
import sys
import tomllib
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client

import olmweb
from tests.worlds.html import assert_page
from tests.worlds.rest import ROOT, World


def run_version(*arguments: str) -> str:
    command = [sys.executable, "manage.py", "version", *arguments]
    run = subprocess.run(command, cwd=settings.BASE_DIR, check=True, capture_output=True, text=True)
    return run.stdout.strip()


def test_pyproject_changelog_and_image_have_the_version_of_the_package() -> None:
    pyproject = tomllib.loads((settings.BASE_DIR / "pyproject.toml").read_text(encoding="utf-8"))
    assert pyproject["project"]["version"] == olmweb.__version__
    changelog = (settings.BASE_DIR / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (\S+)", changelog, re.MULTILINE)[0] == olmweb.__version__
    dockerfile = (settings.BASE_DIR / "Dockerfile").read_text(encoding="utf-8")
    assert f'image.version="{olmweb.__version__}"' in dockerfile


def test_the_version_command_prints_the_products_version_not_djangos() -> None:
    assert run_version() == olmweb.__version__
    answer = json.loads(run_version("--json"))
    assert answer["version"] == olmweb.__version__
    assert set(answer) == {"version", "python", "django"}


def test_status_names_the_version_beside_its_list(world: World, get: Any) -> None:
    answer = get("status")
    body = answer.json()
    assert list(body) == ["items", "next", "count", "olmweb"]
    assert body["olmweb"] == {"version": olmweb.__version__}


def test_an_upgrade_changes_the_etag_of_status(
    world: World, get: Any, settings: Any, client: Client
) -> None:
    etag = get("status")["ETag"]
    settings.VERSION = "99.0.0"
    answer = get("status")
    assert answer["ETag"] != etag
    assert answer.json()["olmweb"] == {"version": "99.0.0"}


def test_the_openapi_document_has_the_version_and_describes_the_field(
    world: World, get: Any
) -> None:
    document = get("openapi.json").json()
    assert document["info"]["version"] == olmweb.__version__
    schema = document["paths"][ROOT + "status"]["get"]["responses"]["200"]["content"]
    name = schema["application/json"]["schema"]["$ref"].rpartition("/")[2]
    assert set(document["components"]["schemas"][name]["required"]) == {
        "items", "next", "count", "olmweb"
    }  # fmt: skip


def test_pages_show_the_version_to_those_who_may_read(client: Client, bob: User) -> None:
    assert olmweb.__version__ not in client.get("/login/").content.decode()
    client.force_login(bob)
    page = assert_page(client.get("/"))
    assert f"OLM Web {olmweb.__version__}" in page.text
