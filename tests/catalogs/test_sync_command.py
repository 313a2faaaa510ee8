"""`manage.py sync_catalog`: what it prints, how it exits."""

import json
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from catalogs import sync
from catalogs.models import (
    Catalog,
)
from tests.catalogs.fbc_samples import (
    jsonl,
    package,
)
from tests.catalogs.syncing import make, rewrite

pytestmark = pytest.mark.django_db


@pytest.fixture
def folder(tmp_path):
    return tmp_path


def command(*args: str) -> tuple[dict, int]:
    out, code = StringIO(), 0
    try:
        call_command("sync_catalog", "--json", *args, stdout=out)
    except SystemExit as stop:
        code = int(str(stop.code))
    return json.loads(out.getvalue()), code


def test_the_command_prints_one_json_object(folder):
    path = folder / "c.jsonl"
    path.write_bytes(jsonl(package()))
    printed, code = command("demo", "--file", str(path))
    assert code == 0
    assert list(printed) == [
        *("catalog", "outcome", "packages", "channels", "bundles", "problems", "rows_written"),
        *("bytes_read", "requests", "seconds", "peak_rss_mb", "error"),
    ]
    assert (printed["catalog"], printed["outcome"], printed["bundles"]) == ("-/demo", "changed", 2)
    for name in (["demo"], ["--", "-/demo"]):
        printed, code = command(*name)
        assert (printed["outcome"], printed["rows_written"], code) == ("unchanged", 1, 0)
    assert command("demo", "--force")[0]["outcome"] == "changed"


def test_the_command_exits_1_on_a_failed_sync(folder):
    printed, code = command("demo", "--file", str(folder / "no"))
    assert (printed["outcome"], code) == ("failed", 1)
    assert "can't be opened" in printed["error"]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["nobody"], 'No catalog is called "nobody" (known: none)'),
        (["a/b", "--file", "x"], "can't name a catalog"),
        (["a b", "--file", "x"], "can't name a catalog"),
    ],
)
def test_the_command_says_what_is_wrong_with_a_name(args, words):
    with pytest.raises(CommandError) as caught:
        call_command("sync_catalog", *args)
    assert words in str(caught.value)


def test_a_source_of_an_unreadable_kind_is_told(folder):
    catalog = Catalog.objects.create(name="i", slug="i", source_kind="PackageManifest")
    result = sync.sync_catalog(catalog)
    assert (result.outcome, result.error_code) == ("failed", "source-kind")


def test_the_command_shows_progress_on_a_terminal_only(folder, monkeypatch, capsys):
    catalog = make(folder, [*package(), *package("redis")])
    command("demo")
    assert "packages" not in capsys.readouterr().err.replace("packages=", "")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    rewrite(catalog, package("redis", ("3.0.0",)))
    printed, _ = command("demo")
    assert printed["outcome"] == "changed"
    shown = capsys.readouterr().err
    assert "reading [" in shown
    assert "] 1 of 1 packages\n" in shown
