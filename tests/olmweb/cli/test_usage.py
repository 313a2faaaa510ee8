"""Help, exit codes, errors as one sentence or object, the token, completion, local commands."""

import json
import os
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

import click
import pytest
from click.shell_completion import ShellComplete
from django.conf import settings
from django.contrib.auth.models import User

from catalogs.models import Catalog
from olmweb import __version__
from olmweb.cli.frame import EXIT_CODES, SECTIONS
from olmweb.cli.main import root
from olmweb.models import ApiToken
from tests.olmweb.cli.conftest import Olmweb
from tests.olmweb.serving.serving import running
from tests.services import free_port
from tests.worlds.rest import World

DOCS = (settings.BASE_DIR / "docs" / "command-line.md").read_text(encoding="utf-8")


class Quiet(WSGIRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


def commands(group: click.Group, *above: str) -> Iterator[tuple[str, ...]]:
    for name, command in group.commands.items():
        yield (*above, name)
        if isinstance(command, click.Group):
            yield from commands(command, *above, name)


COMMANDS = list(commands(root))
LEAVES = [words for words in COMMANDS if words != ("token",)]


@pytest.mark.parametrize("words", [(), *COMMANDS], ids=" ".join)
def test_every_command_has_a_help_with_its_exit_codes(
    words: tuple[str, ...], olmweb: Olmweb
) -> None:
    result = olmweb(*words, "--help")
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith(" ".join(["Usage: olmweb", *words]))
    if words != ("token",):
        text = " ".join(result.out.split())
        assert all(f"{code} {meaning}" in text for code, meaning in EXIT_CODES)


def test_the_help_says_what_the_list_of_catalogs_counts(olmweb: Olmweb) -> None:
    text = " ".join(olmweb("catalogs", "--help").out.split())
    assert "as a ClusterCatalog and as a CatalogSource is listed as both" in text


def test_the_help_lists_every_command_below_a_section(olmweb: Olmweb) -> None:
    parts = olmweb("--help").out.split("\n\n")
    listed = {
        line.split()[0]
        for part in parts
        if part.split(":")[0] in SECTIONS
        for line in part.splitlines()[1:]
        if line[2] != " "
    }
    assert listed == set(root.commands)


def test_the_documentation_names_every_command_and_exit_code() -> None:
    assert not [words for words in LEAVES if f"`olmweb {' '.join(words)}" not in DOCS]
    assert not [code for code, meaning in EXIT_CODES if f"| {code} | {meaning}" not in DOCS]


def test_it_is_the_console_script_of_the_package() -> None:
    command = [sys.executable, "-m", "olmweb.cli", "version", "--json"]
    environment = {**os.environ, "OLMWEB_DATA_DIR": "/nowhere"}
    run = subprocess.run(
        command, cwd=settings.BASE_DIR, env=environment, check=True, capture_output=True, text=True
    )
    assert json.loads(run.stdout) == {"client": __version__, "server": None}
    assert 'olmweb = "olmweb.cli.main:main"' in (settings.BASE_DIR / "pyproject.toml").read_text()


@pytest.mark.parametrize(
    "words",
    [
        ["nothing"],
        ["operators", "--nothing"],
        ["operators", "--health", "Well"],
        ["audit", "prod"],
        ["audit", "prod", "redhat-operators"],
        ["install", "etcd", "--method", "Subscription"],
        ["sync", "demo", "--file", "a", "--url", "https://b"],
        ["sync", "demo", "--file", "a", "--server", "http://127.0.0.1:1"],
        ["token", "list", "alice", "--server", "http://127.0.0.1:1"],
        ["token", "create", "alice", "--name", "x", "--server", "http://127.0.0.1:1"],
        ["serve", "--server", "http://127.0.0.1:1"],
        ["operators", "--server", "olmweb.example.com"],
        ["operators", "--server", "http://127.0.0.1:1", "--token", "a b"],
        ["operators", "--server", "http://127.0.0.1:1", "--token", "a", "--token-file", "b"],
        ["operators", "--server", "http://127.0.0.1:1", "--token-file", "/nowhere"],
    ],
    ids=" ".join,
)
def test_wrong_usage_ends_with_2(words: list[str], olmweb: Olmweb) -> None:
    text = olmweb(*words)
    assert (text.code, text.out) == (2, "")
    assert "Error: " in text.err
    as_json = olmweb(*words, "--json")
    error = as_json.document["error"]
    assert (as_json.code, error["code"], as_json.err) == (2, "usage", "")
    assert set(error) == {"code", "message", "hint", "fields"}


@pytest.mark.parametrize(
    ("words", "option", "choices"),
    [
        (
            "resolve prod/a b --method Helm", "--method",
            "PlatformOperator, ClusterExtension, Subscription",
        ),
        ("install b --cluster c --method x", "--method", "PlatformOperator, ClusterExtension"),
        ("operators --health Well", "--health", "Failed, Blocked, Degraded, NeedsApproval"),
        ("export a b --approval never", "--approval", "Automatic, Manual."),
    ],
)  # fmt: skip
def test_a_wrong_choice_lists_the_choices_as_they_are_written(
    words: str, option: str, choices: str, olmweb: Olmweb
) -> None:
    error = olmweb(*words.split(), "--json").document["error"]["message"]
    assert f"'{option}'" in error
    assert f'"{words.split()[-1]}" is not one of {choices}' in error


def test_a_server_that_does_not_answer_ends_with_3_and_one_sentence(olmweb: Olmweb) -> None:
    server = f"http://127.0.0.1:{free_port()}"
    text = olmweb("operators", "--server", server)
    assert (text.code, text.out) == (3, "")
    assert (
        text.err.splitlines()[0] == f"Error: {server} does not answer: the connection is refused."
    )
    as_json = olmweb("operators", "--server", server, "--json")
    assert (as_json.code, as_json.document["error"]["code"]) == (3, "unreachable")


@pytest.mark.parametrize(
    ("status", "headers", "sentence"),
    [
        ("200 OK", [], "The answer (status 200) is not one of OLM Web."),
        ("503 Busy", [], "The answer (status 503) is not one of OLM Web."),
        ("302 Found", [("Location", "https://sso/")], " redirects to https://sso/."),
    ],
)
def test_another_web_server_is_not_reached_either(
    status: str, headers: list[tuple[str, str]], sentence: str, olmweb: Olmweb
) -> None:
    def app(_: dict[str, Any], start_response: Any) -> list[bytes]:
        start_response(status, [("Content-Type", "text/html"), *headers])
        return [b"<html>"]

    with running(app) as port:
        result = olmweb("operators", "--server", f"http://127.0.0.1:{port}", "--json")
    assert (result.code, result.document["error"]["code"]) == (3, "unreachable")
    assert result.document["error"]["message"].endswith(sentence)


def test_a_certificate_of_a_private_ca_is_trusted_when_its_file_is_named(
    olmweb: Olmweb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
         "-keyout", str(key), "-out", str(certificate), "-subj", "/CN=localhost",
         "-addext", "subjectAltName=IP:127.0.0.1"],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    def app(_: dict[str, Any], start_response: Any) -> list[bytes]:
        start_response("200 OK", [("Content-Type", "application/json")])
        return [b'{"version": "9"}']

    with make_server("127.0.0.1", 0, app, handler_class=Quiet) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever).start()
        words = ["version", "--server", f"https://127.0.0.1:{server.server_port}", "--json"]
        refused = olmweb(*words)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        trusted = olmweb(*words)
        server.shutdown()
    assert (refused.code, refused.document["error"]["code"]) == (3, "unreachable")
    assert "SSL_CERT_FILE" in refused.document["error"]["hint"]
    assert trusted.document["server"] == {"version": "9"}


def test_a_database_without_tables_is_unreachable(tmp_path: Path) -> None:
    environment = {**os.environ, "DATABASE_URL": f"sqlite:///{tmp_path / 'empty.sqlite3'}"}
    command = [sys.executable, "-m", "olmweb.cli", "operators", "--json"]
    run = subprocess.run(
        command, cwd=settings.BASE_DIR, env=environment, check=False, capture_output=True, text=True
    )
    assert run.returncode == 3
    assert "no such table" in json.loads(run.stdout)["error"]["message"]


def test_wrong_settings_are_one_object_too(tmp_path: Path) -> None:
    environment = {**os.environ, "OLMWEB_DATA_DIR": str(tmp_path), "OLMWEB_NONSENSE": "1"}
    command = [sys.executable, "-m", "olmweb.cli", "operators", "--json"]
    run = subprocess.run(
        command, cwd=settings.BASE_DIR, env=environment, check=False, capture_output=True, text=True
    )
    error = json.loads(run.stdout)["error"]
    assert (run.returncode, error["code"]) == (2, "settings")
    assert "OLMWEB_NONSENSE is not a setting" in error["message"]


# --- tokens -----------------------------------------------------------------------------------


def test_a_wrong_token_ends_with_1_and_a_sentence(
    olmweb: Olmweb, world: World, server: str
) -> None:
    text = olmweb("operators", "--server", server, "--token", "wrong")
    assert (text.code, text.out) == (1, "")
    assert text.err.startswith("Error: This token is not known")
    none = olmweb("operators", "--server", server, "--json")
    assert (none.code, none.document["error"]["code"]) == (1, "unauthorized")
    for hint in (text.err.splitlines()[1], none.document["error"]["hint"]):
        assert "`olmweb token create USER --name NAME`" in hint
        assert "OLMWEB_TOKEN or with --token-file" in hint
        assert "Bearer" not in hint


@pytest.mark.parametrize("source", ["variable", "file", "variable of a file", "option"])
def test_the_token_comes_from_the_environment_a_file_or_the_command_line(
    source: str, olmweb: Olmweb, world: World, server: str, bob: User, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    token = ApiToken.issue(bob.pk, "read")[0]
    file = tmp_path / "token"
    file.write_text(f"{token}\n", encoding="ascii")
    monkeypatch.setenv("OLMWEB_SERVER", server)
    words = []
    match source:
        case "variable":
            monkeypatch.setenv("OLMWEB_TOKEN", token)
        case "file":
            monkeypatch.setenv("OLMWEB_TOKEN", "wrong")
            words = ["--token-file", str(file)]
        case "variable of a file":
            monkeypatch.setenv("OLMWEB_TOKEN_FILE", str(file))
        case "option":
            monkeypatch.setenv("OLMWEB_TOKEN_FILE", str(file))
            words = ["--token", token]
    assert olmweb("operators", *words, "--json").code == 0


def test_tokens_are_created_listed_and_revoked(olmweb: Olmweb, bob: User) -> None:
    words = ("token", "create", "bob", "--name", "ci")
    created = olmweb(*words, "--json").document
    assert ApiToken.objects.get().digest == ApiToken.hash(created["token"])
    assert olmweb("token", "create", "bob", "--name", "again").out.startswith("olmweb_")
    listed = olmweb("token", "list", "bob", "--json").document
    row = listed["items"][0]
    assert (row["user"], row["name"], row["scope"]) == ("bob", "ci", "read")
    assert row["expires_at"] == created["expires_at"]
    assert created["token"] not in json.dumps(listed)
    assert olmweb("token", "list", "alice", "--json").document["items"] == []
    assert olmweb("token", "list").out.splitlines()[1].split()[:4] == [
        str(row["id"]), "bob", "ci", "read"
    ]  # fmt: skip
    assert olmweb("token", "revoke", str(row["id"])).code == 0
    assert [token.name for token in ApiToken.objects.all()] == ["again"]
    again = olmweb("token", "revoke", str(row["id"]), "--json")
    assert (again.code, again.document["error"]["code"]) == (1, "unknown-token")
    bob.groups.clear()
    for refused, code, error in (
        (olmweb(*words, "--scope", "act", "--json"), 1, "forbidden"),
        (olmweb("token", "create", "nobody", "--name", "x", "--json"), 1, "unknown-user"),
        (olmweb("token", "create", "--name", "x", "--json"), 2, "usage"),
    ):
        assert (refused.code, refused.document["error"]["code"]) == (code, error)


def test_tokens_of_the_own_account_are_managed_on_a_server(
    olmweb: Olmweb, server: str, alice: User, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    ApiToken.issue(bob.pk, "read", name="of bob")
    monkeypatch.setenv("OLMWEB_SERVER", server)
    monkeypatch.setenv("OLMWEB_TOKEN", ApiToken.issue(alice.pk, "act", name="first")[0])
    created = olmweb("token", "create", "--name", "ci", "--days", "7", "--json").document
    row = ApiToken.objects.get(digest=ApiToken.hash(created["token"]))
    assert (row.user, row.name, row.scope) == (alice, "ci", "read")
    names = [item["name"] for item in olmweb("token", "list", "--json").document["items"]]
    assert names == ["ci", "first"]
    assert olmweb("token", "revoke", str(row.pk), "--json").document == {
        "id": row.pk, "outcome": "revoked"
    }  # fmt: skip
    again = olmweb("token", "revoke", str(row.pk), "--json")
    assert (again.code, again.document["error"]["code"]) == (1, "unknown-token")
    assert olmweb("token", "list", "bob").code == 2


# --- sync, completion -------------------------------------------------------------------------


def test_sync_reads_a_file_here_and_asks_a_worker_of_a_server(
    olmweb: Olmweb, server: str, alice: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "catalog.jsonl"
    file.write_bytes(b'{"schema": "olm.package", "name": "etcd", "defaultChannel": "stable"}')
    synced = olmweb("sync", "demo", "--file", str(file), "--json")
    assert (synced.code, synced.document["outcome"]) == (0, "changed")
    missing = olmweb("sync", "other", "--file", str(tmp_path / "nothing"), "--json")
    assert (missing.code, missing.document["outcome"]) == (1, "failed")
    assert olmweb("sync", "nothing", "--json").document["error"]["code"] == "refused"
    queued: list[int] = []
    monkeypatch.setattr("catalogs.api.catalogs.request_sync", queued.append)
    token = ApiToken.issue(alice.pk, "act")[0]
    result = olmweb("sync", "demo", "--server", server, "--token", token, "--json")
    assert (result.code, result.document["catalog"]) == (0, "-/demo")
    assert queued == [Catalog.objects.get(slug="demo").pk]


def test_a_server_creates_a_catalog_of_an_image_and_changes_its_source(
    olmweb: Olmweb, server: str, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    queued: list[int] = []
    monkeypatch.setattr("catalogs.api.catalogs.request_sync", queued.append)
    monkeypatch.setenv("OLMWEB_SERVER", server)
    monkeypatch.setenv("OLMWEB_TOKEN", ApiToken.issue(alice.pk, "act")[0])
    for image in ("quay.io/acme/catalog:v1", "quay.io/acme/catalog:v2"):
        result = olmweb("sync", "acme", "--image", image, "--json")
        assert (result.code, result.document["catalog"]) == (0, "-/acme"), result
        assert Catalog.objects.get(slug="acme").source == image
    assert queued == [Catalog.objects.get(slug="acme").pk] * 2
    refused = olmweb("sync", "other", "--url", "no address", "--json")
    assert (refused.code, refused.document["error"]["code"]) == (2, "invalid")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_has_a_script_for_each_shell(shell: str, olmweb: Olmweb) -> None:
    script = olmweb("completion", shell).out
    assert f"_OLMWEB_COMPLETE={shell}_complete" in script


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("olmweb re", ["plain,readiness", "plain,resolve"]),
        ("olmweb token cr", ["plain,create"]),
        ("olmweb operators --health deg", ["plain,Degraded"]),
        ("olmweb resolve a b --method sub", ["plain,Subscription"]),
    ],
)
def test_commands_options_and_values_are_completed(typed: str, offered: list[str]) -> None:
    environment = os.environ | {
        "_OLMWEB_COMPLETE": "bash_complete",
        "COMP_WORDS": typed,
        "COMP_CWORD": str(len(typed.split()) - 1),
    }
    run = subprocess.run(
        [sys.executable, "-m", "olmweb.cli"],
        cwd=settings.BASE_DIR, env=environment, check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert run.stdout.split() == offered


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("operators --cluster e", ["edge"]),
        ("operators arg", ["argocd"]),
        ("audit prod community", []),
        ("audit prod edge/", ["edge/community-operators"]),
    ],
)
def test_names_are_completed_from_the_server(
    typed: str, offered: list[str], world: World, server: str, bob: User,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("OLMWEB_SERVER", server)
    monkeypatch.setenv("OLMWEB_TOKEN", ApiToken.issue(bob.pk, "read")[0])
    *words, incomplete = typed.split()
    completing = ShellComplete(root, {}, "olmweb", "_OLMWEB_COMPLETE")
    assert [item.value for item in completing.get_completions(words, incomplete)] == offered
    monkeypatch.setenv("OLMWEB_SERVER", f"http://127.0.0.1:{free_port()}")
    assert completing.get_completions(words, incomplete) == []
