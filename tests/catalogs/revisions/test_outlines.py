"""Outlines of packages and what differs between two: pure, without a database."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from catalogs.fbc.bundle import ParsedBundle
from catalogs.graph import GraphEntry
from catalogs.models import CatalogChange
from catalogs.revisions.compare import ChangeKind, compare
from catalogs.revisions.outline import (
    BundleOutline,
    Outline,
    bundle_outline,
    channel_outline,
    decode,
    encode,
)

FACTS: dict[str, Any] = dict.fromkeys(ParsedBundle._fields, "") | {
    "name": "etcd.v1.0.0", "version": "1.0.0", "image": "registry.example/etcd:1",
    "install_modes": ["AllNamespaces"], "install_modes_known": True, "webhooks": None,
    "owned_api_services": 0, "required_packages": [{"name": "b", "range": "1"}],
    "constraint_count": 0, "gvks": [("g", "v1", "K", False)], "images": [("run", "r:1")],
}  # fmt: skip


def bundle(version: str = "1.0.0", blob: str = "aa", **fields: Any) -> BundleOutline:
    return bundle_outline(ParsedBundle(**{**FACTS, "version": version, **fields}), blob)


def outline(*versions: str, channel: str = "stable", **fields: Any) -> Outline:
    """One channel in which each version replaces the one before."""
    names = [f"etcd.v{version}" for version in versions]
    entries = [GraphEntry(name, before) for name, before in zip(names, ["", *names], strict=False)]
    head = names[-1] if names else ""
    values: dict[str, Any] = {
        "default_channel": channel,
        "channels": {channel: channel_outline(head, entries)},
        "bundles": {name: bundle(version) for name, version in zip(names, versions, strict=True)},
    }
    return Outline(**{**values, **fields})


def told(before: Outline | None, after: Outline | None, *, by_blob: bool = True) -> list[Any]:
    return [
        (change.kind, *change[2:]) for change in compare("etcd", before, after, by_blob=by_blob)
    ]


def test_the_kinds_are_those_of_the_rows() -> None:
    stored = [kind for kind in ChangeKind if kind != ChangeKind.DISPLAY_NAME_CHANGED]
    assert [kind.value for kind in stored] == CatalogChange.Kind.values
    assert [kind.name for kind in stored] == CatalogChange.Kind.names


def test_outlines_that_were_stored_without_requirements_are_compared_by_all_facts() -> None:
    def of(name: str, *, older: bool = False) -> Outline:
        row = bundle(blob=name.encode().hex(), display_name=name)
        row = structs.replace(row, requirements="") if older else row
        return outline("1.0.0", bundles={"etcd.v1.0.0": row})

    assert told(of("aa"), of("bb"), by_blob=False)[0][0] == "display name changed"
    assert told(of("aa", older=True), of("bb"), by_blob=False)[0][0] == "bundle changed"
    assert told(of("aa", older=True), of("aa"), by_blob=False) == []
    assert told(of("aa"), of("bb"))[0][0] == "bundle changed", "of one catalog"
    row = bundle()
    assert row.facts == "M3w3+igdC19V", "as stored in older outlines"
    older = json.dumps([row.version, row.image, row.blob, row.facts, row.images, row.whole])
    assert msgspec.json.decode(older, type=BundleOutline).requirements == ""


def test_an_outline_comes_back_as_it_was_and_equal_ones_have_equal_hashes() -> None:
    item = outline("1.0.0", "1.1.0", deprecated_bundles=["etcd.v1.0.0"])
    encoded = encode(item)
    assert decode(encoded.data) == item
    turned = structs.replace(
        item,
        bundles=dict(reversed(item.bundles.items())),
        channels=dict(reversed(item.channels.items())),
    )
    assert list(turned.bundles) != list(item.bundles)
    assert encode(turned) == encoded, "the order of blobs in a catalog means nothing"
    assert encode(outline("1.0.0")).content_hash != encoded.content_hash


def test_a_package_that_comes_or_goes_is_one_change_with_its_head() -> None:
    assert told(None, outline("1.0.0")) == [("package added", "", "", "etcd.v1.0.0")]
    assert told(outline("1.0.0"), None) == [("package removed", "", "etcd.v1.0.0", "")]
    assert told(None, None) == []


def test_a_new_version_is_an_added_bundle_and_a_moved_head() -> None:
    assert told(outline("1.0.0"), outline("1.0.0", "1.1.0")) == [
        ("bundle added", "etcd.v1.1.0", "", "1.1.0"),
        ("channel head moved", "stable", "etcd.v1.0.0", "etcd.v1.1.0"),
    ]


def test_versions_below_the_oldest_that_is_left_were_pruned_others_removed() -> None:
    before = outline("1.9.0", "1.10.0", "2.0.0", "2.1.0")
    assert told(before, outline("1.10.0", "2.1.0")) == [
        ("bundle pruned", "etcd.v1.9.0", "1.9.0", ""),
        ("bundle removed", "etcd.v2.0.0", "2.0.0", ""),
    ]
    assert told(before, outline("2.1.0"))[:3] == [
        ("bundle pruned", "etcd.v1.9.0", "1.9.0", ""),
        ("bundle pruned", "etcd.v1.10.0", "1.10.0", ""),
        ("bundle pruned", "etcd.v2.0.0", "2.0.0", ""),
    ]


def test_channels_come_go_and_become_the_default() -> None:
    assert told(outline("1.0.0"), outline("1.0.0", channel="fast")) == [
        ("channel added", "fast", "", "etcd.v1.0.0"),
        ("channel removed", "stable", "etcd.v1.0.0", ""),
        ("default channel changed", "", "stable", "fast"),
    ]


def test_a_bundle_that_leaves_a_channel_but_stays_in_the_catalog_is_told() -> None:
    before = outline("1.0.0", "1.1.0", "1.2.0")
    entries = [GraphEntry("etcd.v1.0.0", ""), GraphEntry("etcd.v1.2.0", "")]
    after = outline(
        "1.0.0", "1.1.0", "1.2.0", channels={"stable": channel_outline("etcd.v1.2.0", entries)}
    )
    assert told(before, after) == [("channel changed", "stable", "etcd.v1.1.0", "")]
    assert told(after, before) == [("channel changed", "stable", "", "etcd.v1.1.0")]


def test_other_edges_between_the_same_bundles_are_told_once() -> None:
    skipping = [
        GraphEntry("etcd.v1.0.0", ""),
        GraphEntry("etcd.v1.1.0", "", ("etcd.v1.0.0",)),
    ]
    after = outline("1.0.0", "1.1.0", channels={"stable": channel_outline("etcd.v1.1.0", skipping)})
    assert told(outline("1.0.0", "1.1.0"), after) == [("channel changed", "stable", "", "")]


def changed(**fields: Any) -> list[Any]:
    by_blob = fields.pop("by_blob", True)
    after = outline("1.0.0", bundles={"etcd.v1.0.0": bundle(**{"blob": "bb", **fields})})
    return told(outline("1.0.0"), after, by_blob=by_blob)


def test_another_content_under_the_same_name_is_a_changed_bundle() -> None:
    assert changed() == [("bundle changed", "etcd.v1.0.0", "", "")]
    assert changed(min_kube_version="1.30.0") == [("bundle changed", "etcd.v1.0.0", "", "")]
    assert changed(blob="aa", min_kube_version="1.30.0") == [], "the rules changed, not the bundle"


def test_the_same_bundle_written_in_another_way_is_no_change() -> None:
    assert changed(webhooks=0) == [], "olm.bundle.object instead of olm.csv.metadata"
    assert changed(by_blob=False) == [], "two catalogs may indent in two ways"
    assert changed(by_blob=False, min_kube_version="1.30.0") != []


def test_images_that_changed_are_told_and_the_bundle_s_own_one_is_named() -> None:
    assert changed(images=[("run", "r:2")]) == [("images changed", "etcd.v1.0.0", "", "")]
    assert changed(images=[("other name", "r:1"), ("", "r:1")], by_blob=False) == []
    assert changed(image="registry.example/etcd:2") == [
        ("images changed", "etcd.v1.0.0", "registry.example/etcd:1", "registry.example/etcd:2")
    ]


def test_deprecations_are_told_of_what_is_there_afterwards() -> None:
    marked = outline(
        "1.0.0", "1.1.0", deprecated=True,
        deprecated_channels=["stable", "gone"], deprecated_bundles=["etcd.v1.0.0"],
    )  # fmt: skip
    assert told(outline("1.0.0", "1.1.0"), marked) == [
        ("deprecated", "etcd.v1.0.0", "", "bundle"),
        ("deprecated", "gone", "", "channel"),
        ("deprecated", "stable", "", "channel"),
        ("deprecated", "", "", "package"),
    ]
    assert told(marked, outline("1.1.0")) == [
        ("bundle pruned", "etcd.v1.0.0", "1.0.0", ""),
        ("no longer deprecated", "stable", "channel", ""),
        ("no longer deprecated", "", "package", ""),
    ]


VERSIONS = st.lists(
    st.sampled_from(["1.0.0", "1.0.1", "1.1.0-rc.1", "1.1.0", "2.0.0", "no version"]), unique=True
)
OUTLINES = st.builds(
    lambda versions, channel, flag: outline(*versions, channel=channel, deprecated=flag),
    VERSIONS, st.sampled_from(["stable", "fast"]), st.booleans(),
)  # fmt: skip


@given(OUTLINES)
def test_nothing_differs_from_itself(one: Outline) -> None:
    assert told(one, decode(encode(one).data)) == []


@given(OUTLINES, OUTLINES)
def test_there_and_back_again_tell_the_same_things_the_other_way_round(
    one: Outline, other: Outline
) -> None:
    there, back = told(one, other), told(other, one)

    def subjects(changes: list[Any], *kinds: ChangeKind) -> set[str]:
        return {subject for kind, subject, *_ in changes if kind in kinds}

    removed = (ChangeKind.BUNDLE_REMOVED, ChangeKind.BUNDLE_PRUNED)
    assert subjects(there, ChangeKind.BUNDLE_ADDED) == subjects(back, *removed)
    assert subjects(there, *removed) == subjects(back, ChangeKind.BUNDLE_ADDED)
    assert subjects(there, ChangeKind.CHANNEL_ADDED) == subjects(back, ChangeKind.CHANNEL_REMOVED)
    assert bool(there) == bool(back) == (one != other)
    assert subjects(there, ChangeKind.BUNDLE_ADDED) == other.bundles.keys() - one.bundles.keys()


@pytest.mark.parametrize("sha256", ["", "ab" * 32])
def test_a_blob_may_be_unknown(sha256: str) -> None:
    assert len(bundle(blob=sha256).blob) == (12 if sha256 else 0)
