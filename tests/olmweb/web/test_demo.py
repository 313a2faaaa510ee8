"""What a demo says of itself, and that no other installation says it."""

from typing import Any

import pytest
from django.test import Client

from olmweb.management.commands.serve import DEMO_USERS
from tests.worlds.html import assert_page

pytestmark = pytest.mark.django_db
LOGINS = tuple((name, password) for name, password, _ in DEMO_USERS)


def test_a_demo_says_that_it_is_one_with_its_accounts_and_tasks(
    client: Client, settings: Any, prod: Any
) -> None:
    settings.PUBLIC_READ, settings.DEMO_LOGINS = True, LOGINS
    page = assert_page(client.get("/"))
    assert "This is a demo with a simulated cluster." in page.text
    assert "operator demo-operator" in page.text
    for link in ("/operators/?view=cause", "/readiness/"):
        assert link in page.links
    tasks = [link for link in page.links if link.startswith("/software/?installable=")]
    assert client.get(tasks[0]).status_code == 200
    assert "/login/?next=/%23tasks" in page.links, "which opens the tasks again"
    assert "viewer with demo-viewer" in assert_page(client.get("/login/")).text


def test_it_is_one_line_until_it_is_opened(client: Client, settings: Any, prod: Any) -> None:
    settings.PUBLIC_READ, settings.DEMO_LOGINS = True, LOGINS
    assert '<details class="olm-card olm-demo olm-no-print" id="demo">' in (
        client.get("/").content.decode()
    )


def test_no_other_installation_shows_accounts(client: Client, settings: Any, prod: Any) -> None:
    settings.PUBLIC_READ = True
    for path in ("/", "/login/"):
        text = client.get(path).content.decode()
        assert "demo" not in text
