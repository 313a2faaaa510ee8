"""What one database takes and the other refuses: numbers, lengths, NUL, given keys, order."""

import pytest
from django.db import transaction

from catalogs.models import Blob, BlobRef, Bundle, BundleGVK, Catalog, Channel, Package
from catalogs.semver import sort_key
from catalogs.sync.catalog import sync_catalog
from catalogs.sync.cluster_catalogs import record_cluster_catalogs
from olmweb.models import Cluster
from tests.factories import make_cluster
from tests.worlds.fbc import jsonl, package

pytestmark = pytest.mark.django_db

KEPT = ("type", "status", "reason", "message", "lastTransitionTime")
VERSIONS = (  # in semver's order
    *("0.0.1-0", "0.0.1-1", "0.0.1-2", "0.0.1-10", "0.0.1-A", "0.0.1-Z", "0.0.1-a", "0.0.1-a.1"),
    *("0.0.1-a.b", "0.0.1-a-b", "0.0.1-ab", "0.0.1", "0.9.0", "0.10.0", "1.0.0", "2.0.0"),
    *("10.0.0", "18446744073709551615.0.0"),
)


@pytest.fixture
def cluster() -> Cluster:
    return make_cluster()


def one(name: object = "odd", *, priority: object = 0, text: object = "") -> dict[str, object]:
    """A ClusterCatalog with `text` wherever a text belongs."""
    image = {"image": {"ref": text}}
    return {
        "metadata": {"name": name},
        "spec": {"priority": priority, "availabilityMode": text, "source": image},
        "status": {
            "urls": {"base": text},
            "resolvedSource": image,
            "conditions": [{"type": text, "status": text, "message": text}],
        },
    }


@pytest.mark.parametrize("priority", ["x", 2**31, -(2**31) - 1, {"a": 1}, [1], 1.5, None])
def test_a_priority_out_of_its_range_counts_as_none(cluster: Cluster, priority: object) -> None:
    record_cluster_catalogs(cluster, [one(priority=priority)])
    assert Catalog.objects.get().priority == 0


@pytest.mark.parametrize("text", ["a\0b", "x" * 5000, {"a": "\0"}, 7, ["\0"], None])
def test_any_text_of_a_cluster_catalog_is_kept_as_far_as_it_fits(
    cluster: Cluster, text: object
) -> None:
    assert record_cluster_catalogs(cluster, [one(text=text)]) == 1
    catalog = Catalog.objects.get()
    assert "\0" not in f"{catalog.source}{catalog.base_url}{catalog.conditions}"
    assert record_cluster_catalogs(cluster, [one(text=text)]) == 0


@pytest.mark.parametrize(
    "odd",
    [{}, {"metadata": None}, {"metadata": []}, one(""), one("m" * 254), [], "text", None],
    ids=["empty", "null", "list", "no name", "long name", "a list", "a text", "nothing"],
)
def test_an_object_without_a_usable_name_does_not_stop_the_others(
    cluster: Cluster, odd: object
) -> None:
    record_cluster_catalogs(cluster, [odd, one("sound")])  # type: ignore[list-item]
    assert [catalog.name for catalog in Catalog.objects.all()] == ["sound"]


@pytest.mark.parametrize("part", ["spec", "status"])
@pytest.mark.parametrize("value", ["x", [1], 5, {"source": "x", "urls": [1], "conditions": 5}])
def test_a_part_of_another_type_counts_as_absent(
    cluster: Cluster, part: str, value: object
) -> None:
    record_cluster_catalogs(cluster, [{**one(), part: value}])
    assert Catalog.objects.get().conditions in ([], [dict.fromkeys(KEPT, "")])


def test_rows_made_after_a_sync_get_keys_of_their_own(tmp_path) -> None:
    path = tmp_path / "catalog.jsonl"
    path.write_bytes(jsonl(package()))
    catalog = Catalog.objects.create(name="x", slug="x", source_kind="File", source=str(path))
    assert sync_catalog(catalog).outcome == "changed"
    made = Package.objects.create(catalog=catalog, name="made", content_hash="h")
    Channel.objects.create(package=made, name="stable")
    bundle = Bundle.objects.create(package=made, name="made.v1")
    BundleGVK.objects.create(bundle=bundle, group="g", version="v1", kind="Kind")
    BlobRef.objects.create(catalog=catalog, package="x", ordinal=0, blob=Blob.objects.all()[0])
    path.write_bytes(jsonl([*package(), *package("beta")]))
    assert sync_catalog(catalog).outcome == "changed"
    assert sorted(Package.objects.values_list("name", flat=True)) == ["beta", "etcd"]


def test_a_sync_that_is_rolled_back_leaves_keys_usable(tmp_path) -> None:
    path = tmp_path / "catalog.jsonl"
    path.write_bytes(jsonl(package()))
    catalog = Catalog.objects.create(name="x", slug="x", source_kind="File", source=str(path))
    with transaction.atomic():
        sync_catalog(catalog)
        transaction.set_rollback(True)
    catalog = Catalog.objects.get(pk=catalog.pk)
    Package.objects.create(catalog=catalog, name="made", content_hash="h")
    assert sync_catalog(catalog).outcome == "changed"
    assert Package.objects.get().name == "etcd"


def test_the_database_sorts_bundles_as_semver_does() -> None:
    catalog = Catalog.objects.create(name="x", slug="x", source_kind="File")
    owner = Package.objects.create(catalog=catalog, name="p", content_hash="h")
    Bundle.objects.bulk_create(
        Bundle(package=owner, name=text, version=text, version_key=sort_key(text))
        for text in sorted(VERSIONS)
    )
    ordered = owner.bundles.order_by("version_key").values_list("version", flat=True)
    assert list(ordered) == list(VERSIONS)
