"""The rows that API tests read, and the list of every route with an address that answers 200."""

import json
from dataclasses import dataclass
from datetime import timedelta

from django.core.management.color import no_style
from django.db import connection
from django.utils import timezone

from catalogs.models import (
    BlobRef,
    BundleInspection,
    BundleManifests,
    Catalog,
    CatalogChange,
    CatalogRevision,
    PackageOutline,
    PredictionRun,
)
from catalogs.revisions.outline import Outline, encode
from installs.models import (
    Action,
    ActionBatch,
    ClusterInventory,
    ClusterOperator,
    ClusterOperatorMember,
    Component,
    CopyReport,
    InstallRequest,
    Notification,
    Transition,
    UnknownMessage,
)
from installs.models.steps import Apply, to_json
from olmweb.api.routes import openapi_document
from olmweb.eventlog.record import event, publish, record
from olmweb.eventlog.types import EventType, ExistenceData, HealthData, RecoveryData
from olmweb.models import Cluster, Lease, ResourceWatch, SyncRun
from tests.factories import (
    make_blob,
    make_bundle,
    make_catalog,
    make_cluster,
    make_component,
    make_crd,
    make_event,
    make_icon,
    make_operator,
    make_package,
    make_prediction,
    make_problem,
    make_reference,
)
from tests.worlds.bundle_images import CRD, SERVICE, blob, csv
from tests.worlds.subscriptions import make_catalog_source, make_subscription

# Odd spacing, an escape and a long key order: what a re-serialisation would change.
BLOB = b'{ "schema":"olm.bundle",\n\t"name" : "etcd.v1.1.0", "x": "\\u00e9",  "a":1 }\n'
ROOT = "/api/v1/"
ETCD = "redhat-operators/etcd"

CATALOG = {"cluster": "prod", "catalog": "redhat-operators"}


def read_lists() -> dict[str, str]:
    """The lists of the OpenAPI document that need no query, by their last name."""
    lists = {}
    for path, methods in openapi_document()["paths"].items():
        parameters = methods.get("get", {}).get("parameters", ())
        names = {parameter["name"] for parameter in parameters if parameter["in"] == "query"}
        needed = {item["name"] for item in parameters if item.get("required")} - {*CATALOG}
        if "cursor" in names and not needed:
            lists[path.rpartition("/")[2]] = path.removeprefix(ROOT).format_map(CATALOG)
    return lists


LISTS = read_lists()
DETAILS = {
    "catalog": "catalogs/prod/redhat-operators",
    "local catalog": "catalogs/-/from-file",
    "package": f"packages/prod/{ETCD}",
    "bundle": f"bundles/prod/{ETCD}/etcd.v1.1.0",
    "fbc": f"bundles/prod/{ETCD}/etcd.v1.1.0/fbc",
    "package fbc": f"packages/prod/{ETCD}/fbc",
    "catalog fbc": "catalogs/prod/redhat-operators/fbc",
    "operator": "operators/prod/PlatformOperator/-/etcd",
    "clusteroperator": "clusteroperators/prod/platform-operators-aggregated",
    "cluster": "clusters/prod",
    "action": "actions/1",
    "index": "",
    "version": "version",
    "openapi": "openapi.json",
}
EVERYTHING = {**LISTS, **DETAILS}
MISSING = [
    "catalogs/prod/nothing",
    "catalogs/nowhere/redhat-operators",
    "catalogs/-/redhat-operators",
    "catalogs/prod/nothing/problems",
    "catalogs/prod/nothing/changes",
    "packages/prod/redhat-operators/nothing",
    "bundles/prod/redhat-operators/etcd/nothing",
    "bundles/prod/redhat-operators/etcd/nothing/fbc",
    "bundles/prod/redhat-operators/etcd/etcd.v1.0.0/fbc",
    "operators/prod/PlatformOperator/-/nothing",
    "operators/nowhere/PlatformOperator/-/etcd",
    "clusteroperators/prod/nothing",
    "clusters/nowhere",
    "actions/999999",
    "nothing",
    "packages/prod",
    "packages/",
]
MESSAGE = "convert registry+v1 bundle to plain+v0 bundle: AllNamespace install mode must be enabled"


@dataclass(frozen=True, slots=True)
class World:
    prod: Cluster
    edge: Cluster


def build_world() -> World:
    """Two clusters, three catalogs, seven packages, and at least one row of every model."""
    prod, edge = make_cluster(name="prod"), make_cluster(name="edge", reachable=False)
    red = make_catalog(cluster=prod)
    community = make_catalog(name="community-operators", cluster=edge)
    local = make_catalog(name="from-file")
    make_package(
        catalog=red,
        channels={"stable": ("1.0.0", "1.1.0"), "alpha": ("1.1.0",)},
        provider="CNCF",
        categories=["Database", "Big Data"],
        keywords=["kv", 'quo"te'],
        capability="Full Lifecycle",
        icon=make_icon(),
        bundles={
            "1.1.0": {
                "blob": BLOB,
                "provides": [("etcd.database.coreos.com", "v1beta2", "EtcdCluster")],
                "requires": [("monitoring.coreos.com", "v1", "ServiceMonitor")],
                "images": [("", "registry.example/etcd:1"), ("etcd", "")],
            }
        },
    )
    for name in ("argocd", "bravo", "=cmd|calc"):
        make_package(name=name, catalog=red, deprecated=name == "bravo", summary=f"@{name}")
    for name in ("etcd", "grafana"):
        make_package(name=name, catalog=community, install_modes=["OwnNamespace"])
    make_package(name="etcd", catalog=local)
    make_problem(catalog=red)
    make_problem(catalog=red, package="bravo", severity="warning", message="-odd")
    for number in (1, 2):
        revision = CatalogRevision.objects.create(catalog=red, number=number, content_hash="h")
        for kind in CatalogChange.Kind.values:
            CatalogChange.objects.create(revision=revision, kind=kind, package="etcd")
    PackageOutline.objects.create(
        catalog=red, package="etcd", first=1, content_hash="h", data=b"\x28\xb5\x2f\xfd"
    )
    held = BundleManifests.objects.create(digest="sha256:0", data=b"z", size=1, objects_held=1)
    BundleInspection.objects.create(image="registry.example/etcd:1", manifests=held)
    bundle = make_package(name="zulu", catalog=red).bundles.first()
    assert bundle is not None
    BlobRef.objects.create(
        catalog=red, package="etcd", schema="olm.bundle", ordinal=0,
        blob=make_blob(data=BLOB),
    )  # fmt: skip
    make_prediction(bundle=bundle, rule="po-webhook", sentence="etcd has 2 webhooks.")
    make_prediction(bundle=bundle, path="Subscription")
    PredictionRun.objects.create(catalog=red, rules_version=1, inputs="h")
    ClusterInventory.objects.create(cluster=prod, kinds=["/v1/Pod"], namespaces=["default"])
    _installed(prod, edge)
    return World(prod=prod, edge=edge)


def _installed(prod: Cluster, edge: Cluster) -> None:
    now = timezone.now()
    failing = [{"type": "Installed", "status": "False", "reason": "InstallFailed",
                "message": MESSAGE}]  # fmt: skip
    etcd = make_operator(
        cluster=prod, health="Failed", reason="InstallFailed", message=MESSAGE,
        finding="allnamespaces-required", facts={"bundle": "etcd.v1.1.0"}, conditions=failing,
    )  # fmt: skip
    make_operator(cluster=prod, name="argocd", kind="ClusterExtension", namespace="argo")
    make_operator(cluster=prod, name="old", finding="an-id-nobody-knows", health="Blocked")
    make_operator(cluster=edge, name="grafana", health="Degraded", reason="=SUM(A1)")
    Component.objects.create(
        cluster=prod, kind="BundleDeployment", name="etcd", operator=etcd, conditions=failing
    )
    aggregated = ClusterOperator.objects.create(
        cluster=prod, kind="ClusterOperator", name="platform-operators-aggregated",
        available="False", aggregated=True, problem="They disagree.", conditions=failing,
    )  # fmt: skip
    ClusterOperator.objects.create(
        cluster=prod, kind="ClusterOperator", name="dns", available="True", degraded="True"
    )
    for name, operator in (("etcd", etcd), ("gone", None)):
        ClusterOperatorMember.objects.create(
            cluster_operator=aggregated, name=name, reason="InstallFailed", operator=operator
        )
    Transition.objects.bulk_create(
        # Pairs share a moment: the order must not depend on it alone.
        Transition(
            cluster=prod, kind="PlatformOperator", name="etcd", type="Installed",
            to_status="False", to_reason="InstallFailed", at=now - timedelta(minutes=i // 2),
        )
        for i in range(7)
    )  # fmt: skip
    for state in ("waiting", "declined"):
        InstallRequest.objects.create(
            cluster=prod, catalog_name="redhat-operators", package="etcd", version="1.1.0",
            path="PlatformOperator", name="etcd", reason="For =team", state=state,
        )  # fmt: skip
    make_reference(operator=etcd, kind="BundleDeployment", name="etcd")
    make_crd(cluster=prod, finding="crd-stored-version-gone")
    make_crd(cluster=prod, name="=gears.example.com", owner_kind="Operator", owner_name="etcd.apps")
    make_event(subject=etcd)
    UnknownMessage.objects.create(fingerprint="f", kind="Subscription", sample="etcd <b>odd</b>")
    CopyReport.objects.create(cluster=prod, state="done", result={"copies": 7})
    Notification.objects.create(
        transition=prod.transitions.earliest("id"), state="given-up",
        body={"cluster": "prod", "kind": "PlatformOperator", "name": "etcd", "to": "Failed"},
        error="hooks.example answered 404.",
    )  # fmt: skip
    for number in (1, 2):
        Action.objects.create(
            id=number, cluster=prod, verb="install", name=f"n{number}", state="succeeded",
            package="etcd",
            stored_steps=to_json([Apply({"kind": "PlatformOperator"}, main=True)]),
        )  # fmt: skip
    # Their numbers are in addresses; PostgreSQL's sequence goes on after them.
    with connection.cursor() as cursor:
        for statement in connection.ops.sequence_reset_sql(no_style(), [Action]):
            cursor.execute(statement)
    ActionBatch.objects.create(cluster=prod, path="PlatformOperator", idempotency_key="k")
    for type_, data in (
        (EventType.OPERATOR_HEALTH, HealthData("Healthy", "", "Failed", "=X", MESSAGE, "")),
        (EventType.CATALOG_RECOVERED, RecoveryData(None)),
        (EventType.OPERATOR_DELETED, ExistenceData("7")),
    ):
        of = None if type_ == EventType.CATALOG_RECOVERED else prod.pk
        record([event(type_, now, data, cluster_id=of, kind="PlatformOperator", name="etcd")])
    publish()
    SyncRun.objects.create(kind="cluster", target="prod", cluster=prod, outcome="failed")
    SyncRun.objects.create(kind="cluster", target="edge", cluster=edge, outcome="unchanged")
    Lease.objects.create(name="cluster:1", owner="w1", expires_at=now)
    ResourceWatch.objects.create(cluster=prod, resource="PlatformOperator", kind="PlatformOperator")


def add_troubles(prod: Cluster) -> None:
    """What the routes about troubles list: a catalog that is down, a blocker of the next minor of
    prod, a Subscription to migrate; and package kettle, which revision 2 of redhat-operators added,
    with two bundles of other objects."""
    prod.version, prod.kinds = "4.16.3", {"ClusterExtension": {"state": "served"}}
    prod.save()
    make_component(
        cluster=prod, kind="ClusterVersion", name="version", details={"version": "4.16.3"}
    )
    make_subscription(prod)
    pod = {
        "name": "community-operators-x7", "container": "registry-server", "reason": "OOMKilled",
        "message": "", "restarts": 14,
    }  # fmt: skip
    make_catalog_source(prod, state="TRANSIENT_FAILURE", pods=[pod], pods_total=1)
    community = make_catalog(
        name="community-operators", cluster=prod, namespace="openshift-marketplace",
        slug="openshift-marketplace.community-operators", source_kind="CatalogSource",
    )  # fmt: skip
    make_package(
        name="grafana", catalog=community, bundles={"1.0.0": {"max_openshift_version": "4.16"}}
    )
    red = Catalog.objects.get(cluster=prod, slug="redhat-operators")
    kettle = make_package(name="kettle", catalog=red, channels={})
    outline = encode(Outline())
    PackageOutline.objects.create(
        catalog=red, package="kettle", first=2, content_hash=outline.content_hash, data=outline.data
    )
    for version, objects in (("1.0.0", [CRD, SERVICE]), ("2.0.0", [CRD])):
        make_bundle(
            package=kettle, version=version, blob=blob(f"kettle.v{version}", csv(), *objects)
        )


def lines(body: bytes) -> list[dict[str, object]]:
    return [json.loads(line) for line in body.decode().splitlines()]
