"""The index in memory: only catalogs that changed are read again, with an equal result."""

import re
from dataclasses import asdict
from operator import itemgetter
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from catalogs.fbc.package_texts import fold
from catalogs.models import Catalog, PackageSearch, PredictionRun
from catalogs.search import index
from catalogs.search.index import SearchIndex, catalog_stamps, current_index
from catalogs.search.matching import kind_named
from catalogs.search.query import parse_query
from tests.factories import (
    make_catalog,
    make_cluster,
    make_package,
    make_prediction,
)

_PLAIN = ("token", "catalogs", "sources", "providing", "provided_before", "using")

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "_index", None)


def read_anew(monkeypatch: pytest.MonkeyPatch) -> SearchIndex:
    monkeypatch.setattr(index, "_index", None)
    return current_index(catalog_stamps())


def change(catalog: Catalog) -> None:
    catalog.revision += 1
    catalog.save()


def content(read: SearchIndex) -> dict[str, Any]:
    """Texts are compared by identity, so everything is taken apart."""
    return {
        "groups": [
            ([asdict(row) for row in group.rows], group.values, group.differs)
            for group in read.groups
        ],
        "parts": {
            pk: (
                part.content,
                part.verdicts_changed_at,
                sorted((asdict(row) for row in part.rows), key=itemgetter("id")),
            )
            for pk, part in read.parts.items()
        },
        "by_text": [(text.name, ids) for text, ids in read.by_text.items()],
        **{name: getattr(read, name) for name in _PLAIN},
    }


def test_a_changed_catalog_is_read_again_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = make_catalog(name="first"), make_catalog(name="second")
    for catalog in (first, second):
        for name in ("etcd", "kiali"):
            make_package(name=name, catalog=catalog, keywords=["mesh"], provider="Acme")
    make_package(name="zipkin", catalog=second)
    before = current_index(catalog_stamps())
    second.packages.filter(name="zipkin").delete()
    make_package(name="jaeger", catalog=second, keywords=["mesh"], provider="Acme")
    second.packages.filter(name="kiali").update(provider="Other", content_hash="other")
    change(second)
    with CaptureQueriesContext(connection) as queries:
        after = current_index(catalog_stamps())
    # Stamps, verdicts, changes, the packages of the catalog and those with new content.
    assert len(queries) == 5
    listed, read = (q["sql"] for q in queries if 'FROM "catalogs_package" ' in q["sql"])
    assert f'"catalog_id" IN ({second.pk})' in listed
    new = second.packages.filter(name__in=("kiali", "jaeger"))
    assert set(map(int, re.findall(r"\d+", read.rpartition(" IN ")[2]))) == {row.pk for row in new}
    assert [group.rows[0].name for group in after.groups] == ["etcd", "jaeger", "kiali"]
    assert after.parts[first.pk] is before.parts[first.pk]
    assert after.groups[0].source_rows[0] is before.groups[0].source_rows[0]
    kiali = after.groups[2]
    assert {row.provider for row in kiali.rows} == {"Acme", "Other"}
    assert kiali.differs == ("provider",)
    assert len({id(row.keywords) for row in after.rows}) == 1, "equal values are stored once"
    assert content(after) == content(read_anew(monkeypatch))


def test_bundles_of_one_version_count_apart_in_an_upgrade_path() -> None:
    package = make_package(name="etcd", catalog=make_catalog(name="first"))
    PackageSearch.objects.filter(package=package).update(upgrade_path=["1.0.0", "1.1.0", "1.1.0"])
    (row,) = current_index(catalog_stamps()).rows
    assert row.upgrade_path == ("1.0.0", "1.1.0", "1.1.0")


def test_copies_of_a_catalog_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        catalog = make_catalog(name="copy", cluster=make_cluster(name=f"c{number}"))
        for name in ("etcd", "kiali"):
            make_package(name=name, catalog=catalog, content_hash=name, keywords=["mesh"])
    with CaptureQueriesContext(connection) as queries:
        after = read_anew(monkeypatch)
    *_, read = (q["sql"] for q in queries if 'FROM "catalogs_package" ' in q["sql"])
    assert len(re.findall(r"\d+", read.rpartition(" IN ")[2])) == 2, "a package of each content"
    assert [(row.name, row.cluster) for row in after.rows] == [
        (name, f"c{number}") for name in ("etcd", "kiali") for number in range(3)
    ]
    assert len({row.id for row in after.rows}) == 6
    assert {row.catalog_id for row in after.rows} == set(after.parts)


def test_after_an_evaluation_only_verdicts_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = make_catalog(name="first")
    package = make_package(name="etcd", catalog=catalog)
    prediction = make_prediction(bundle=package.bundles.all()[0])
    (row,) = current_index(catalog_stamps()).rows
    assert [verdict.verdict for verdict in row.verdicts] == ["installable"]
    prediction.verdict = "not_installable"
    prediction.save()
    PredictionRun.objects.update(changed_at=timezone.now())
    with CaptureQueriesContext(connection) as queries:
        after = current_index(catalog_stamps())
    assert len(queries) == 2  # stamps, verdicts
    (row,) = after.rows
    assert [verdict.verdict for verdict in row.verdicts] == ["not_installable"]
    assert "PlatformOperator" not in row.values[0]
    assert content(after) == content(read_anew(monkeypatch))


def test_only_packages_whose_verdicts_changed_are_grouped_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second = make_catalog(name="first"), make_catalog(name="second")
    for catalog in (first, second):
        for name in ("etcd", "kiali"):
            package = make_package(name=name, catalog=catalog)
            prediction = make_prediction(bundle=package.bundles.all()[0])
    before = current_index(catalog_stamps())
    prediction.verdict = "not_installable"  # of kiali in the second
    prediction.save()
    PredictionRun.objects.update(changed_at=timezone.now())
    after = current_index(catalog_stamps())
    assert after.groups[0] is before.groups[0]
    assert after.groups[1].source_rows[0] is before.groups[1].source_rows[0]
    assert [row.verdicts[0].verdict for row in after.groups[1].source_rows] == [
        "installable",
        "not_installable",
    ]
    assert content(after) == content(read_anew(monkeypatch))


def test_verdicts_of_a_catalog_of_no_cluster_for_a_cluster_change_no_row() -> None:
    package = make_package(name="etcd", catalog=make_catalog(name="first"))
    make_prediction(bundle=package.bundles.all()[0])
    before = current_index(catalog_stamps())
    PredictionRun.objects.create(
        catalog=package.catalog, cluster=make_cluster(name="prod"), rules_version=1
    )
    assert current_index(catalog_stamps()) is before


def test_an_attempt_to_read_a_catalog_changes_no_row() -> None:
    catalog = make_catalog(name="first", state=Catalog.State.SERVING)
    make_package(name="etcd", catalog=catalog)
    before = current_index(catalog_stamps())
    Catalog.objects.update(state=Catalog.State.FAILED)
    assert current_index(catalog_stamps()) is before
    Catalog.objects.update(state=Catalog.State.DISABLED)
    (row,) = current_index(catalog_stamps()).rows
    assert row.rank[0], "a catalog that is switched off ranks behind the others"


def test_a_catalog_that_is_gone_leaves_the_index(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = make_catalog(name="first"), make_catalog(name="second")
    for catalog in (first, second):
        make_package(name="etcd", catalog=catalog)
    current_index(catalog_stamps())
    first.delete()
    after = current_index(catalog_stamps())
    assert [row.catalog_id for row in after.rows] == [second.pk]
    assert content(after) == content(read_anew(monkeypatch))


def test_a_cluster_catalog_takes_the_rows_of_the_catalog_source_beside_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A row's source changes with another catalog, though its own catalog did not."""
    kinds, cluster = Catalog.SourceKind, make_cluster(name="prod")
    ours = make_catalog(
        name="redhat", cluster=cluster, slug="source", source_kind=kinds.CATALOG_SOURCE
    )
    make_package(name="etcd", catalog=ours)
    assert current_index(catalog_stamps()).sources == {"source": "source"}
    make_catalog(name="redhat", cluster=cluster, slug="catalog")
    after = current_index(catalog_stamps())
    assert after.sources == {"source": "catalog"}
    assert content(after) == content(read_anew(monkeypatch))


def test_the_names_of_kinds_are_folded_once_for_all_searches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    catalog = make_catalog()
    for name, kind in (("strimzi", "Kafka"), ("amq", "KAFKA"), ("cafe", "Café")):
        provided = {"1.0.0": {"provides": [("example.com", "v1", kind)]}}
        make_package(catalog=catalog, name=name, channels={"stable": ("1.0.0",)}, bundles=provided)
    read = read_anew(monkeypatch)
    folded: list[str] = []

    def counted(text: str) -> str:
        folded.append(text)
        return fold(text)

    monkeypatch.setattr(index, "fold", counted)
    kinds = {"kafka": "KAFKA", "CAFE": "Café", "kafka topic": "", "topic": ""}
    for text, kind in kinds.items():
        assert kind_named(read, parse_query(text)) == kind
    assert sorted(folded) == ["Café", "KAFKA", "Kafka"]
