"""What is said of a catalog and a cluster beside the verdicts: from rows, in one query."""

from typing import Any

import pytest
from django.test import Client

from catalogs.install_methods import InstallMethod
from catalogs.models import Catalog, PredictionRun
from catalogs.verdicts.catalog_health import health_context, health_notes, with_health_notes
from catalogs.views import presenters
from installs.audit.audit import audit
from installs.audit.report import as_json, as_markdown
from olmweb.models import Cluster, ResourceWatch
from tests.factories import (
    make_catalog,
    make_cluster,
    make_operator,
    make_package,
    make_prediction,
    make_watch,
)

pytestmark = pytest.mark.django_db
DOWN = [{"type": "Serving", "status": "False", "reason": "Retrying"}]
CONNECTING = [{"type": "Connected", "status": "False", "reason": "CONNECTING"}]


@pytest.fixture
def cluster() -> Cluster:
    return make_cluster(name="prod", context="sandbox")


def source(cluster: Cluster, name: str, **fields: Any) -> Catalog:
    told = {"source_kind": "CatalogSource", "namespace": "openshift-marketplace", **fields}
    slug = f"{told['namespace']}.{name}"
    return make_catalog(name=name, cluster=cluster, slug=slug, **told)


def rules(catalog: Catalog, path: InstallMethod) -> list[str]:
    site = health_context(catalog, catalog.cluster_id)
    return [each.rule for each in health_notes(site)[path]]


def test_nothing_is_said_of_a_catalog_that_answers(
    cluster: Cluster, django_assert_num_queries: Any
) -> None:
    for kind in ("ClusterCatalog", "CatalogSource"):
        make_watch(cluster=cluster, kind=kind)
    catalog = make_catalog(cluster=cluster, conditions=[{"type": "Serving", "status": "True"}])
    source(cluster, "redhat-operators", conditions=[{"type": "Connected", "status": "True"}])
    assert [rules(catalog, path) for path in InstallMethod] == [[], [], []]
    with django_assert_num_queries(1):
        health_context(catalog, cluster.pk)


def test_catalogs_that_do_not_answer_are_told_on_the_paths_that_need_them(
    cluster: Cluster,
) -> None:
    catalog = make_catalog(cluster=cluster, conditions=DOWN)
    other = make_catalog(name="other", cluster=cluster)
    source(cluster, "redhat-operators", conditions=CONNECTING)
    assert rules(catalog, InstallMethod.CLUSTER_EXTENSION) == ["ce-catalog-down"]
    assert rules(other, InstallMethod.CLUSTER_EXTENSION) == ["ce-neighbour-down"]
    assert rules(catalog, InstallMethod.PLATFORM_OPERATOR) == ["po-source-down"]
    assert rules(other, InstallMethod.PLATFORM_OPERATOR) == ["po-other-catalog", "po-source-down"]
    [note] = health_notes(health_context(catalog, cluster.pk))[InstallMethod.CLUSTER_EXTENSION]
    assert note.sentence.endswith("while ClusterCatalog redhat-operators is not served (Retrying).")


def test_a_catalog_that_is_switched_off_is_not_called_broken(cluster: Cluster) -> None:
    off = make_catalog(cluster=cluster, conditions=DOWN, state=Catalog.State.DISABLED)
    other = make_catalog(name="other", cluster=cluster)
    assert rules(off, InstallMethod.CLUSTER_EXTENSION) == ["ce-catalog-disabled"]
    assert rules(other, InstallMethod.CLUSTER_EXTENSION) == []


@pytest.mark.parametrize(
    ("stream", "told"),
    [
        ({}, ["sub-other-catalog"]),
        ({"listed_at": None, "state": ResourceWatch.State.ABSENT}, ["sub-other-catalog"]),
        ({"listed_at": None, "state": ResourceWatch.State.FORBIDDEN}, []),
    ],
)
def test_what_is_not_there_is_said_only_where_all_are_known(
    cluster: Cluster, stream: dict[str, Any], told: list[str]
) -> None:
    catalog = make_catalog(cluster=cluster)
    assert rules(catalog, InstallMethod.SUBSCRIPTION) == []
    make_watch(cluster=cluster, kind="CatalogSource", **stream)
    assert rules(catalog, InstallMethod.SUBSCRIPTION) == told


def test_a_catalog_source_alone_is_no_place_for_cluster_extensions(cluster: Cluster) -> None:
    make_watch(cluster=cluster, kind="ClusterCatalog")
    catalog = source(cluster, "community")
    assert rules(catalog, InstallMethod.CLUSTER_EXTENSION) == ["ce-other-catalog"]
    make_catalog(name="community", cluster=cluster)
    assert rules(catalog, InstallMethod.CLUSTER_EXTENSION) == []


def test_a_catalog_of_no_cluster_is_judged_by_its_name_alone() -> None:
    assert rules(make_catalog(name="redhat-operators"), InstallMethod.PLATFORM_OPERATOR) == []
    mine = make_catalog(name="mine")
    assert rules(mine, InstallMethod.PLATFORM_OPERATOR) == ["po-other-catalog"]
    assert (
        rules(mine, InstallMethod.CLUSTER_EXTENSION)
        == rules(mine, InstallMethod.SUBSCRIPTION)
        == []
    )


def test_verdicts_stay_and_the_notes_stand_beside_them(cluster: Cluster) -> None:
    catalog = make_catalog(cluster=cluster, conditions=DOWN)
    package = make_package(catalog=catalog, channels={"stable": ("1.0.0",)})
    make_prediction(bundle=package.bundles.get(), path="ClusterExtension")
    found = audit(catalog, InstallMethod.CLUSTER_EXTENSION, cluster=cluster)
    assert (found.counts["installable"], found.notes[0].rule) == (1, "ce-catalog-down")
    assert as_json(found)["notes"][0]["rule"] == "ce-catalog-down"
    assert "(ce-catalog-down)" in as_markdown(found)
    [one] = with_health_notes([found.rows[0].prediction], catalog, catalog.cluster_id)
    assert (one.verdict, one.notes) == (found.rows[0].prediction.verdict, found.notes)
    assert with_health_notes([], catalog, None) == []


def test_the_pages_of_the_audit_and_of_the_bundle_show_the_notes(
    client: Client, bob: Any, cluster: Cluster
) -> None:
    client.force_login(bob)
    catalog = make_catalog(name="community", cluster=cluster)
    package = make_package(catalog=catalog, channels={"stable": ("1.0.0",)})
    bundle = package.bundles.get()
    make_prediction(bundle=bundle)
    pages = (
        presenters.bundle_url(package, bundle.name),
        presenters.package_url("prod", "community", "etcd"),
        "/audit/?catalog=prod/community&path=platformoperator&cluster=prod",
    )
    PredictionRun.objects.create(catalog=catalog, cluster=cluster, revision=1, rules_version=1)
    for url in pages:
        assert "redhat-operators only" in client.get(url).content.decode()


@pytest.mark.parametrize(
    ("rule", "pinned", "agrees"),
    [
        ("ce-ambiguous", "", True),
        ("ce-ambiguous", "redhat-operators", False),
        ("ce-outranked", "", None),
        ("ce-outranked", "redhat-operators", False),
    ],
)
def test_an_extension_that_names_no_catalog_is_refused_where_several_are_as_good(
    cluster: Cluster, rule: str, pinned: str, agrees: bool | None
) -> None:
    catalog = make_catalog(cluster=cluster)
    package = make_package(catalog=catalog, channels={"stable": ("1.0.0",)})
    warning = {"rule": rule, "verdict": "warning", "sentence": "Two are as good."}
    make_prediction(bundle=package.bundles.get(), path="ClusterExtension", results=[warning])
    make_operator(
        cluster=cluster, kind="ClusterExtension", name="etcd", package="etcd", catalog=pinned,
        health="Failed",
    )  # fmt: skip
    [actual] = audit(catalog, InstallMethod.CLUSTER_EXTENSION, cluster=cluster).actual
    assert actual.agrees is agrees
