"""`manage.py createadmin`: the first administrator, at a terminal and without one."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command

from olmweb.management.commands import createadmin

PASSWORD = "a long enough one"


@pytest.fixture
def password(settings: Any) -> None:
    settings.ADMIN_PASSWORD = PASSWORD


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    call_command("createadmin", *arguments)
    return capsys.readouterr().out.strip()


def test_it_makes_a_superuser_once_and_leaves_an_existing_account_alone(
    db: None, password: None, settings: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(capsys) == 'Created the administrator "admin".'
    admin = User.objects.get(username="admin")
    assert admin.is_superuser
    assert admin.check_password(PASSWORD)
    settings.ADMIN_PASSWORD = "another long one"
    assert run(capsys) == 'There is a user "admin" already; nothing was changed.'
    assert User.objects.get(username="admin").check_password(PASSWORD)
    run(capsys, "--reset-password")
    assert User.objects.get(username="admin").check_password("another long one")
    run(capsys, "--username", "root")
    assert User.objects.filter(username="root", is_superuser=True).exists()


def test_an_account_without_rights_gets_none(
    db: None, password: None, capsys: pytest.CaptureFixture[str]
) -> None:
    User.objects.create_user("admin")
    run(capsys, "--reset-password")
    assert not User.objects.get(username="admin").is_superuser


@pytest.mark.parametrize(
    ("given", "arguments", "sentence"),
    [
        ("short", (), "The password of OLMWEB_ADMIN_PASSWORD can't be used. This password is too"),
        (PASSWORD, ("--username", "a b"), "Enter a valid username"),
        ("", (), "There is no terminal to ask for a password at: set OLMWEB_ADMIN_PASSWORD"),
    ],
)
def test_what_is_wrong_is_told_in_a_sentence(
    db: None, settings: Any, given: str, arguments: tuple[str, ...], sentence: str
) -> None:
    settings.ADMIN_PASSWORD = given
    with pytest.raises(CommandError, match=sentence):
        call_command("createadmin", *arguments)
    assert not User.objects.exists()


def test_the_first_start_makes_the_administrator_by_the_same_rules(
    transactional_db: None,  # the command closes its connection before it serves
    password: None,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    starts: list[int] = []
    monkeypatch.setattr("olmweb.serving.embedded.serve", lambda port, _: starts.append(port))
    settings.EMBEDDED, settings.CLUSTERS = True, []
    settings.ADMIN_PASSWORD = "short"
    with pytest.raises(CommandError, match="The password of OLMWEB_ADMIN_PASSWORD can't be used"):
        call_command("serve")
    assert not starts
    assert not User.objects.exists()
    settings.ADMIN_PASSWORD = PASSWORD
    call_command("serve")
    assert User.objects.get(username="admin").check_password(PASSWORD)
    settings.ADMIN_PASSWORD = "short"  # of no use any more: there is an administrator
    call_command("serve")
    assert len(starts) == 2
    assert capsys.readouterr().out.count("Created the administrator") == 1


def test_a_terminal_is_asked_twice(
    db: None, settings: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings.ADMIN_PASSWORD = ""
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    answers = iter([PASSWORD, PASSWORD, PASSWORD, "mistyped"])
    monkeypatch.setattr(createadmin, "getpass", lambda _: next(answers))
    run(capsys)
    assert User.objects.get(username="admin").check_password(PASSWORD)
    with pytest.raises(CommandError, match="The two passwords differ"):
        call_command("createadmin", "--username", "other")
