"""Facts for resolution from rows: what was synced is what is asked."""

from typing import Any

import pytest

from catalogs.install_methods import InstallMethod
from catalogs.models import Catalog, Package
from catalogs.resolve import resolve
from catalogs.resolve.stored import facts_of
from catalogs.sync.catalog import sync_catalog
from tests.worlds.fbc import bundle_blob, channel_blob, csv_metadata, jsonl, package_blob

pytestmark = pytest.mark.django_db
GVK = {"type": "olm.gvk.required", "value": {"group": "g", "version": "v1", "kind": "K"}}
NEEDS = {"type": "olm.package.required", "value": {"packageName": "x", "versionRange": ">=1.0.0"}}


def synced(path, blobs):
    source = path / "catalog.jsonl"
    source.write_bytes(jsonl(blobs))
    catalog = Catalog.objects.create(
        name="made", slug="made", source_kind="File", source=str(source)
    )
    assert sync_catalog(catalog).outcome == "changed"
    return Package.objects.get(catalog=catalog)


def test_facts_of_rows_are_those_of_the_blobs(tmp_path):
    substitute = csv_metadata(annotations={"olm.substitutesFor": "etcd.v1.0.0"})
    entries: list[dict[str, Any]] = [
        {"name": "etcd.v1.0.0"},
        {"name": "etcd-v1.0.0-2", "replaces": "etcd.v1.0.0", "skipRange": "<1.0.0"},
        {"name": "etcd.v1.1.0", "replaces": "etcd-v1.0.0-2", "skips": ["etcd.v1.0.0"]},
    ]
    deprecated = {
        "schema": "olm.deprecations",
        "package": "etcd",
        "entries": [
            {"reference": {"schema": "olm.bundle", "name": "etcd.v1.0.0"}, "message": "old"}
        ],
    }
    package = synced(
        tmp_path,
        [
            package_blob(),
            channel_blob(entries=entries),
            bundle_blob("1.1.0", properties=[GVK, NEEDS]),
            bundle_blob("1.0.0+2", csv=substitute, name="etcd-v1.0.0-2"),
            bundle_blob("1.0.0", properties=[NEEDS]),
            deprecated,
        ],
    )
    facts = facts_of(package)
    bundles = facts.by_name()
    assert [bundle.name for bundle in facts.bundles] == [
        "etcd.v1.1.0",
        "etcd-v1.0.0-2",
        "etcd.v1.0.0",
    ]
    assert bundles["etcd-v1.0.0-2"].version == "1.0.0+2"
    assert bundles["etcd.v1.1.0"].dependencies == ("olm.gvk.required", "olm.package.required")
    assert bundles["etcd.v1.0.0"].dependencies == ("olm.package.required",)
    assert bundles["etcd.v1.0.0"].deprecated
    assert [entry.skip_range for entry in facts.channels["stable"]] == ["", "<1.0.0", ""]
    refused = resolve(facts, InstallMethod.CLUSTER_EXTENSION, installed="etcd-v1.0.0-2")
    assert (refused.bundle, refused.blocked_by) == ("", "dependency")
    assert '"olm.gvk.required"' in refused.message
    assert (
        resolve(facts, InstallMethod.CLUSTER_EXTENSION, version="1.0.0").bundle == "etcd-v1.0.0-2"
    )


@pytest.mark.data
def test_facts_of_a_real_catalogs_rows_are_those_of_its_blobs(shared_data):
    from tests.catalogs.resolve import test_resolve_reference as raw

    path = shared_data / "catalogs" / "community-4.20.jsonl.xz"
    catalog = Catalog.objects.create(name="r", slug="r", source_kind="File", source=str(path))
    assert sync_catalog(catalog).outcome == "changed"
    packages = raw.raw_packages(path)
    for package in Package.objects.filter(catalog=catalog):
        ours, theirs = facts_of(package), raw.facts_of(package.name, packages[package.name])
        assert ours.by_name() == theirs.by_name()
        assert ours.default_channel == theirs.default_channel
        assert {name: set(entries) for name, entries in ours.channels.items()} == {
            name: set(entries) for name, entries in theirs.channels.items()
        }


def test_facts_cost_a_fixed_number_of_queries(tmp_path, django_assert_max_num_queries):
    versions = [f"1.{number}.0" for number in range(60)]
    entries = [{"name": f"etcd.v{version}"} for version in versions]
    package = synced(
        tmp_path,
        [package_blob(), channel_blob(entries=entries), *map(bundle_blob, versions)],
    )
    with django_assert_max_num_queries(4):
        assert len(facts_of(package).bundles) == 60
