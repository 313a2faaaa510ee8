"""Faulty content and broken sources: each is told, the sound rest and the last good stay."""

import gzip

import pytest

from catalogs.models import (
    BlobRef,
    Bundle,
    ChannelEntry,
    ContentProblem,
)
from catalogs.sources.base import Limits
from catalogs.sync.catalog import sync_catalog
from olmweb.models import SyncRun
from tests.worlds.fbc import bundle_blob, channel_blob, csv_metadata, jsonl, package, package_blob
from tests.worlds.syncing import make, rewrite, snapshot

pytestmark = pytest.mark.django_db


@pytest.fixture
def folder(tmp_path):
    return tmp_path


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
        assert len(jsonl(package())) <= at < len(jsonl([*package(), *FAULTY[what]]))


UNSTORABLE = {
    "a nul in a text": bundle_blob(package="bad", csv=csv_metadata(displayName="x\0y")),
    "a nul in a name": channel_blob("bad", "a\0b"),
    "a nul in a schema": {"schema": "a\0b", "package": "bad"},
    "a nul in the name of a package": {"schema": "olm.channel", "name": "a", "package": "ba\0d"},
    "a nul in a name too long": channel_blob("bad", "\0" * 400),
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
