"""Revisions as syncs leave them: outlines, changes, what is between any two, record."""

from datetime import timedelta
from math import ceil
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from catalogs.models import Catalog, CatalogChange, CatalogRevision, Package, PackageOutline
from catalogs.revisions import record
from catalogs.revisions.differences import (
    PACKAGES_AT_ONCE,
    differences,
    find_point,
    find_point_at,
    retained_revisions,
)
from catalogs.revisions.outline import decode
from catalogs.revisions.record import outline_of_rows
from catalogs.sync.catalog import sync_catalog
from catalogs.sync.deletion import delete_catalog
from installs import tasks
from olmweb.errors import Missing
from tests.factories import make_catalog
from tests.worlds.fbc import bundle_blob, channel_blob, package, package_blob
from tests.worlds.outlines import write_packages
from tests.worlds.syncing import make, rewrite

pytestmark = pytest.mark.django_db


def read(catalog: Catalog, *parts: list[dict[str, Any]]) -> Catalog:
    """The catalog after its file was rewritten and synced."""
    rewrite(catalog, [blob for part in parts for blob in part])
    assert sync_catalog(catalog).outcome == "changed"
    catalog.refresh_from_db()
    return catalog


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    """Two packages, read once."""
    return read(make(tmp_path, []), package("etcd"), package("redis"))


def spans() -> list[tuple[str, int, int | None]]:
    return list(PackageOutline.objects.values_list("package", "first", "last"))


def told(number: int) -> list[tuple[str, str, str]]:
    changes = CatalogChange.objects.filter(revision__number=number)
    return list(changes.values_list("kind", "package", "subject"))


def between(catalog: Catalog, first: int, last: int) -> list[tuple[str, str, str]]:
    points = find_point(catalog, first), find_point(catalog, last)
    return [
        (item.kind, item.package, item.subject) for d in differences(*points) for item in d.changes
    ]


NEWER = ("1.0.0", "1.1.0", "1.2.0")


def test_a_first_content_has_outlines_and_no_changes(catalog: Catalog) -> None:
    assert spans() == [("etcd", 1, None), ("redis", 1, None)]
    assert not CatalogChange.objects.exists()


def test_only_a_package_that_changed_gets_another_outline(catalog: Catalog) -> None:
    read(catalog, package("etcd", NEWER), package("redis"))
    assert spans() == [("etcd", 1, 1), ("etcd", 2, None), ("redis", 1, None)]
    assert told(2) == [
        ("bundle added", "etcd", "etcd.v1.2.0"),
        ("channel head moved", "etcd", "stable"),
    ]


def test_a_package_that_goes_and_comes_back_has_two_outlines_with_a_gap(catalog: Catalog) -> None:
    read(catalog, package("etcd"))
    read(catalog, package("etcd"), package("mongo"))
    read(catalog, package("etcd"), package("mongo"), package("redis"))
    assert spans() == [
        ("etcd", 1, None), ("mongo", 3, None), ("redis", 1, 1), ("redis", 4, None),
    ]  # fmt: skip
    assert [told(number) for number in (2, 3, 4)] == [
        [("package removed", "redis", "")],
        [("package added", "mongo", "")],
        [("package added", "redis", "")],
    ]


def test_what_a_text_alone_changes_is_no_news_of_the_package(catalog: Catalog) -> None:
    described = package("etcd")
    described[0]["description"] = "Another one."
    read(catalog, described, package("redis"))
    assert spans() == [("etcd", 1, None), ("redis", 1, None)]
    assert told(2) == []


def test_writing_everything_anew_changes_nothing(catalog: Catalog) -> None:
    assert sync_catalog(catalog, force=True).outcome == "changed"
    assert spans() == [("etcd", 1, None), ("redis", 1, None)]
    assert told(2) == []


def test_a_bundle_written_anew_under_its_name_is_told(catalog: Catalog) -> None:
    blobs = package("etcd")
    blobs[-1] = bundle_blob("1.1.0", "etcd", relatedImages=[{"name": "", "image": "q.example/z:9"}])
    blobs[-2]["properties"].append({"type": "note", "value": 1})
    read(catalog, blobs, package("redis"))
    assert told(2) == [
        ("bundle changed", "etcd", "etcd.v1.0.0"),
        ("images changed", "etcd", "etcd.v1.1.0"),
    ]


def test_blobs_whose_olm_package_went_are_a_package_less(catalog: Catalog) -> None:
    read(catalog, package("etcd")[1:], package("redis"))
    assert told(2) == [("package removed", "etcd", "")]
    assert spans() == [("etcd", 1, 1), ("redis", 1, None)]
    read(catalog, package("redis"), package("mongo"))
    assert told(3) == [("package added", "mongo", "")], "what was left of etcd is no package"


def test_a_catalog_read_before_outlines_were_kept_goes_on_without_false_changes(
    catalog: Catalog,
) -> None:
    read(catalog, package("etcd"), package("redis"), package("mongo"))
    PackageOutline.objects.all().delete()
    CatalogChange.objects.all().delete()
    with pytest.raises(Missing, match="before its revisions were kept"):
        find_point(catalog)
    read(catalog, package("etcd", NEWER), package("redis"))
    assert told(3) == [
        ("bundle added", "etcd", "etcd.v1.2.0"),
        ("channel head moved", "etcd", "stable"),
        ("package removed", "mongo", ""),
    ]
    assert spans() == [("etcd", 3, None), ("redis", 3, None)]
    assert [item.number for item in retained_revisions(catalog)] == [3]
    read(catalog, package("etcd", NEWER))
    assert between(catalog, 3, 4) == [("package removed", "redis", "")]


def test_the_outline_of_the_rows_is_that_of_the_blobs(catalog: Catalog) -> None:
    odd = [
        package_blob("odd", "none"),
        channel_blob("odd", "b", [{"name": "odd.v1", "skips": ["x"], "skipRange": "<1.0.0"}]),
        bundle_blob("1", "odd"),
        bundle_blob("1", "odd", image="second.example/of:1"),
        {"schema": "olm.deprecations", "package": "odd", "entries": [
            {"reference": {"schema": "olm.package"}, "message": "no"},
            {"reference": {"schema": "olm.channel", "name": "b"}, "message": "no"},
            {"reference": {"schema": "olm.bundle", "name": "odd.v1"}, "message": "no"},
        ]},
    ]  # fmt: skip
    read(catalog, package("etcd"), package("redis"), odd)
    for stored in Package.objects.all():
        outline = decode(PackageOutline.objects.get(package=stored.name, last=None).data)
        assert outline_of_rows(stored.pk) == outline


def test_what_came_and_went_nets_out(catalog: Catalog) -> None:
    read(catalog, package("etcd", NEWER), package("redis"), package("mongo"))
    read(catalog, package("etcd"), package("redis"))
    read(catalog, package("etcd", ("1.1.0",)), package("redis"))
    assert between(catalog, 1, 3) == []
    assert between(catalog, 1, 4) == [("bundle pruned", "etcd", "etcd.v1.0.0")]
    assert between(catalog, 4, 1) == [("bundle added", "etcd", "etcd.v1.0.0")]
    assert between(catalog, 2, 3) == told(3)


def test_every_revision_s_own_changes_are_what_is_between_it_and_the_one_before(
    catalog: Catalog,
) -> None:
    contents = [
        (package("etcd", NEWER), package("redis")),
        (package("etcd", ("1.2.0",)), package("mongo")),
        (package("etcd", ("1.2.0", "2.0.0")), package("redis"), package("mongo", ("1.1.0",))),
    ]
    for number, content in enumerate(contents, 2):
        read(catalog, *content)
        assert sorted(between(catalog, number - 1, number)) == sorted(told(number)) != []


def test_a_revision_that_is_not_kept_is_refused_in_a_sentence(catalog: Catalog) -> None:
    with pytest.raises(
        Missing, match=r"Revision 7 of catalog -/demo is not stored; there are 1 to"
    ):
        find_point(catalog, 7)
    with pytest.raises(Missing, match="was not read yet"):
        find_point(Catalog.objects.create(slug="new", name="new", source_kind="File"))


def test_a_moment_means_the_content_that_was_current_then(catalog: Catalog) -> None:
    read(catalog, package("etcd", NEWER))
    now = timezone.now()
    age(catalog, 1, days=10)
    age(catalog, 2, days=4)
    assert find_point_at(catalog, now - timedelta(days=5)).number == 1
    assert find_point_at(catalog, now - timedelta(days=3)).number == 2
    assert find_point_at(catalog, now - timedelta(days=99)).number == 1, "the oldest there is"


def test_an_empty_catalog_can_be_compared(tmp_path: Path, catalog: Catalog) -> None:
    nothing = [{"schema": "unknown", "name": "n"}]
    read(catalog, nothing)
    assert sorted(between(catalog, 1, 2)) == [
        ("package removed", "etcd", ""), ("package removed", "redis", ""),
    ]  # fmt: skip
    empty = read(make(tmp_path, [], name="empty"), nothing)
    full = find_point(catalog, 1)
    assert [item.fate for item in differences(find_point(empty), full)] == ["added", "added"]


def test_two_catalogs_are_compared_by_content_however_their_blobs_are_written(
    tmp_path: Path, catalog: Catalog
) -> None:
    other = make(tmp_path, [], name="other")
    spaced = [dict(reversed(blob.items())) for blob in package("etcd")]
    read(other, spaced, package("redis", ("1.0.0",)), package("mongo"))
    result = list(differences(find_point(catalog), find_point(other)))
    assert [(item.package, item.fate) for item in result] == [
        ("mongo", "added"),
        ("redis", "changed"),
    ]
    assert [change.kind for change in result[1].changes] == ["bundle removed", "channel head moved"]
    element = list(differences(find_point(catalog), find_point(other), "mongo"))
    assert element == result[:1]


def test_comparing_reads_outlines_some_packages_at_a_time(django_assert_num_queries: Any) -> None:
    item, other = make_catalog(name="one"), make_catalog(name="other")
    write_packages(item, {f"p{i}": ("1.0.0",) for i in range(332)})
    write_packages(other, {f"p{i}": ("1.0.0", "1.1.0")[: 1 + i % 2] for i in range(40, 372)})
    before, after = find_point(item), find_point(other)
    with django_assert_num_queries(2 + ceil((80 + 146) / PACKAGES_AT_ONCE)):
        result = list(differences(before, after))
    assert len(result) == 80 + 146
    with django_assert_num_queries(2):
        assert list(differences(before, before)) == []


def test_a_catalog_is_deleted_with_its_outlines(catalog: Catalog) -> None:
    delete_catalog(catalog.pk)
    assert not PackageOutline.objects.exists()


def age(catalog: Catalog, number: int, *, days: int) -> None:
    at = timezone.now() - timedelta(days=days)
    CatalogRevision.objects.filter(catalog=catalog, number=number).update(created_at=at)


def test_old_revisions_go_with_their_changes_and_outlines(catalog: Catalog, settings: Any) -> None:
    settings.RETENTION_DAYS = 10
    read(catalog, package("etcd", NEWER), package("redis"))
    read(catalog, package("etcd", NEWER))
    read(catalog, package("etcd", ("1.2.0",)))
    for number, days in ((1, 40), (2, 30), (3, 20), (4, 5)):
        age(catalog, number, days=days)
    tasks.prune()
    tasks.prune()
    assert list(catalog.revisions.values_list("number", flat=True)) == [4, 3]
    assert spans() == [("etcd", 2, 3), ("etcd", 4, None)]
    assert not CatalogChange.objects.filter(revision__number__lt=3).exists()
    assert between(catalog, 3, 4) == told(4), "what was current ten days ago can still be compared"


def test_the_current_revision_stays_however_old(catalog: Catalog) -> None:
    age(catalog, 1, days=4000)
    read(catalog, package("etcd"))
    age(catalog, 2, days=3000)
    assert record.prune(timezone.now()) == {"revisions": 1, "outlines": 1}
    assert [item.number for item in retained_revisions(catalog)] == [2]
    assert spans() == [("etcd", 1, None)]
