"""`manage.py sync_catalog`: what it prints, how it exits."""

import json
import os
import signal
import tarfile
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from catalogs.fbc.split import index_spool
from catalogs.models import Catalog, Package
from catalogs.sync import catalog as sync
from tests.factories import make_catalog, make_cluster
from tests.worlds.fbc import jsonl, package
from tests.worlds.image_registry_fake import registry_fake, status, tar
from tests.worlds.syncing import make, rewrite

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


def test_a_path_that_does_not_exist_leaves_no_catalog_behind_and_takes_none_away(folder):
    command("new", "--file", str(folder / "no"))
    assert not Catalog.objects.exists()
    path = folder / "c.jsonl"
    path.write_bytes(jsonl(package()))
    command("demo", "--file", str(path))
    command("demo", "--file", str(folder / "no"))
    assert Catalog.objects.get().packages.count() == 1


def test_a_catalog_that_a_person_added_is_deleted_by_a_command(folder):
    path = folder / "c.jsonl"
    path.write_bytes(jsonl(package()))
    command("demo", "--file", str(path))
    of_cluster = make_catalog(cluster=make_cluster())
    with pytest.raises(CommandError, match="follows its ClusterCatalog"):
        call_command("delete_catalog", str(of_cluster))
    out = StringIO()
    call_command("delete_catalog", "demo", "--json", stdout=out)
    assert json.loads(out.getvalue()) == {"catalog": "-/demo", "outcome": "deleted"}
    assert list(Catalog.objects.all()) == [of_cluster]
    with pytest.raises(CommandError, match="No catalog is called"):
        call_command("delete_catalog", "demo")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["nobody"], 'No catalog is called "nobody" (known: none)'),
        (["a/b", "--file", "x"], "can't name a catalog"),
        (["a b", "--file", "x"], "can't name a catalog"),
        (["a", "--image", "docker://x/y"], "begins with docker://. Leave docker:// out."),
        (["a", "--image", "quay.io/Team/x"], "holds capital letters. Write it as registry"),
        (["a", "--url", "ftp://x/y"], "ftp://x/y is not an http or https address. Give an http"),
    ],
)
def test_the_command_says_what_is_wrong_with_a_name(args, words):
    with pytest.raises(CommandError) as caught:
        call_command("sync_catalog", *args)
    assert words in str(caught.value)
    assert not Catalog.objects.exists()


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


def test_the_command_reads_a_folder_and_a_tar(folder):
    (folder / "c" / "sub").mkdir(parents=True)
    (folder / "c" / "etcd.json").write_bytes(jsonl(package()))
    (folder / "c" / "sub" / "redis.yaml").write_bytes(jsonl(package("redis")))
    printed, code = command("demo", "--file", str(folder / "c"))
    assert (printed["outcome"], printed["packages"], code) == ("changed", 2, 0)
    assert Catalog.objects.get().access_method == "directory"
    assert command("demo")[0]["bytes_read"] == 0
    with tarfile.open(folder / "c.tar.gz", "w:gz") as tar:
        tar.add(folder / "c", ".")
    printed, code = command("demo", "--file", str(folder / "c.tar.gz"))
    assert (printed["outcome"], printed["packages"], code) == ("unchanged", 2, 0)


def test_the_command_reads_an_image(settings):
    with registry_fake() as fake:
        settings.INSECURE_REGISTRIES = frozenset([fake.host])
        fake.image(tar(("configs/etcd.json", jsonl(package()))))
        printed, code = command("demo", "--image", f"{fake.host}/olm/catalog:v1")
        assert (printed["outcome"], printed["packages"], printed["requests"]) == ("changed", 1, 3)
        printed, code = command("demo")
        assert (printed["outcome"], printed["bytes_read"], code) == ("unchanged", 0, 0)
        fake.script = [status(404)]
        printed, code = command("demo", "--force")
        assert (printed["outcome"], printed["packages"], code) == ("failed", 1, 1)
        assert "is not in its registry: it answered 404" in printed["error"]


def test_ctrl_c_ends_the_sync_and_keeps_what_was_read_before(folder, monkeypatch):
    catalog = make(folder, package())
    assert command("demo")[0]["outcome"] == "changed"
    rewrite(catalog, package("redis"))

    def interrupted(*args, **kwargs):
        os.kill(os.getpid(), signal.SIGINT)
        return index_spool(*args, **kwargs)

    monkeypatch.setattr("catalogs.sync.catalog.index_spool", interrupted)
    handler = signal.getsignal(signal.SIGINT)
    printed, code = command("demo")
    assert code == 130
    assert printed["error"] == "The sync of -/demo was cancelled at the terminal."
    assert list(Package.objects.values_list("name", flat=True)) == ["etcd"]
    assert signal.getsignal(signal.SIGINT) is handler
    monkeypatch.undo()
    assert command("demo")[0]["outcome"] == "changed"
    assert list(Package.objects.values_list("name", flat=True)) == ["redis"]
