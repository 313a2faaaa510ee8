"""The published audit's world, in the sandbox: what is predicted of its 69 packages, and came out.

The sandbox's controllers decide by code of their own; nothing here tells one of the other.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from catalogs.contents.bundle_facts import read_contents
from catalogs.install_methods import InstallMethod
from catalogs.models import Catalog, Prediction
from catalogs.storage.blobs import read_blob
from catalogs.sync.catalog import sync_catalog
from catalogs.verdicts.evaluate import predict
from installs.audit.audit import Audit, audit
from installs.facts.cluster_facts import cluster_facts, market_of
from installs.facts.evaluate import refresh
from installs.facts.inventory import read_inventory
from installs.models import NEEDS_ATTENTION, Operator
from installs.state.full_sync import sync_cluster
from installs.state.listing import list_resources
from installs.state.resources import resources_of_kinds
from installs.state.write import write_snapshot
from olmweb.clusters import client_for
from olmweb.models import Cluster
from olmweb.sandbox.cluster import Sandbox
from olmweb.sandbox.scenario import world
from olmweb.sandbox.scenario.packages import packages

pytestmark = pytest.mark.django_db
AUDIT = {"": 25, "po-install-mode": 26, "po-webhook": 14}
CONFLICTS = {
    "elasticsearch-operator": ("po-role-exists", "Role", "leader-election-role"),
    "odr-hub-operator": ("po-namespace-exists", "Namespace", "openshift-dr-system"),
    "rhpam-kogito-operator": (
        "po-crd-owned",
        "CustomResourceDefinition",
        "kogitobuilds.rhpam.kiegroup.org",
    ),
    "web-terminal": ("po-namespace-exists", "Namespace", "openshift-operators"),
}


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    running = Sandbox(step_seconds=3600)  # its controllers move when a test says so
    running.start()
    yield running
    running.stop()


@pytest.fixture
def cluster(sandbox: Sandbox, tmp_path: Path, settings: Any) -> Cluster:
    """Read once, with its catalogs."""
    sandbox.write_kubeconfig(tmp_path / "kubeconfig")
    settings.KUBECONFIG = str(tmp_path / "kubeconfig")
    cluster = Cluster.objects.create(name="sandbox", context="sandbox")
    assert sync_cluster(cluster).error == ""
    cluster.refresh_from_db()
    for catalog in Catalog.objects.filter(cluster=cluster, source_kind="ClusterCatalog"):
        assert sync_catalog(catalog).outcome == "changed"
    return cluster


def _audit(
    cluster: Cluster, path: InstallMethod, slug: str = "redhat-operators", **more: Any
) -> Audit:
    catalog = Catalog.objects.get(cluster=cluster, slug=slug)
    refresh(catalog, [cluster])
    return audit(catalog, path, cluster=cluster, **more)


def test_all_69_outcomes_of_the_audit_are_named_with_their_rules(cluster: Cluster) -> None:
    read_inventory(cluster)
    found = _audit(cluster, InstallMethod.PLATFORM_OPERATOR)
    assert found.counts["unknown"] == 0
    assert {each.agrees for each in found.actual} == {True}
    rules = Counter(each.rule for each in found.actual)
    assert {rule: rules[rule] for rule in AUDIT} == AUDIT
    told = {each.name: each.rule for each in found.actual if each.rule not in AUDIT}
    assert told == {name: rule for name, (rule, _, _) in CONFLICTS.items()}
    assert len(found.actual) == 69


def test_the_readme_counts_the_demo_as_it_is(cluster: Cluster) -> None:
    readme = " ".join((settings.BASE_DIR / "README.md").read_text(encoding="utf-8").split())
    kinds = Counter(Operator.objects.values_list("kind", flat=True))
    failing = Operator.objects.filter(health__in=NEEDS_ATTENTION).count()
    assert f"{failing} of {kinds.total()} operators need attention" in readme
    assert f"{kinds['PlatformOperator']} PlatformOperators were created" in readme
    assert f"{kinds['ClusterExtension']} ClusterExtensions" in readme
    assert f"{kinds['Subscription']} Subscriptions" in readme
    assert kinds["ClusterServiceVersion"] == 1


def test_what_decides_a_conflict_was_there_before_the_operator(
    sandbox: Sandbox, cluster: Cluster
) -> None:
    for name, (_, kind, obstacle) in CONFLICTS.items():
        [item] = [i for i in sandbox.store.items(kind)[0] if i["metadata"]["name"] == obstacle]
        operator = sandbox.store.get("PlatformOperator", name)
        assert operator is not None
        assert item["metadata"]["creationTimestamp"] < operator["metadata"]["creationTimestamp"]


def test_each_outcome_is_predicted_right_before_its_operator_is_asked_for(
    sandbox: Sandbox, cluster: Cluster
) -> None:
    """From a cluster without PlatformOperators on, in the order of the audit; what is known is read
    of the cluster over its API, each time that one was installed."""
    refresh(catalog := Catalog.objects.get(cluster=cluster, slug="redhat-operators"), [])
    market = market_of(catalog, cluster)
    chosen = {
        row.package.name: row.bundle
        for row in Prediction.objects.filter(path="PlatformOperator", chosen=True)
    }
    for item in sandbox.store.items("PlatformOperator")[0]:
        sandbox.store.delete("PlatformOperator", item["metadata"]["name"])
    first = world.facts()["asked_first"]
    foreseen: Counter[str] = Counter()
    facts = None
    for name in [*first, *sorted(set(packages("packages")) - set(first))]:
        if facts is None:
            _read(cluster)
            facts = cluster_facts(cluster)
            asked = {each.name for each in facts.installed if each.kind == "PlatformOperator"}
            assert name not in asked
        bundle = chosen[name]
        assert bundle is not None
        contents = read_contents(read_blob(bundle.blob_id or "") or b"")
        said = predict(contents, InstallMethod.PLATFORM_OPERATOR, cluster=facts, market=market)
        rule = said.deciding.rule if said.deciding else ""
        outcome = _ask(sandbox, name)
        assert (name, rule == "") == (name, outcome == "InstallSuccessful")
        foreseen[rule] += 1
        facts = None if rule == "" else facts
    assert {rule: foreseen[rule] for rule in AUDIT} == AUDIT
    assert foreseen.total() - sum(AUDIT.values()) == len(CONFLICTS)


def _ask(sandbox: Sandbox, package: str) -> str:
    """The reason at which a PlatformOperator for the package settles."""
    sandbox.store.put(
        {
            "apiVersion": "platform.openshift.io/v1alpha1",
            "kind": "PlatformOperator",
            "metadata": {"name": package},
            "spec": {"package": {"name": package}},
        }
    )
    sandbox.platform_operators.settle(package)
    operator = sandbox.store.get("PlatformOperator", package) or {}
    return str(operator["status"]["conditions"][0]["reason"])


def _read(cluster: Cluster) -> None:
    """What predictions look at: CRDs, operators, namespaces, Roles."""
    client = client_for(cluster)
    try:
        read_inventory(cluster, client)
        kinds = ("CustomResourceDefinition", "PlatformOperator")
        write_snapshot(cluster, list_resources(client, resources_of_kinds(kinds)))
    finally:
        client.close()


def test_other_paths_come_true_by_the_namespace_and_the_version_asked_for(
    cluster: Cluster,
) -> None:
    read_inventory(cluster)
    subscriptions = _audit(cluster, InstallMethod.SUBSCRIPTION).actual
    assert {(each.name, each.rule, each.agrees) for each in subscriptions} == {
        ("cluster-logging", "", True),  # in an OperatorGroup of its own namespace
        ("external-dns-operator", "sub-source-down", True),
        ("jaeger-product", "", True),
        ("mtv-operator", "sub-install-mode", True),
        ("quay-bridge-operator", "", True),
        ("rhsso-operator", "channel", True),  # the catalog has no such channel
    }
    extensions = _audit(cluster, InstallMethod.CLUSTER_EXTENSION).actual
    assert {(each.name, each.rule, each.agrees) for each in extensions} == {
        ("object-store", "range", True),
        ("queue", "", True),
    }
    [ledger] = _audit(cluster, InstallMethod.SUBSCRIPTION, "community-operators").actual
    assert (ledger.name, ledger.rule, ledger.agrees) == ("ledger-demo", "sub-required-crd", True)


@pytest.mark.parametrize(
    ("namespace", "target", "rule"),
    [
        ("openshift-operators", "all", "sub-install-mode"),
        ("openshift-logging", "own", ""),
        ("team-lab", "own", "sub-source-down"),
        ("default", "all", "sub-one-group"),
    ],
)
def test_the_operator_group_of_the_namespace_asked_for_counts(
    cluster: Cluster, namespace: str, target: str, rule: str
) -> None:
    found = _audit(cluster, InstallMethod.SUBSCRIPTION, namespace=namespace)
    assert found.target == target
    [row] = [each for each in found.rows if each.package == "cluster-logging"]
    assert row.prediction.rule == rule
    assert Operator.objects.filter(kind="Subscription", package="cluster-logging").exists()
