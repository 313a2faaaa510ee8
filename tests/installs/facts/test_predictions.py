"""Predictions as rows: written in batches, only where something changed, and read in one query."""

from contextlib import nullcontext
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.db.models import Model
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from catalogs.contents.bundle_facts import ApiKind
from catalogs.install_methods import InstallMethod
from catalogs.models import Bundle, Catalog, Package, Prediction, PredictionRun
from catalogs.resolve.stored import full_catalogs
from catalogs.sources.access_methods import PACKAGE_MANIFEST
from catalogs.sync.catalog import sync_catalog
from catalogs.sync.deletion import delete_catalog
from catalogs.verdicts.facts import Offered, WatchTarget
from catalogs.verdicts.read import verdicts, verdicts_of
from catalogs.verdicts.rules import Verdict
from catalogs.verdicts.store import evaluate_catalog
from installs import tasks
from installs.facts import evaluate
from installs.facts.cluster_facts import Contents, cluster_facts, market_of, watched_from
from installs.facts.evaluate import refresh
from installs.models import Action, ClusterInventory, InstallRequest
from olmweb.models import Cluster
from tests.factories import (
    make_bundle,
    make_catalog,
    make_cluster,
    make_component,
    make_crd,
    make_operator,
    make_package,
)
from tests.worlds.fbc import bundle_blob, channel_blob, package_blob
from tests.worlds.syncing import make, rewrite
from tests.worlds.verdicts import (
    bundle_called,
    bundle_object,
    judged_cluster,
    monitored_catalog,
    package_blobs,
    read_cluster,
)

pytestmark = pytest.mark.django_db
OWN = [{"type": "OwnNamespace", "supported": True}]
CHOSEN = [
    (InstallMethod.PLATFORM_OPERATOR, "po-webhook"),
    (InstallMethod.CLUSTER_EXTENSION, "ce-webhook"),
    (InstallMethod.SUBSCRIPTION, ""),
]


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    found = make(
        tmp_path,
        [
            *package_blobs("good", "1.0.0", "1.1.0"),
            *package_blobs("own", "2.0.0", installModes=OWN),
        ],
    )
    assert sync_catalog(found).outcome == "changed"
    return found


def _rules(bundle: str, cluster: Cluster | None = None) -> dict[InstallMethod, str]:
    pk = bundle_called(bundle).pk
    found = verdicts([pk], cluster.pk if cluster else None)
    return {path: each.rule for path, each in found[pk].items()}


def test_every_bundle_gets_a_verdict_in_every_way(catalog: Catalog) -> None:
    judged = refresh(catalog)
    assert judged is not None
    assert (judged.bundles, judged.written) == (3, 12)
    assert _rules("good.v1.0.0") == _rules("good.v1.1.0") == dict(CHOSEN)
    assert [each.rule for each in verdicts_of(bundle_called("own.v2.0.0"))] == [
        "po-install-mode",
        "ce-install-mode",
        "",
        "sub-install-mode",
    ]


def test_the_target_of_an_operator_group_is_a_way_of_its_own(catalog: Catalog) -> None:
    refresh(catalog)
    pk = bundle_called("own.v2.0.0").pk
    own = verdicts([pk], target=WatchTarget.OWN)[pk][InstallMethod.SUBSCRIPTION]
    assert (own.verdict, own.target) == (Verdict.INSTALLABLE, WatchTarget.OWN)
    everywhere = verdicts([pk], target=WatchTarget.ALL)[pk][InstallMethod.SUBSCRIPTION]
    assert everywhere.verdict == Verdict.NOT_INSTALLABLE
    assert verdicts([pk])[pk][InstallMethod.SUBSCRIPTION] == own


def test_verdicts_are_read_in_one_query(catalog: Catalog, django_assert_num_queries: Any) -> None:
    refresh(catalog, [cluster := judged_cluster()])
    ids = list(Bundle.objects.values_list("id", flat=True))
    with django_assert_num_queries(1):
        assert set(verdicts(ids, cluster.pk)) == set(ids)
    assert verdicts([]) == {}


def test_what_nothing_changed_of_is_not_judged_again(catalog: Catalog) -> None:
    cluster = judged_cluster()
    refresh(catalog, [cluster])
    ids = set(Prediction.objects.values_list("id", flat=True))
    assert refresh(catalog, [cluster]) is None
    cluster.revision += 1
    cluster.save()
    assert refresh(catalog, [cluster]) is None
    assert set(Prediction.objects.values_list("id", flat=True)) == ids


def _changed_at(cluster: Cluster) -> datetime:
    return PredictionRun.objects.filter(cluster=cluster).latest("id").changed_at


def test_an_evaluation_without_another_verdict_is_no_change(catalog: Catalog) -> None:
    cluster = read_cluster("v1.30.0")
    refresh(catalog, [cluster])
    before = PredictionRun.objects.get(cluster=cluster)
    cluster.version = "v1.30.1"
    cluster.save()
    evaluation = refresh(catalog, [cluster])
    assert evaluation is not None
    assert evaluation.written == 0
    after = PredictionRun.objects.get(cluster=cluster)
    assert after.evaluated_at > before.evaluated_at
    assert after.changed_at == before.changed_at
    cluster.version = "v1.20.4"
    cluster.save()
    refresh(catalog, [cluster])
    assert _changed_at(cluster) > before.changed_at


def test_the_evaluation_after_a_killed_one_is_a_change(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = read_cluster("v1.20.4")  # too old: the sentences name it
    refresh(catalog, [cluster])
    before = _changed_at(cluster)
    cluster.version = "v1.20.5"
    cluster.save()

    def killed(*args: Any) -> None:
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(evaluate, "_record", killed)
        with pytest.raises(SystemExit):
            refresh(catalog, [cluster])
    evaluation = refresh(catalog, [cluster])
    assert evaluation is not None
    assert evaluation.written == 0, "the killed evaluation wrote the verdicts"
    assert _changed_at(cluster) > before


def test_another_version_of_olm_web_leaves_changes_unrecorded(catalog: Catalog) -> None:
    cluster = read_cluster("v1.30.0")
    refresh(catalog, [cluster])
    before = _changed_at(cluster)
    PredictionRun.objects.update(inputs="5" * 64)
    refresh(catalog, [cluster])
    assert _changed_at(cluster) > before


def test_a_cluster_that_evaluates_the_catalog_alone_records_both(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = read_cluster("v1.30.0")
    refresh(catalog, [cluster])
    alone = PredictionRun.objects.filter(cluster=None)
    before = alone.latest("id").changed_at
    # Since the inputs were read, an inspection has ended, for example.
    Prediction.objects.filter(cluster=None, path="Subscription").update(sentence="other")
    cluster.version = "v1.30.1"
    cluster.save()
    refresh(catalog, [cluster])
    assert alone.latest("id").changed_at > before
    before = alone.latest("id").changed_at
    cluster.version = "v1.20.4"
    cluster.save()
    refresh(catalog, [cluster])
    assert alone.latest("id").changed_at == before, "only verdicts for the cluster changed"


def test_an_evaluation_beside_another_keeps_the_time_of_its_changes(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = read_cluster("v1.30.0")
    refresh(catalog, [cluster])
    cluster.version = "v1.30.1"
    cluster.save()
    of_other = timezone.now() + timedelta(minutes=1)

    def with_other(*args: Any) -> Any:
        PredictionRun.objects.update(changed_at=of_other)
        return evaluate_catalog(*args)

    monkeypatch.setattr(evaluate, "evaluate_catalog", with_other)
    refresh(catalog, [cluster])
    assert _changed_at(cluster) == of_other


def test_a_cluster_has_rows_only_where_its_facts_change_what_is_said(catalog: Catalog) -> None:
    cluster = read_cluster("v1.20.4")
    refresh(catalog, [cluster])
    rows = Prediction.objects.filter(cluster=cluster)
    assert {row.bundle.name for row in rows if row.bundle} == {
        "good.v1.0.0",
        "good.v1.1.0",
        "own.v2.0.0",
    }
    assert _rules("good.v1.1.0", cluster)[InstallMethod.SUBSCRIPTION] == "sub-min-kube"
    assert _rules("good.v1.1.0")[InstallMethod.SUBSCRIPTION] == ""
    cluster.version = "v1.30.0"
    cluster.save()
    judged = refresh(catalog, [cluster])
    assert judged is not None
    assert not Prediction.objects.filter(cluster=cluster).exists()
    assert _rules("good.v1.1.0", cluster)[InstallMethod.SUBSCRIPTION] == ""


def test_a_new_revision_of_the_catalog_is_judged_and_the_old_rows_go(
    catalog: Catalog, tmp_path: Path
) -> None:
    refresh(catalog)
    kept = set(Prediction.objects.filter(package__name="own").values_list("id", flat=True))
    rewrite(
        catalog,
        [
            *package_blobs("good", "1.0.0", installModes=OWN),
            *package_blobs("own", "2.0.0", installModes=OWN),
        ],
    )
    assert sync_catalog(catalog).outcome == "changed"
    judged = refresh(catalog)
    assert judged is not None
    assert (judged.bundles, judged.written) == (2, 4)
    assert kept < set(Prediction.objects.values_list("id", flat=True))
    assert _rules("good.v1.0.0")[InstallMethod.PLATFORM_OPERATOR] == "po-install-mode"
    runs = PredictionRun.objects.filter(catalog=catalog).order_by("id")
    assert [(run.revision, run.counts["PlatformOperator"]) for run in runs] == [
        (1, {"unknown": 1, "not_installable": 1}),
        (2, {"not_installable": 2}),
    ]


def test_a_sync_that_writes_everything_anew_leaves_nothing_unjudged(catalog: Catalog) -> None:
    refresh(catalog)
    sync_catalog(catalog, force=True)
    assert not Prediction.objects.exists()
    refresh(catalog)
    assert Prediction.objects.count() == 12


def test_a_package_of_which_nothing_would_be_chosen_says_why(tmp_path: Path) -> None:
    blobs = package_blobs("torn", "1.0.0", "1.1.0")
    blobs[1]["entries"] = [{"name": "torn.v1.0.0"}, {"name": "torn.v1.1.0"}]
    catalog = make(tmp_path, blobs)
    sync_catalog(catalog)
    refresh(catalog)
    row = Prediction.objects.get(chosen=True, path="Subscription", target="all")
    assert (row.bundle, row.rule, row.verdict) == (None, "channel-graph", "not_installable")
    assert row.sentence


def test_what_a_catalog_leaves_behind_goes_with_it(catalog: Catalog) -> None:
    refresh(catalog)
    delete_catalog(catalog.pk)
    left: list[type[Model]] = [Prediction, PredictionRun, Package]
    assert [model._default_manager.count() for model in left] == [0, 0, 0]


def test_actions_and_requests_outlive_the_catalog_of_their_package(catalog: Catalog) -> None:
    cluster = make_cluster()
    action = Action.objects.create(cluster=cluster, verb="install", chosen_catalog=catalog)
    asked = {"catalog_name": str(catalog), "package": "torn", "user": None}
    request = InstallRequest.objects.create(cluster=cluster, catalog=catalog, **asked)
    delete_catalog(catalog.pk)
    connection.check_constraints()
    for row, name in ((action, "chosen_catalog"), (request, "catalog")):
        row.refresh_from_db()
        assert getattr(row, name) is None


def test_kinds_that_the_cluster_does_not_serve_and_namespaces_that_it_has_are_told(
    tmp_path: Path,
) -> None:
    catalog, cluster = monitored_catalog(tmp_path), judged_cluster()
    refresh(catalog, [cluster])
    pk = bundle_called("m.v1.0.0").pk
    unread = verdicts([pk], cluster.pk)[pk].values()
    assert {row.verdict for row in unread} == {Verdict.UNKNOWN}
    assert all("the kinds that the cluster serves were not read" in row.sentence for row in unread)
    inventory = ClusterInventory.objects.create(
        cluster=cluster, kinds=["apps/v1/Deployment"], namespaces=["default", "m-system"]
    )
    refresh(catalog, [cluster])
    assert _rules("m.v1.0.0", cluster) == {
        InstallMethod.PLATFORM_OPERATOR: "po-kind-unserved",
        InstallMethod.CLUSTER_EXTENSION: "ce-kind-unserved",
        InstallMethod.SUBSCRIPTION: "sub-kind-unserved",
    }
    make_crd(
        cluster=cluster,
        name="servicemonitors.monitoring.coreos.com",
        group="monitoring.coreos.com",
        served_kind="ServiceMonitor",
        served=["v1"],
    )
    refresh(catalog, [cluster])
    assert _rules("m.v1.0.0", cluster) == {
        InstallMethod.PLATFORM_OPERATOR: "po-namespace-exists",
        InstallMethod.CLUSTER_EXTENSION: "",
        InstallMethod.SUBSCRIPTION: "",
    }
    inventory.namespaces = ["default"]
    inventory.save()
    refresh(catalog, [cluster])
    assert set(_rules("m.v1.0.0", cluster).values()) == {""}


def _stored(tmp_path: Path) -> Catalog:
    """Two versions that differ in name and version only; each brings a CRD with v1."""
    blobs = [package_blob("m")]
    entries = [{"name": "m.v1.0.0"}, {"name": "m.v1.1.0", "replaces": "m.v1.0.0"}]
    blobs.append(channel_blob("m", "stable", entries))
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "ms.m.example"},
        "spec": {"versions": [{"name": "v1"}]},
    }
    csv = {
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {"name": "m"},
        "spec": {"installModes": [{"type": "AllNamespaces", "supported": True}]},
    }
    blobs += [
        bundle_blob(version, "m", csv=bundle_object(csv), properties=[bundle_object(crd)])
        for version in ("1.0.0", "1.1.0")
    ]
    catalog = make(tmp_path, blobs)
    sync_catalog(catalog)
    return catalog


def test_versions_of_one_shape_are_told_apart_where_one_is_installed(tmp_path: Path) -> None:
    catalog, cluster = _stored(tmp_path), judged_cluster()
    make_crd(cluster=cluster, name="ms.m.example", group="m.example", stored=["v1alpha1", "v1"])
    make_operator(cluster=cluster, kind="Subscription", namespace="n", name="m", bundle="m.v1.0.0")
    refresh(catalog, [cluster])
    assert _rules("m.v1.0.0", cluster)[InstallMethod.SUBSCRIPTION] == ""
    assert _rules("m.v1.1.0", cluster)[InstallMethod.SUBSCRIPTION] == "sub-stored-version"


@pytest.mark.parametrize(
    ("details", "expected"),
    [
        ({"targets": ["apps"], "namespaces": ["apps"]}, ("apps",)),
        ({"targets": ["apps"]}, ("apps",)),  # OLM has not read it yet
        ({"targets": [], "namespaces": [""]}, ()),
        ({}, ()),
    ],
)
def test_the_spec_of_a_group_counts_while_it_has_no_status(
    details: dict[str, Any], expected: tuple[str, ...], db: None
) -> None:
    cluster = make_cluster()
    make_component(
        cluster=cluster, kind="OperatorGroup", name="group", namespace="apps", details=details
    )
    assert watched_from(cluster, "apps") == expected


def test_a_group_of_several_namespaces_is_a_way_of_its_cluster(
    catalog: Catalog,
) -> None:
    cluster = judged_cluster()
    make_component(
        cluster=cluster,
        kind="OperatorGroup",
        namespace="n",
        name="g",
        details={"namespaces": ["a", "b"]},
    )
    refresh(catalog, [cluster])
    rows = Prediction.objects.filter(target="multi", bundle__name="good.v1.1.0")
    assert [(row.cluster_id, row.rule) for row in rows] == [(cluster.pk, "sub-install-mode")]
    counts = PredictionRun.objects.get(catalog=catalog, cluster=cluster).counts
    assert counts["Subscription-multi"] == {"not_installable": 2}


def test_what_the_package_manifest_api_leaves_out_is_not_known(tmp_path: Path) -> None:
    catalog = monitored_catalog(tmp_path)
    Catalog.objects.filter(pk=catalog.pk).update(access_method=PACKAGE_MANIFEST)
    refresh(catalog)
    assert _rules("m.v1.0.0") == dict(CHOSEN)


def test_a_cluster_catalog_has_what_the_package_manifest_api_leaves_out(tmp_path: Path) -> None:
    cluster = make_cluster()
    for slug, kind, method in (
        ("listed", "CatalogSource", PACKAGE_MANIFEST),
        ("full", "ClusterCatalog", "catalogd"),
    ):
        read = Catalog.objects.filter(pk=monitored_catalog(tmp_path).pk)
        read.update(cluster=cluster, slug=slug, source_kind=kind, access_method=method)
    listed, full = Catalog.objects.get(slug="listed"), Catalog.objects.get(slug="full")
    for catalog in (listed, full):
        refresh(catalog, [])
    stored = Prediction.objects.order_by("path", "target").values_list("path", "target", "rule")
    of_full = list(stored.filter(package__catalog=full))
    assert list(stored.filter(package__catalog=listed)) == of_full
    assert {rule for _, _, rule in of_full} == {"", "sub-install-mode"}
    Bundle.objects.filter(package__catalog=full).update(version="1.0.1")
    full.content_hash = "other"
    full.save()
    refresh(listed, [])
    assert "po-webhook" in {rule for _, _, rule in stored.filter(package__catalog=listed)}


def _read_twice(tmp_path: Path, listed: list[Any], full: list[Any]) -> tuple[Catalog, Catalog]:
    """A CatalogSource read with the PackageManifest API, and a ClusterCatalog of the same name."""
    cluster = make_cluster()
    catalogs = []
    for name, kind, method, blobs in (
        ("listed", "CatalogSource", PACKAGE_MANIFEST, listed),
        ("full", "ClusterCatalog", "catalogd", full),
    ):
        catalog = make(tmp_path, blobs, name=name)
        assert sync_catalog(catalog).outcome == "changed"
        Catalog.objects.filter(pk=catalog.pk).update(
            cluster=cluster, name="demo", source_kind=kind, access_method=method
        )
        catalogs.append(Catalog.objects.get(pk=catalog.pk))
    return catalogs[0], catalogs[1]


def test_fields_of_the_package_manifest_api_take_precedence(tmp_path: Path) -> None:
    modes = {"full": [{"type": "AllNamespaces", "supported": True}], "listed": OWN}
    blobs = {name: package_blobs("m", "1.0.0", installModes=of) for name, of in modes.items()}
    listed, _ = _read_twice(tmp_path, **blobs)
    bundles = Bundle.objects.filter(package__catalog=listed)
    bundles.update(deprecated=True)
    refresh(listed, [])
    (bundle,) = bundles
    stored = verdicts([bundle.pk])[bundle.pk][InstallMethod.SUBSCRIPTION]
    assert (stored.target, stored.verdict) == (WatchTarget.OWN, Verdict.INSTALLABLE)
    assert any("deprecat" in result.sentence for result in stored.results)


def test_a_catalog_source_of_another_namespace_is_another_catalog(tmp_path: Path) -> None:
    blobs = package_blobs("m", "1.0.0")
    listed, full = _read_twice(tmp_path, blobs, blobs)
    assert full_catalogs(listed) == [full]
    other = make_catalog(
        name="demo", slug="other", cluster=listed.cluster, namespace="team-x",
        source_kind="CatalogSource", access_method=PACKAGE_MANIFEST,
    )  # fmt: skip
    Catalog.objects.filter(pk=listed.pk).update(namespace="olm")
    listed.refresh_from_db()
    assert full_catalogs(other) == []
    assert full_catalogs(listed) == [full]


def test_what_is_installed_counts(catalog: Catalog) -> None:
    cluster = read_cluster()
    refresh(catalog, [cluster])
    make_operator(cluster=cluster, name="good", package="good")
    make_operator(cluster=cluster, name="good-2", package="good")
    refresh(catalog, [cluster])
    found = verdicts([bundle_called("good.v1.1.0").pk], cluster.pk)
    [one] = [each[InstallMethod.PLATFORM_OPERATOR] for each in found.values()]
    assert one.rule == "po-package-installed"
    assert [said.rule for said in one.results] == [
        "po-package-installed",
        "po-webhook",
        "api-shared",
    ]


def test_the_task_judges_each_catalog_for_its_clusters(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(tasks.read_inventory, "delay", asked.append)
    cluster = judged_cluster("v1.20.4")
    cluster.synced_at = cluster.checked_at
    cluster.save()
    ClusterInventory.objects.create(cluster=cluster, read_at=timezone.now() - timedelta(hours=1))
    tasks.predict()
    assert asked == [cluster.pk]
    assert {run.cluster_id for run in PredictionRun.objects.all()} == {None, cluster.pk}
    assert evaluate.refresh_all() == 0


def test_a_pass_at_rest_reads_the_facts_of_clusters_and_no_catalog_alone(catalog: Catalog) -> None:
    def queries_of_pass() -> int:
        evaluate.refresh_all()
        with CaptureQueriesContext(connection) as queries:
            assert evaluate.refresh_all() == 0
        return len(queries)

    def add_cluster(name: str) -> Cluster:
        cluster = make_cluster(name=name, synced_at=timezone.now())
        ClusterInventory.objects.create(cluster=cluster)
        return cluster

    add_cluster("first")
    single = queries_of_pass()
    for number in range(4):
        make_package(catalog=make_catalog(name=f"more-{number}", revision=1))
    assert queries_of_pass() == single
    second = add_cluster("second")
    with CaptureQueriesContext(connection) as facts:
        cluster_facts(second)
    assert queries_of_pass() == single + len(facts)
    assert PredictionRun.objects.count() == 5 * 3


@pytest.mark.parametrize("changed", [True, False])
def test_what_a_cluster_newly_told_is_judged_at_once(
    changed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(tasks.predict, "delay", lambda: asked.append("predict"))
    monkeypatch.setattr(tasks, "client_for", nullcontext)
    monkeypatch.setattr("installs.facts.inventory.read_inventory", lambda *_: changed)
    monkeypatch.setattr("installs.facts.crd_schemas.refresh_schemas", lambda *_: 0)
    cluster = judged_cluster("v1.20.4")
    Cluster.objects.filter(pk=cluster.pk).update(synced_at=cluster.checked_at, assessed="rules")
    monkeypatch.setattr(tasks.sync_cluster, "delay", lambda pk: asked.append("sync"))
    tasks.read_inventory(cluster.pk)
    assert asked == ["predict"] * changed
    Cluster.objects.filter(pk=cluster.pk).update(assessed="")
    tasks.read_inventory(cluster.pk)
    assert asked == ["predict", "predict", "sync"] * changed


@pytest.mark.parametrize(
    ("label", "kind", "owner"),
    [
        (("Operator", "etcd.apps"), "Subscription", ("Subscription", "apps", "mine")),
        (("Operator", "other.apps"), "Subscription", ("", "", "")),
        (("BundleDeployment", "mine"), "PlatformOperator", ("PlatformOperator", "", "mine")),
        (("ClusterExtension", "mine"), "ClusterExtension", ("ClusterExtension", "", "mine")),
    ],
)
def test_a_crd_belongs_to_the_operator_that_its_labels_lead_to(
    db: None, label: tuple[str, str], kind: str, owner: tuple[str, str, str]
) -> None:
    cluster = judged_cluster()
    namespace = "apps" if kind == "Subscription" else ""
    make_operator(cluster=cluster, kind=kind, namespace=namespace, name="mine", package="etcd")
    make_crd(cluster=cluster, owner_kind=label[0], owner_name=label[1])
    (crd,) = (cluster_facts(cluster).crds or {}).values()
    assert (crd.owner_kind, crd.owner_namespace, crd.owner) == owner


def _twins(cluster: Cluster, **second: Any) -> Catalog:
    """A package in two ClusterCatalogs, and another in the first alone; the first is judged."""
    first = make_catalog(name="first", cluster=cluster)
    make_package(name="good", catalog=first)
    make_package(name="alone", catalog=first)
    make_package(name="good", catalog=make_catalog(name="second", cluster=cluster, **second))
    return first


def _warnings(catalog: Catalog, package: str) -> set[str]:
    rows = Prediction.objects.filter(package__catalog=catalog, package__name=package)
    rows = rows.filter(path="ClusterExtension", cluster=catalog.cluster)
    return {
        one["rule"]
        for row in rows
        for one in row.results
        if one["rule"] in ("ce-ambiguous", "ce-outranked")
    }


def test_catalogs_of_one_priority_with_the_same_package_are_told(db: None) -> None:
    cluster = judged_cluster()
    catalog = _twins(cluster)
    market = market_of(catalog, cluster)
    assert dict(market.offers) == {"good": (Offered("first"), Offered("second"))}
    assert market_of(catalog, None).offers == {}


@pytest.mark.parametrize(
    ("second", "offered"),
    [
        ({"priority": 7}, Offered("second", 7)),
        ({"availability": "Unavailable"}, None),
        ({"source_kind": "CatalogSource"}, None),
    ],
)
def test_only_available_cluster_catalogs_compete(
    db: None, second: dict[str, Any], offered: Offered | None
) -> None:
    cluster = judged_cluster()
    found = market_of(_twins(cluster, **second), cluster).offers
    assert found == ({"good": (Offered("first"), offered)} if offered else {})


def test_a_catalog_whose_bundles_are_all_deprecated_competes_as_such(db: None) -> None:
    cluster = judged_cluster()
    catalog = _twins(cluster)
    Bundle.objects.filter(package__catalog=catalog).update(deprecated=True)
    assert market_of(catalog, cluster).offers == {
        "good": (Offered("first", deprecated=True), Offered("second"))
    }


def test_only_catalogs_that_a_namespace_can_use_together_meet_dependencies(db: None) -> None:
    cluster = judged_cluster()
    catalogs = {
        namespace: make_catalog(cluster=cluster, name=f"of-{namespace}", namespace=namespace)
        for namespace in ("team-a", "team-b", "olm", "")
    }
    for namespace, catalog in catalogs.items():
        make_package(name=f"p-{namespace}", catalog=catalog)
    of_team = market_of(catalogs["team-a"], cluster)
    assert set(of_team.versions) == {"p-team-a", "p-olm", "p-"}
    assert set(market_of(catalogs["olm"], cluster).versions) == {*of_team.versions, "p-team-b"}


def test_another_priority_of_a_catalog_is_judged_anew(tmp_path: Path) -> None:
    cluster = judged_cluster()
    catalog = make(tmp_path, package_blobs("good", "1.0.0"))
    sync_catalog(catalog)
    Catalog.objects.filter(pk=catalog.pk).update(cluster=cluster, source_kind="ClusterCatalog")
    other = make_catalog(name="other", cluster=cluster)
    make_package(name="good", catalog=other)
    refresh(catalog, [cluster])
    assert _warnings(catalog, "good") == {"ce-ambiguous"}
    Catalog.objects.filter(pk=other.pk).update(priority=7)
    refresh(catalog, [cluster])
    assert _warnings(catalog, "good") == {"ce-outranked"}
    Catalog.objects.filter(pk=other.pk).update(availability="Unavailable")
    refresh(catalog, [cluster])
    assert _warnings(catalog, "good") == set()


def test_apis_of_installed_operators_are_known_until_these_go(db: None) -> None:
    cluster = judged_cluster()
    owned = {"api_services": 1, "owned_apis": ["v1.x.example"], "package": "a"}
    row = make_component(
        cluster=cluster, kind="ClusterServiceVersion", namespace="n", name="a.v1",
        phase="Succeeded", details=owned,
    )  # fmt: skip
    make_component(
        cluster=cluster, kind="ClusterServiceVersion", namespace="n", name="b.v1",
        phase="Succeeded", details={"api_services": 0},
    )  # fmt: skip
    assert cluster_facts(cluster).apis == {"v1.x.example": ("a", "n")}
    row.phase = "Replacing"
    row.save()
    assert cluster_facts(cluster).apis == {}


def test_an_api_that_another_operator_provides_is_judged(tmp_path: Path) -> None:
    owned = {"owned": [{"group": "x.example", "version": "v1", "kind": "X"}]}
    catalog = make(tmp_path, package_blobs("good", "1.0.0", apiServiceDefinitions=owned))
    sync_catalog(catalog)
    cluster = read_cluster()
    refresh(catalog, [cluster])
    assert _rules("good.v1.0.0", cluster)[InstallMethod.SUBSCRIPTION] == ""
    make_component(
        cluster=cluster, kind="ClusterServiceVersion", namespace="n", name="b.v1",
        details={"api_services": 1, "owned_apis": ["v1.x.example"], "package": "b"},
    )  # fmt: skip
    refresh(catalog, [cluster])
    assert _rules("good.v1.0.0", cluster)[InstallMethod.SUBSCRIPTION] == "sub-api-service-owned"


def test_what_every_bundle_of_a_package_provides_is_known_of_the_market(db: None) -> None:
    package = make_package(catalog=make_catalog(), name="a", channels={})
    old_api, new_api = ApiKind("g", "v1", "Backup"), ApiKind("g", "v1", "Restore")
    make_bundle(package=package, version="1.0.0", provides=[old_api])
    make_bundle(package=package, version="2.0.0", provides=[old_api, new_api])
    market = market_of(package.catalog, None)
    assert market.always == {"a": {old_api}}
    assert market.providers[new_api] == {"a"}


def test_a_market_counts_the_bundles_of_a_package_in_all_catalogs(cluster: Cluster) -> None:
    old_api, new_api = ApiKind("g", "v1", "Backup"), ApiKind("g", "v1", "Restore")
    first = make_package(catalog=make_catalog(cluster=cluster), name="a", channels={})
    make_bundle(package=first, version="2.0.0", provides=[old_api, new_api])
    second = make_package(catalog=make_catalog(name="other"), name="a", channels={})
    make_bundle(package=second, version="1.0.0", provides=[old_api])
    contents: Contents = {}
    market = market_of(first.catalog, cluster, contents)
    assert market.always == {"a": {old_api}}
    assert market.providers[new_api] == {"a"}
    assert sorted(map(str, market.versions["a"])) == ["1.0.0", "2.0.0"]
    assert market_of(first.catalog, None, contents).always == {"a": {old_api, new_api}}
    make_bundle(package=second, version="3.0.0")
    assert market_of(first.catalog, cluster, contents) == market
    Catalog.objects.filter(pk=second.catalog.pk).update(content_hash="changed")
    assert market_of(first.catalog, cluster, contents).always == {}


def test_the_bundles_of_a_catalog_are_counted_once_for_all_clusters(
    catalog: Catalog,
) -> None:
    clusters = [make_cluster(name=name) for name in ("east", "north", "west")]
    with CaptureQueriesContext(connection) as queries:
        assert refresh(catalog, clusters)
    counted = [query for query in queries if 'COUNT(DISTINCT "catalogs_bundlegvk"' in query["sql"]]
    assert len(counted) == 1
