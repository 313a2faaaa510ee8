"""Cards, the package page, the install form, the REST filter and the audit give one answer."""

from pathlib import Path as File

import pytest
from django.contrib.auth.models import User
from django.test import Client

from catalogs.install_methods import InstallMethod
from catalogs.models import Catalog, Package, Prediction
from catalogs.resolve.stored import graphs_of
from catalogs.search.index import catalog_stamps, current_index
from catalogs.sources.access_methods import PACKAGE_MANIFEST
from catalogs.sync.catalog import sync_catalog
from catalogs.views.presenters import verdict_labels
from installs.actions.plan import plan_install
from installs.audit.audit import audit
from installs.facts.evaluate import refresh
from installs.readiness.request import read_following
from olmweb.models import Cluster
from tests.factories import make_cluster, make_component, make_watch
from tests.worlds.syncing import make, rewrite
from tests.worlds.verdicts import package_blobs

pytestmark = pytest.mark.django_db
LABEL = "Subscription (own namespace)"
SERVED = {"Subscription": {"state": "served", "version": "v1alpha1"}}


@pytest.mark.parametrize("mode", ["OwnNamespace", "SingleNamespace", "AllNamespaces"])
def test_all_give_the_same_answer_for_a_package_whatever_namespaces_it_supports(
    mode: str, tmp_path: File, client: Client, olivia: User
) -> None:
    cluster = make_cluster(name="prod", kinds=SERVED, version="v1.30.0")
    make_watch(
        cluster=cluster, kind="CustomResourceDefinition", resource="CustomResourceDefinition"
    )
    modes = [{"type": mode, "supported": True}]
    catalog = make(tmp_path, package_blobs("etcd", "1.0.0", installModes=modes))
    Catalog.objects.filter(pk=catalog.pk).update(cluster=cluster)
    catalog.refresh_from_db()
    assert sync_catalog(catalog).outcome == "changed"
    make_component(cluster=cluster, kind="CatalogSource", name="demo", namespace="olm")
    refresh(catalog, [cluster])
    package = Package.objects.get(name="etcd")
    client.force_login(olivia)

    (row,) = current_index(catalog_stamps()).rows
    (card,) = [verdict for verdict in row.verdicts if verdict.path == "Subscription"]
    page = client.get(f"/software/prod/{catalog.slug}/etcd").context["verdicts"]
    on_page = next(verdict for verdict in page if verdict.path == InstallMethod.SUBSCRIPTION)
    form = plan_install(cluster, package, "", "Subscription", {}).verdict
    assert form is not None
    (audited,) = audit(catalog, InstallMethod.SUBSCRIPTION, cluster=cluster).rows
    answers = {
        (verdict.verdict, verdict.target, verdict.rule, verdict.label)
        for verdict in (card, on_page, form, audited.prediction)
    }
    assert len(answers) == 1, answers
    ((verdict, target, _, label),) = answers
    assert (verdict == "installable") == (mode != "SingleNamespace")
    assert (target, label == LABEL) == (("own", True) if mode == "OwnNamespace" else ("all", False))

    says = [words for said, words in verdict_labels(row.verdicts) if said == verdict]
    assert label in says[0]
    listed = client.get("/api/v1/packages", {"installable": "Subscription"}).json()
    assert bool(listed["items"]) == (verdict == "installable")


def on_cluster(catalog: Catalog, cluster: Cluster | None, kind: str, method: str) -> Catalog:
    """The catalog as one of the cluster, read from its file by another access method."""
    rows = Catalog.objects.filter(pk=catalog.pk)
    rows.update(cluster=cluster, name="demo", source_kind="File")
    catalog.refresh_from_db()
    assert sync_catalog(catalog).outcome == "changed"
    rows.update(source_kind=kind, access_method=method)
    catalog.refresh_from_db()
    return catalog


@pytest.fixture
def pair(tmp_path: File) -> tuple[Catalog, Catalog]:
    """The ClusterCatalog and the CatalogSource of one catalog with a channel of two heads; the
    latter is read from PackageManifests, where each channel has one head."""
    cluster = make_cluster(name="prod", kinds=SERVED, version="v1.30.0")
    make_watch(
        cluster=cluster, kind="CustomResourceDefinition", resource="CustomResourceDefinition"
    )
    make_component(cluster=cluster, kind="CatalogSource", name="demo", namespace="olm")
    package, channel, *bundles = package_blobs("etcd", "1.0.0", "1.1.0", "1.2.0")
    first, *others = (bundle["name"] for bundle in bundles)
    fork = [{"name": first}, *({"name": other, "replaces": first} for other in others)]
    head = {"name": others[0], "skips": [first, others[1]]}
    single = [head, {"name": first}, {"name": others[1]}]
    full = make(tmp_path, [package, channel | {"entries": fork}, *bundles], name="full")
    listed = make(tmp_path, [package, channel | {"entries": single}, *bundles], name="listed")
    on_cluster(full, cluster, "ClusterCatalog", "catalogd")
    return full, on_cluster(listed, cluster, "CatalogSource", PACKAGE_MANIFEST)


def test_the_graph_that_a_package_manifest_lacks_is_that_of_the_cluster_catalog(
    pair: tuple[Catalog, Catalog], client: Client, olivia: User
) -> None:
    _, listed = pair
    assert listed.cluster is not None
    refresh(listed, [listed.cluster])
    client.force_login(olivia)
    page = client.get("/software/prod/listed/etcd").context["verdicts"]
    package = Package.objects.get(catalog=listed)
    (row,) = (row for row in current_index(catalog_stamps()).rows if row.id == package.pk)
    (card,) = (verdict for verdict in row.verdicts if verdict.path == "Subscription")
    planned = plan_install(listed.cluster, package, "", "Subscription", {}).resolution
    assert planned is not None
    assert planned.blocked_by == "channel-graph"
    (audited,) = audit(listed, InstallMethod.SUBSCRIPTION, cluster=listed.cluster).rows
    on_page = next(verdict for verdict in page if verdict.path == InstallMethod.SUBSCRIPTION)
    answers = {(verdict.verdict, verdict.rule) for verdict in (card, on_page, audited.prediction)}
    assert answers == {("not_installable", "channel-graph")}
    assert client.get("/software/?installable=Subscription").context["page"].paginator.count == 0

    rest = client.get("/api/v1/packages/prod/listed/etcd").json()["verdicts"]
    assert {row["rule"] for row in rest if row["method"] == "Subscription"} == {"channel-graph"}
    assert client.get("/api/v1/packages?installable=Subscription").json()["items"] == []
    resolution = client.get("/api/v1/packages/prod/listed/etcd/resolve?method=Subscription")
    assert resolution.json()["blocked_by"] == "channel-graph"
    tab = client.get("/software/prod/listed/etcd?tab=channels").content.decode()
    assert "The upgrade graph is that of ClusterCatalog demo" in tab
    assert "can't order this channel" in tab


def test_actions_and_rest_of_a_package_manifest_use_the_graph_of_the_cluster_catalog(
    tmp_path: File, pair: tuple[Catalog, Catalog], client: Client, olivia: User
) -> None:
    full, listed = pair
    names = ("etcd.v1.0.0", "etcd.v1.1.0", "etcd.v1.2.0")
    rewrite(full, package_blobs("etcd", "1.0.0", "1.1.0", "1.2.0"))
    full = on_cluster(full, full.cluster, "ClusterCatalog", "catalogd")
    assert listed.cluster is not None
    package = Package.objects.get(catalog=listed)
    chosen = {"version": "1.0.0"}
    assert plan_install(listed.cluster, package, "", "Subscription", chosen).route == ("", *names)
    assert read_following("prod/listed") == full
    client.force_login(olivia)
    readiness = {"next_catalog": "prod/listed", "format": "md"}
    report = b"".join(client.get("/api/v1/readiness", readiness)).decode()
    assert "Compared with catalog prod/full." in report
    (channel,) = client.get("/api/v1/packages/prod/listed/etcd").json()["channels"]
    assert [entry["replaces"] for entry in channel["entries"]] == ["", *names[:2]]
    fbc = b"".join(client.get("/api/v1/packages/prod/listed/etcd/fbc"))
    assert fbc == b"".join(client.get("/api/v1/packages/prod/full/etcd/fbc"))
    rewrite(full, package_blobs("etcd", "1.0.0", "1.1.0"))
    on_cluster(full, full.cluster, "ClusterCatalog", "catalogd")
    assert plan_install(listed.cluster, package, "", "Subscription", chosen).route == ()
    (channel,) = client.get("/api/v1/packages/prod/listed/etcd").json()["channels"]
    assert {entry["replaces"] for entry in channel["entries"]} == {""}
    assert b"replaces" not in b"".join(client.get("/api/v1/packages/prod/listed/etcd/fbc"))


def test_the_graph_of_a_cluster_catalog_with_other_bundles_does_not_count(
    pair: tuple[Catalog, Catalog],
) -> None:
    full, listed = pair
    package = Package.objects.get(catalog=listed)
    assert {entry.replaces for entry in graphs_of([package])[package.pk].entries["stable"]} == {
        "",
        "etcd.v1.0.0",
    }
    assert refresh(listed, []) is not None
    assert refresh(listed, []) is None
    rewrite(full, package_blobs("etcd", "1.0.0", "1.1.0", "1.2.0", "1.3.0"))
    on_cluster(full, full.cluster, "ClusterCatalog", "catalogd")
    assert {entry.replaces for entry in graphs_of([package])[package.pk].entries["stable"]} == {""}
    assert refresh(listed, []) is not None
    verdicts = Prediction.objects.filter(package=package, path="Subscription", target="all")
    (chosen,) = verdicts.filter(chosen=True)
    assert (chosen.verdict, str(chosen.bundle)) == ("installable", "etcd.v1.1.0")
