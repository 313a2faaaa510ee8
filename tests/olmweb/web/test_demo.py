"""What a demo says of itself, and that no other installation says it."""

import re
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock, Mock

import pytest
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.test import Client

from olmweb.management.commands import serve
from olmweb.management.commands.serve import DEMO_USERS
from olmweb.sandbox.scenario.catalogs import blobs
from olmweb.serving import embedded
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
    assert "Sign in as operator and install Tracing Demo" in page.text
    for link in ("/operators/?view=cause", "/readiness/"):
        assert link in page.links
    tasks = [link for link in page.links if link.startswith("/software/?installable=")]
    assert client.get(tasks[0]).status_code == 200
    assert "/login/?next=/%23tasks" in page.links, "which opens the tasks again"
    roles = assert_page(client.get("/login/")).text
    rights = "May install, upgrade and remove operators."
    assert f"operator {rights} Password: demo-operator" in roles
    assert "viewer Reads only, and may request installations. Password: demo-viewer" in roles


def test_a_task_installs_an_older_version_that_is_upgraded_over_an_intermediate(
    client: Client, settings: Any, prod: Any
) -> None:
    settings.PUBLIC_READ, settings.DEMO_LOGINS = True, LOGINS
    page = assert_page(client.get("/"))
    assert "and upgrade it over 1.1.0 to 1.2.0" in page.text
    (task,) = [link for link in page.links if "version=1.0.1" in link]
    assert task.startswith("/software/sandbox/redhat-operators/backup-demo/install?")
    channels = {
        blob["name"]: blob["entries"]
        for blob in blobs()["redhat-operators"]
        if (blob["schema"], blob.get("package")) == ("olm.channel", "backup-demo")
    }
    names = [f"backup-demo.v{version}" for version in ("1.0.1", "1.1.0", "1.2.0")]
    assert [entry["name"] for entry in channels["stable"]] == names
    assert [entry.get("replaces") for entry in channels["stable"]] == [None, *names[:2]]
    assert not any("skipRange" in entry for entry in channels["stable"])


def test_each_stage_of_the_start_is_a_line_and_the_accounts_are_the_last(
    settings: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    settings.DATA_DIR, settings.KUBECONFIG, settings.EMBEDDED = tmp_path, "", True
    flushed: list[str] = []

    class Output(StringIO):
        def flush(self) -> None:
            flushed.append(self.getvalue())

    monkeypatch.setattr("olmweb.sandbox.cluster.Sandbox", MagicMock())
    monkeypatch.setattr(serve, "call_command", Mock())
    monkeypatch.setattr(embedded, "serve", lambda port, announce: announce())
    monkeypatch.setattr(embedded, "wait_for_first_sync", lambda timeout: True)
    output = Output()
    call_command("serve", demo=True, stdout=output)
    stages = (
        *("Preparing the database", "Starting the sandbox cluster", "Sandbox cluster: "),
        *("Reading the sandbox's state and catalogs", "OLM Web is ready: http://127.0.0.1:8000/"),
    )
    text = output.getvalue()
    assert [stage for stage in stages if stage in text] == list(stages)
    for stage in stages:
        assert any(part.splitlines()[-1].startswith(stage) for part in flushed if part) or (
            stage.startswith("OLM Web")
        ), f"{stage}: seen only with a later line"
    assert text.index("demo-operator") > text.index(stages[-1])


def test_it_is_one_line_until_it_is_opened(client: Client, settings: Any, prod: Any) -> None:
    settings.PUBLIC_READ, settings.DEMO_LOGINS = True, LOGINS
    panel = client.get("/").content.decode().partition('id="demo"')[2]
    assert panel.partition(">")[2].lstrip().startswith("<details>")


def test_one_button_signs_in_as_operator_and_opens_the_install_form(
    client: Client, settings: Any, prod: Any, olivia: Any
) -> None:
    settings.PUBLIC_READ, settings.DEMO_LOGINS = True, LOGINS
    form = client.get("/").content.decode().partition('<form method="post"')[2]
    values = dict(re.findall(r'name="(\w+)" value="([^"]*)"', form.partition("</form>")[0]))
    assert (values["username"], values["password"]) == ("operator", "demo-operator")
    install = "/software/sandbox/redhat-operators/tracing-demo/install"
    assert values["next"] == install
    get_user_model().objects.create_user("operator", password="demo-operator")
    response = client.post("/login/", values)
    assert response["Location"] == install
    assert client.session["_auth_user_id"]
    page = assert_page(client.get("/"))
    assert install in page.links, "a task of the signed-in person"
    assert 'value="demo-operator"' not in client.get("/").content.decode()


def test_the_sign_in_page_signs_in_with_each_account_and_goes_on(
    client: Client, settings: Any, prod: Any
) -> None:
    settings.PUBLIC_READ, settings.DEMO_LOGINS = True, LOGINS
    response = client.get("/login/?next=/activity/")
    text = response.content.decode()
    assert_page(response)
    for name, password in LOGINS:
        assert f"Sign in as {name}" in text
        assert f'value="{password}"' in text
        assert f"Password: {password}" in assert_page(response).text
    assert "May install, upgrade and remove operators. Password: demo-operator" in (
        assert_page(response).text
    )
    assert text.count('name="next" value="/activity/"') == len(LOGINS) + 1


def test_the_sign_in_page_names_the_role_that_a_change_needs(
    client: Client, settings: Any, prod: Any
) -> None:
    settings.PUBLIC_READ, settings.DEMO_LOGINS = True, LOGINS
    role = "To change a cluster, sign in with the role operator or admin."
    for address in (
        "/software/prod/redhat-operators/etcd/install",
        "/operators/bulk-change?cluster=prod",
        "/installplans/prod/apps/install-x/approve",
    ):
        assert role in assert_page(client.get("/login/", {"next": address})).text
    for address in ("/activity/", "/account/", "/no-page", "//elsewhere.example.com/", ""):
        assert role not in assert_page(client.get("/login/", {"next": address})).text


def test_no_other_installation_shows_accounts(client: Client, settings: Any, prod: Any) -> None:
    settings.PUBLIC_READ = True
    for path in ("/", "/login/"):
        text = client.get(path).content.decode()
        assert "demo" not in text
