"""Syncing: what is written, what is left alone, and what a failure leaves behind."""

import gzip

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from catalogs.models import (
    Blob,
    BlobRef,
    Bundle,
    Catalog,
    CatalogChange,
    CatalogRevision,
    Channel,
    Icon,
    Package,
)
from catalogs.sources.http import url_source
from catalogs.storage.blobs import read_blob
from catalogs.sync import replace
from catalogs.sync.catalog import sync_catalog
from catalogs.sync.progress import Run
from olmweb.models import SyncRun
from tests.worlds.catalogd_fake import catalog_fake
from tests.worlds.fbc import jsonl, package
from tests.worlds.syncing import PIXEL, TABLES, make, rewrite, snapshot

pytestmark = pytest.mark.django_db


@pytest.fixture
def folder(tmp_path):
    return tmp_path


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
    assert "etcdcluster" in found.search.words.split()
    assert found.search.words == found.search.words.lower()
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
    assert read_blob(ref.blob_id) == text
    assert ref.blob.size == len(text)
    assert Bundle.objects.filter(blob=None).count() == 0


def test_yaml_documents_are_kept_as_they_were_written(folder):
    document = b"schema: olm.package\nname: etcd\ndefaultChannel: stable # the only one"
    catalog = make(folder, b"---\n" + document + b"\n---\nschema: x\nname: y\n")
    sync_catalog(catalog)
    assert Package.objects.get().default_channel == "stable"
    kept = BlobRef.objects.get(schema="olm.package")
    assert read_blob(kept.blob_id) == document


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


@pytest.mark.parametrize("before", [0, 2])  # 2 stored icons with nothing to draw
def test_new_rules_of_derivation_write_everything_again(folder, before):
    catalog = make(folder, package())
    sync_catalog(catalog)
    Catalog.objects.update(derivation=before)
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
        ("bundle added", "redis", "redis.v1.2.0", "1.2.0"),
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
        ("channel removed", "etcd", "stable"),
        ("channel added", "etcd", "fast"),
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
    # opm has nothing against unknown schemas, but null is no name.
    assert (result.outcome, result.packages, result.problems) == ("changed", 1, 2)
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


def test_dying_between_write_and_finish_leaves_the_last_good_content(folder, monkeypatch):
    catalog = make(folder, package())
    sync_catalog(catalog)
    before = snapshot(catalog)
    counts = {model: model.objects.count() for model in TABLES}
    rewrite(catalog, [*package("etcd", ("1.0.0", "2.0.0")), *package("redis")])
    wrote = replace.Replacement._write_revision

    def dies(self, *args):
        wrote(self, *args)
        raise ZeroDivisionError

    monkeypatch.setattr(replace.Replacement, "_write_revision", dies)
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


def test_a_catalog_whose_syncs_are_always_killed_says_so(folder):
    catalog = make(folder, package())
    for _ in range(2):
        catalog.refresh_from_db()
        Run(catalog, timezone.now()).report("reading", 0, 0)  # and the process dies
    catalog.refresh_from_db()
    assert catalog.error_code == "interrupted"
    assert "The process stopped in the middle" in catalog.error_text
    sync_catalog(catalog, force=True)
    catalog.refresh_from_db()
    assert (catalog.error_code, catalog.error_text, catalog.error_hint) == ("", "", "")


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
