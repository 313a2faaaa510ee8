"""Syncing: what is written, what is left alone, and that a failure leaves the last good content."""

import gzip
import json
from io import StringIO
from pathlib import Path

import pytest
import zstandard
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

from catalogs import content, sync
from catalogs.models import (
    Blob,
    BlobRef,
    Bundle,
    BundleGVK,
    Catalog,
    CatalogChange,
    CatalogRevision,
    Channel,
    ChannelEntry,
    ContentProblem,
    Icon,
    Package,
    PackageText,
    RelatedImage,
)
from catalogs.sources.base import Limits
from catalogs.sources.url import url_source
from catalogs.sync import sync_catalog
from olmweb.models import SyncRun
from tests.catalogs.catalogfake import catalog_fake
from tests.catalogs.fbc_samples import (
    bundle_blob,
    channel_blob,
    csv_metadata,
    jsonl,
    package,
    package_blob,
)

PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
    "+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
TABLES = (
    *(Package, PackageText, Channel, ChannelEntry, Bundle, BundleGVK, RelatedImage, Blob, BlobRef),
    *(ContentProblem, Icon, CatalogRevision, CatalogChange),
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def folder(tmp_path):
    return tmp_path


def make(folder, blobs, name="demo") -> Catalog:
    """A catalog read from a file that holds these blobs (or bytes)."""
    path = folder / f"{name}.jsonl"
    catalog, _ = Catalog.objects.get_or_create(
        cluster=None, slug=name, name=name, source_kind="File", source=str(path)
    )
    rewrite(catalog, blobs)
    return catalog


def rewrite(catalog: Catalog, blobs) -> None:
    Path(catalog.source).write_bytes(blobs if isinstance(blobs, bytes) else jsonl(blobs))


def snapshot(catalog: Catalog, *, besides: str = "no such") -> dict[str, list[dict]]:
    """Every row of the catalog's content (of all packages but `besides`), primary keys included."""
    own = {
        Package: Package.objects.filter(catalog=catalog).exclude(name=besides),
        BlobRef: BlobRef.objects.filter(catalog=catalog).exclude(package=besides),
        ContentProblem: ContentProblem.objects.filter(catalog=catalog).exclude(package=besides),
    }
    packages = own[Package].values("id")
    own |= {
        PackageText: PackageText.objects.filter(package__in=packages),
        Channel: Channel.objects.filter(package__in=packages),
        ChannelEntry: ChannelEntry.objects.filter(channel__package__in=packages),
        Bundle: Bundle.objects.filter(package__in=packages),
        BundleGVK: BundleGVK.objects.filter(bundle__package__in=packages),
        RelatedImage: RelatedImage.objects.filter(bundle__package__in=packages),
    }
    return {
        model.__name__: sorted(rows.values(), key=lambda row: str(row))
        for model, rows in own.items()
    }


def test_a_package_is_written_with_everything_derived_from_it(folder):
    blobs = package()
    blobs[0]["icon"] = {"base64data": PIXEL, "mediatype": "image/svg+xml"}
    catalog = make(folder, blobs)
    result = sync_catalog(catalog)
    assert (result.outcome, result.error) == ("changed", "")
    assert (result.packages, result.channels, result.bundles, result.problems) == (1, 1, 2, 0)

    found = Package.objects.get()
    assert (found.display_name, found.provider) == ("Etcd", "Example Corp")
    assert found.summary == "A key-value store"
    assert (found.default_channel, found.head_bundle) == ("stable", "etcd.v1.1.0")
    assert found.head_version == "1.1.0"
    assert (found.categories, found.keywords) == (["Database", "Storage"], ["Keys", "values"])
    assert found.capability == "Deep Insights"
    assert found.infrastructure_features == ["disconnected", "fips-compliant"]
    assert found.install_modes == ["AllNamespaces"]
    assert "etcdcluster" in found.search_text
    assert found.search_text == found.search_text.lower()
    assert found.icon is not None
    assert found.icon.media_type == "image/png"
    assert "<h" in found.text.description_html
    assert "<b>" not in found.text.description_html
    assert found.text.links == [{"name": "Home", "url": "https://example.org/"}]
    assert found.text.maintainers == [{"name": "Ada", "email": "ada@example.org"}]

    channel = Channel.objects.get()
    assert (channel.head, channel.head_version, channel.is_default) == (
        "etcd.v1.1.0",
        "1.1.0",
        True,
    )
    assert list(channel.entries.values_list("name", "replaces")) == [
        ("etcd.v1.0.0", ""),
        ("etcd.v1.1.0", "etcd.v1.0.0"),
    ]
    newest = Bundle.objects.first()
    assert newest is not None
    assert (newest.name, newest.image) == ("etcd.v1.1.0", "registry.example/etcd:1.1.0")
    assert newest.gvks.get().kind == "EtcdCluster"
    assert newest.related_images.get().image == "registry.example/etcd-run:1.1.0"
    catalog.refresh_from_db()
    assert (catalog.state, catalog.revision, catalog.package_count) == ("serving", 1, 1)
    run = SyncRun.objects.get()
    assert (run.outcome, run.target, run.counts["bundles"]) == ("changed", "-/demo", 2)


def test_every_blob_can_be_had_back_byte_for_byte(folder):
    text = b'{"schema": "olm.package",  "name":"etcd" , "defaultChannel":"\\u0061"}'
    catalog = make(folder, text + b"\n" + jsonl(package()[1:]))
    sync_catalog(catalog)
    ref = BlobRef.objects.get(schema="olm.package")
    assert zstandard.decompress(ref.blob.data) == text
    assert ref.blob.size == len(text)
    assert Bundle.objects.filter(blob=None).count() == 0


def test_yaml_documents_are_kept_as_they_were_written(folder):
    document = b"schema: olm.package\nname: etcd\ndefaultChannel: stable # the only one"
    catalog = make(folder, b"---\n" + document + b"\n---\nschema: x\nname: y\n")
    sync_catalog(catalog)
    assert Package.objects.get().default_channel == "stable"
    kept = BlobRef.objects.get(schema="olm.package").blob.data
    assert zstandard.decompress(kept) == document


def test_an_unchanged_file_costs_one_row_and_one_query(folder):
    catalog = make(folder, package())
    sync_catalog(catalog)
    before = snapshot(catalog)
    with CaptureQueriesContext(
        connection,
    ) as queries:
        result = sync_catalog(catalog)
    assert (result.outcome, result.rows_written, result.bytes_read) == ("unchanged", 1, 0)
    assert len(queries) == 1
    assert queries[0]["sql"].startswith("UPDATE")
    assert snapshot(catalog) == before
    assert SyncRun.objects.count() == 1


def test_the_same_content_in_a_new_file_costs_one_row(folder):
    catalog = make(folder, package())
    sync_catalog(catalog)
    (folder / "demo.jsonl").unlink()
    rewrite(catalog, gzip.compress(jsonl(package())))
    with CaptureQueriesContext(connection) as queries:
        result = sync_catalog(catalog)
    assert (result.outcome, result.rows_written, len(queries)) == ("unchanged", 1, 1)


def test_a_resolved_digest_that_is_ours_already_asks_nobody(folder):
    catalog = make(folder, package())
    catalog.resolved_digest = "r/i@sha256:1"
    sync_catalog(catalog)
    catalog.source = "/nowhere"
    result = sync_catalog(catalog)
    assert (result.outcome, result.requests, result.rows_written) == ("unchanged", 0, 1)


def test_force_reads_and_writes_everything_again(folder):
    catalog = make(folder, package())
    sync_catalog(catalog)
    Bundle.objects.update(display_name="damaged")
    result = sync_catalog(catalog, force=True)
    assert (result.outcome, result.counts["changed"]) == ("changed", 1)
    assert not Bundle.objects.filter(display_name="damaged").exists()


def test_new_rules_of_derivation_write_everything_again(folder):
    catalog = make(folder, package())
    sync_catalog(catalog)
    Catalog.objects.update(derivation=0)
    catalog.refresh_from_db()
    assert sync_catalog(catalog).outcome == "changed"


def test_one_changed_package_touches_only_its_own_rows(folder):
    blobs = [*package("etcd"), *package("redis")]
    catalog = make(folder, blobs)
    sync_catalog(catalog)
    before, kept_id = snapshot(catalog, besides="redis"), Package.objects.get(name="redis").pk
    rewrite(catalog, [*package("etcd"), *package("redis", ("1.0.0", "1.1.0", "1.2.0"))])
    result = sync_catalog(catalog)
    assert result.counts | {"changed": 1, "added": 0, "removed": 0} == result.counts
    assert snapshot(catalog, besides="redis") == before
    assert Package.objects.get(name="redis").pk == kept_id
    assert list(CatalogChange.objects.values_list("kind", "package", "subject", "after")) == [
        ("bundle added", "redis", "redis.v1.2.0", ""),
        ("channel head moved", "redis", "stable", "redis.v1.2.0"),
    ]


def test_changes_name_what_was_added_removed_moved_and_deprecated(folder):
    catalog = make(folder, [*package("etcd"), *package("redis")])
    sync_catalog(catalog)
    assert CatalogChange.objects.count() == 0
    blobs = package("etcd")
    blobs[0]["defaultChannel"] = "fast"
    blobs[1]["name"] = "fast"
    deprecations = {
        "schema": "olm.deprecations",
        "package": "etcd",
        "entries": [
            {"reference": {"schema": "olm.package"}, "message": "use another"},
            {"reference": {"schema": "olm.channel", "name": "fast"}, "message": "slow"},
            {"reference": {"schema": "olm.bundle", "name": "etcd.v1.0.0"}, "message": "old"},
        ],
    }
    rewrite(catalog, [*blobs, deprecations, *package("mongo")])
    sync_catalog(catalog)
    assert set(CatalogChange.objects.values_list("kind", "package", "subject")) == {
        ("package added", "mongo", ""),
        ("package removed", "redis", ""),
        ("default channel changed", "etcd", ""),
        ("channel head moved", "etcd", "stable"),
        ("channel head moved", "etcd", "fast"),
        ("deprecated", "etcd", ""),
        ("deprecated", "etcd", "fast"),
        ("deprecated", "etcd", "etcd.v1.0.0"),
    }
    found = Package.objects.get(name="etcd")
    assert (found.deprecated, found.deprecation) == (True, "use another")
    assert found.channels.get().deprecation == "slow"
    assert found.bundles.get(deprecated=True).deprecation == "old"


def test_two_catalogs_share_blobs_and_never_touch_each_other(folder):
    first = make(folder, [*package("etcd"), *package("redis")], "first")
    second = make(folder, package("etcd"), "second")
    sync_catalog(first)
    before = snapshot(first)
    sync_catalog(second)
    assert snapshot(first) == before
    assert Blob.objects.count() == 8
    rewrite(second, package("mongo"))
    sync_catalog(second)
    assert snapshot(first) == before
    rewrite(first, package("redis"))
    kept = snapshot(second)
    sync_catalog(first)
    assert snapshot(second) == kept
    assert Blob.objects.count() == 8  # etcd's are gone, nobody holds them


def test_an_icon_without_a_package_is_collected(folder):
    blobs = package()
    blobs[0]["icon"] = {"base64data": PIXEL, "mediatype": "image/png"}
    catalog = make(folder, blobs)
    sync_catalog(catalog)
    assert Icon.objects.count() == 1
    rewrite(catalog, package())
    sync_catalog(catalog)
    assert Icon.objects.count() == 0


def test_unknown_blobs_are_kept_whatever_they_lack(folder):
    odd = [
        {"schema": "x"},
        {"schema": "x", "name": "n"},
        {"schema": "x", "package": "etcd"},
        {"schema": "x", "package": "etcd", "name": "n", "value": [1.5, None]},
        {"schema": "x", "package": None, "name": None},
        {"schema": "x", "package": "nobody"},
    ]
    catalog = make(folder, [*package(), *odd])
    result = sync_catalog(catalog)
    assert (result.outcome, result.packages, result.problems) == ("changed", 1, 0)
    assert sorted(BlobRef.objects.filter(schema="x").values_list("package", "name")) == [
        ("", ""),
        ("", ""),
        ("", "n"),
        ("etcd", ""),
        ("etcd", "n"),
        ("nobody", ""),
    ]
    before = snapshot(catalog)
    rewrite(catalog, [*package(), *odd, *package("redis")])
    assert sync_catalog(catalog).counts["changed"] == 0
    assert snapshot(catalog, besides="redis") == before
    rewrite(catalog, package())
    assert sync_catalog(catalog).counts["removed"] == 1
    assert BlobRef.objects.filter(schema="x").count() == 0


FAULTY = {
    "a package without channels": [package_blob("bad")],
    "an entry without a bundle": [
        package_blob("bad"),
        channel_blob("bad", "stable", [{"name": "no"}]),
    ],
    "two bundles of one name": [
        package_blob("bad"),
        channel_blob("bad", "stable", [{"name": "bad.v1.0.0"}]),
        bundle_blob(package="bad"),
        bundle_blob(package="bad", image="registry.example/other"),
    ],
    "null properties": [
        package_blob("bad"),
        channel_blob("bad", "stable", [{"name": "bad.v1.0.0"}]),
        {**bundle_blob(package="bad"), "properties": None},
    ],
    "entries of a wrong type": [package_blob("bad"), {**channel_blob("bad"), "entries": ["x", 5]}],
    "bundles of no package": [bundle_blob(package="bad"), channel_blob("bad")],
}


@pytest.mark.parametrize("what", FAULTY)
def test_a_faulty_package_is_told_and_the_sound_one_served(folder, what):
    catalog = make(folder, [*package(), *FAULTY[what]])
    result = sync_catalog(catalog)
    assert (result.outcome, result.error) == ("changed", "")
    assert Bundle.objects.filter(package__name="etcd").count() == 2
    problems = ContentProblem.objects.filter(catalog=catalog)
    assert result.problems == problems.count() > 0
    assert set(problems.values_list("package", "severity")) == {("bad", "error")}
    for at in problems.values_list("offset", flat=True):
        assert at is not None
        assert jsonl([*package(), *FAULTY[what]])[at : at + 10] == b'{"schema":'


UNSTORABLE = {
    "a nul in a text": bundle_blob(package="bad", csv=csv_metadata(displayName="x\0y")),
    "a nul in a name": channel_blob("bad", "a\0b"),
    "half a character": bundle_blob(package="bad", csv=csv_metadata(displayName="\ud800")),
    "a bundle's name": bundle_blob(package="bad", name="n" * 501),
    "a channel's name": channel_blob("bad", "c" * 301),
    "a package's name": package_blob("p" * 254),
    "a schema": {"schema": "s" * 254},
}


@pytest.mark.parametrize("what", UNSTORABLE)
def test_a_blob_that_no_database_can_hold_is_left_out_and_told(folder, what):
    result = sync_catalog(make(folder, [*package(), UNSTORABLE[what]]))
    assert (result.outcome, result.packages, result.bundles) == ("changed", 1, 2)
    assert ContentProblem.objects.filter(package="").exists() or what == "half a character"


def test_texts_longer_than_their_column_are_cut(folder):
    blobs = package()
    blobs[2]["properties"][2] = csv_metadata(displayName="d" * 1000, minKubeVersion="1" * 100)
    blobs[1]["entries"][0]["skipRange"] = "<1.0.0 || " * 300 + "<2.0.0"
    blobs[0]["defaultChannel"] = "e" * 400
    assert sync_catalog(make(folder, blobs)).outcome == "changed"
    found = Bundle.objects.get(name="etcd.v1.0.0")
    assert (len(found.display_name), len(found.min_kube_version)) == (300, 60)
    assert len(ChannelEntry.objects.get(ordinal=0).skip_range) == 500


def test_a_written_backslash_before_u0000_is_no_nul(folder):
    blobs = package()
    blobs[2]["properties"][2] = csv_metadata(displayName="\\u0000")
    assert sync_catalog(make(folder, blobs)).problems == 0


def test_bundles_of_one_name_are_all_kept_in_order(folder):
    sync_catalog(make(folder, FAULTY["two bundles of one name"]))
    rows = Bundle.objects.order_by("ordinal").values_list("name", "ordinal", "image")
    assert list(rows) == [
        ("bad.v1.0.0", 0, "registry.example/bad:1.0.0"),
        ("bad.v1.0.0", 1, "registry.example/other"),
    ]


def test_a_blob_over_the_cap_is_left_out_and_told(folder):
    blobs = package()
    blobs.append({"schema": "x", "name": "huge", "value": "y" * 20_000})
    result = sync_catalog(make(folder, blobs), limits=Limits(blob=10_000))
    assert (result.outcome, result.problems) == ("changed", 1)
    problem = ContentProblem.objects.get()
    assert problem.code == "blob-too-large"
    assert "larger than the 10,000 bytes that one blob may have" in problem.message
    assert not BlobRef.objects.filter(name="huge").exists()


def test_problems_of_no_package_are_left_alone_until_they_change(folder):
    bad = b'{"schema":"s","x":nope}\n'
    catalog = make(folder, bad + jsonl(package()))
    sync_catalog(catalog)
    before = list(ContentProblem.objects.values())
    assert len(before) == 1
    rewrite(catalog, bad + jsonl([*package(), *package("redis")]))
    sync_catalog(catalog)
    assert list(ContentProblem.objects.values()) == before
    rewrite(catalog, jsonl(package()))
    sync_catalog(catalog)
    assert ContentProblem.objects.count() == 0


BROKEN = {
    "a truncated gzip": (gzip.compress(jsonl(package()))[:-20], "cut-short", "cut short: the gzip"),
    "an empty file": (b"", "empty", "is empty."),
    "a web page": (b"<!doctype html>\n<p>Hi", "not-fbc", "is not a file-based catalog"),
    "JSON of something else": (b'{"a": 1}\n', "not-fbc", "is not a file-based catalog"),
    "a yaml alias bomb": (
        b"schema: s\na: &a [x]\n" + b"".join(b"b%d: [*a, *a]\n" % i for i in range(40)),
        "not-fbc",
        "more YAML aliases",
    ),
    "a nesting bomb": (b'{"schema":' + b"[" * 200_000, "not-fbc", "nests too deep"),
    "the start of a catalog": (jsonl(package())[:-30], "cut-short", "in the middle of the blob"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_source_leaves_the_last_good_content_and_one_sentence(folder, what):
    catalog = make(folder, package())
    sync_catalog(catalog)
    before = snapshot(catalog)
    body, code, words = BROKEN[what]
    rewrite(catalog, body)
    result = sync_catalog(catalog)
    assert (result.outcome, result.error_code, result.packages) == ("failed", code, 1)
    assert words in result.error
    assert catalog.source in result.error
    assert snapshot(catalog) == before
    catalog.refresh_from_db()
    assert (catalog.state, catalog.error_text, catalog.stale) == ("failed", result.error, True)
    assert catalog.failing_since is not None
    assert catalog.error_hint
    assert SyncRun.objects.first().error_text == result.error  # type: ignore[union-attr]
    rewrite(catalog, package("redis"))
    assert sync_catalog(catalog).outcome == "changed"
    catalog.refresh_from_db()
    assert (catalog.state, catalog.error_text) == ("serving", "")
    assert catalog.failing_since is None


def test_dying_between_write_and_finish_leaves_the_last_good_content(folder, monkeypatch):
    catalog = make(folder, package())
    sync_catalog(catalog)
    before = snapshot(catalog)
    counts = {model: model.objects.count() for model in TABLES}
    rewrite(catalog, [*package("etcd", ("1.0.0", "2.0.0")), *package("redis")])
    wrote = content.Replacement._write_revision

    def dies(self, *args):
        wrote(self, *args)
        raise ZeroDivisionError

    monkeypatch.setattr(content.Replacement, "_write_revision", dies)
    with pytest.raises(ZeroDivisionError):
        sync_catalog(catalog)
    assert snapshot(catalog) == before
    assert {model: model.objects.count() for model in TABLES} == counts
    run = SyncRun.objects.first()
    assert run is not None
    assert (run.outcome, run.error_code) == ("failed", "internal")
    monkeypatch.undo()
    catalog.refresh_from_db()
    assert (catalog.state, catalog.revision) == ("failed", 1)
    assert sync_catalog(catalog).outcome == "changed"
    assert set(Package.objects.values_list("name", flat=True)) == {"etcd", "redis"}


def test_a_run_that_was_killed_is_closed_by_the_next_one(folder):
    SyncRun.objects.create(kind="catalog", target="-/demo")
    sync_catalog(make(folder, package()))
    assert set(SyncRun.objects.values_list("outcome", "error_code")) == {
        ("failed", "interrupted"),
        ("changed", ""),
    }


def test_syncing_twice_gives_the_same_rows(folder):
    catalog = make(folder, [*package(), *package("redis")])
    sync_catalog(catalog)
    once = {model: model.objects.count() for model in TABLES}
    sync_catalog(catalog, force=True)
    again = {model: model.objects.count() for model in TABLES}
    assert again | {CatalogRevision: 1} == once


def test_a_url_answers_304_and_404_and_content_stays(folder):
    with catalog_fake() as fake:
        fake.body = jsonl(package())
        source = url_source(fake.url, allow_loopback=True, whole_lines=True)
        catalog = make(folder, package())
        assert sync_catalog(catalog, source=source).outcome == "changed"
        assert catalog.last_modified == fake.last_modified
        result = sync_catalog(catalog, source=source)
        assert (result.outcome, result.requests, result.bytes_read) == ("unchanged", 1, 0)
        before = snapshot(catalog)
        fake.script = [404]
        result = sync_catalog(catalog, source=source)
        assert (result.outcome, result.error_code) == ("failed", "not-ready")
        assert snapshot(catalog) == before


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
    catalog = Catalog.objects.create(name="i", slug="i", source_kind="Image", source="r/i")
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
    assert "] 1 of 1 packages\n" in capsys.readouterr().err
