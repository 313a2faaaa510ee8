"""What blocks the next minor: each rule, and the way out that the graph has."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from catalogs.models import Catalog, Channel
from installs.diagnosis.aggregated import REFUSED_WHILE_FAILING
from installs.models import Component, Operator
from installs.readiness import ReadinessRow, readiness
from installs.readiness.blockers import (
    read_maximum,
    read_minor,
    reported_operators,
    supports,
)
from installs.readiness.request import ReadinessRequest, markdown, verdict
from olmweb.models import Cluster
from tests.factories import make_catalog, make_cluster, make_component, make_operator, make_package
from tests.worlds.html import assert_page
from tests.worlds.operators import make_clusteroperator
from tests.worlds.subscriptions import CATALOG, NAMESPACE, make_subscription

pytestmark = pytest.mark.django_db


@pytest.fixture
def prod() -> Cluster:
    cluster = make_cluster(name="prod", version="4.16.3")
    make_component(
        cluster=cluster, kind="ClusterVersion", name="version", details={"version": "4.16.3"}
    )
    return cluster


@pytest.fixture
def catalog(prod: Cluster) -> Catalog:
    return make_catalog(name=CATALOG, cluster=prod)


def rows_of(cluster: Cluster, following: Catalog | None = None) -> list[ReadinessRow]:
    return list(readiness([cluster], following)[0].rows)


def the_row(cluster: Cluster, code: str, following: Catalog | None = None) -> ReadinessRow:
    found = [row for row in rows_of(cluster, following) if row.code == code]
    assert len(found) == 1, [row.code for row in rows_of(cluster, following)]
    return found[0]


def make_csv(row: Operator, **details: Any) -> None:
    """The ClusterServiceVersion as a sync keeps it."""
    row.components.filter(kind="ClusterServiceVersion").delete()
    make_component(
        operator=row,
        kind="ClusterServiceVersion",
        namespace=row.namespace,
        name=row.bundle,
        details={"max_openshift": [], "min_kube": "", **details},
    )


@pytest.mark.parametrize(
    ("values", "minor", "answer"),
    [
        ((), "4.17", True),
        (("4.17",), "4.17", True),
        (("4.16",), "4.17", False),
        (("5.0",), "4.23", True),
        (("4.23",), "5.0", True),
        (("4.22",), "4.23", False),
        (("4.16", "4.17"), "4.17", False),
        (("4.17.1",), "4.17", False),
        (("",), "4.17", False),
    ],
)
def test_the_maximum_is_read_as_olm_reads_it(
    values: tuple[str, ...], minor: str, answer: bool
) -> None:
    wanted = read_minor(minor)
    assert wanted is not None
    assert supports(values, wanted) is answer


def test_a_version_that_is_none_has_no_minor() -> None:
    assert read_minor("latest") is None
    assert str(read_minor("v1.29.4+k3s1")) == "1.29"
    assert read_maximum("4.16.3") is None


def test_an_operator_that_supports_no_later_openshift_blocks_and_its_channel_is_the_way_out(
    prod: Cluster, catalog: Catalog
) -> None:
    make_package(
        name="grafana",
        catalog=catalog,
        channels={"stable": ("1.0.0", "1.1.0", "1.2.0", "1.3.0")},
        bundles={
            "1.0.0": {"max_openshift_version": "4.16"},
            "1.1.0": {"max_openshift_version": "4.16"},
            "1.2.0": {"max_openshift_version": "4.17"},
        },
    )
    make_subscription(prod)
    row = the_row(prod, "max-openshift")
    assert (row.weight, row.following, row.target) == ("blocks", "4.17", "1.2.0")
    assert "supports OpenShift up to 4.16, the next is 4.17" in row.sentence
    assert "Channel stable leads to 1.2.0" in row.ways[0]
    assert "1.0.0 → 1.1.0 → 1.2.0" in row.ways[0]


def test_what_the_csv_says_counts_more_than_the_catalog(prod: Cluster, catalog: Catalog) -> None:
    make_package(
        name="grafana", catalog=catalog, bundles={"1.0.0": {"max_openshift_version": "4.16"}}
    )
    row = make_subscription(prod)
    make_csv(row, max_openshift=["4.18"])
    assert rows_of(prod) == []
    make_csv(row, max_openshift=["4.16", "4.18"])
    assert the_row(prod, "max-openshift-unreadable").weight == "blocks"


def test_another_channel_is_the_way_out_when_the_own_one_has_none(
    prod: Cluster, catalog: Catalog
) -> None:
    old = {"max_openshift_version": "4.16"}
    make_package(
        name="grafana",
        catalog=catalog,
        channels={"stable": ("1.0.0", "1.1.0"), "v2": ("1.0.0", "2.0.0")},
        bundles={"1.0.0": old, "1.1.0": old},
    )
    make_subscription(prod, details={"approval": "Manual"})
    row = the_row(prod, "max-openshift")
    assert row.target == "2.0.0"
    assert "Change spec.channel of Subscription grafana" in row.ways[0]
    assert "from stable to v2" in row.ways[0]
    assert row.ways[1] == "Approval is Manual: approve its InstallPlan."


def test_without_an_upgrade_the_way_is_to_install_anew_and_without_a_version_to_ask(
    prod: Cluster, catalog: Catalog
) -> None:
    old = {"max_openshift_version": "4.16"}
    package = make_package(
        name="grafana",
        catalog=catalog,
        channels={"stable": ("1.0.0",), "v2": ("2.0.0",)},
        bundles={"1.0.0": old},
    )
    make_subscription(prod)
    row = the_row(prod, "max-openshift")
    assert row.target == ""
    assert "no upgrade leads to it" in row.ways[0]
    assert "startingCSV: grafana.v2.0.0" in row.ways[0]
    package.bundles.update(max_openshift_version="4.16")
    assert "No version of grafana" in the_row(prod, "max-openshift").ways[0]


def test_a_cluster_extension_is_pinned_to_the_way_and_nothing_enforces_its_maximum(
    prod: Cluster, catalog: Catalog
) -> None:
    make_package(
        name="argocd",
        catalog=catalog,
        channels={"stable": ("1.0.0", "1.1.0", "1.2.0")},
        bundles={"1.0.0": {"max_openshift_version": "4.16"}},
    )
    make_operator(cluster=prod, kind="ClusterExtension", name="argocd", version_asked="1.0.x")
    row = the_row(prod, "max-openshift")
    assert (row.weight, row.target) == ("plan", "1.1.0")
    assert row.ways[0].endswith(
        "set spec.source.catalog.version, now 1.0.x, to a range that includes 1.1.0 in "
        "ClusterExtension argocd. operator-controller then upgrades it: 1.0.0 → 1.1.0."
    )
    for version_asked in ("", "1.x", "not a range"):
        Operator.objects.update(version_asked=version_asked)
        (sentence,) = the_row(prod, "max-openshift").ways
        how = "operator-controller upgrades ClusterExtension argocd to it automatically, "
        assert sentence.endswith(f"{how}1.0.0 → 1.1.0.")


def test_a_platform_operator_is_made_anew(prod: Cluster, catalog: Catalog) -> None:
    make_package(name="etcd", catalog=catalog, bundles={"1.0.0": {"max_openshift_version": "4.16"}})
    make_operator(cluster=prod, name="etcd")
    row = the_row(prod, "max-openshift")
    assert (row.weight, row.target) == ("plan", "1.1.0")
    assert "never upgraded: remove it and make it again" in row.ways[0]


def test_an_operator_that_was_read_before_its_catalog_is_checked_by_the_image_of_its_bundle(
    prod: Cluster, catalog: Catalog
) -> None:
    limits = {"1.0.0": {"max_openshift_version": "4.16"}}
    package = make_package(name="grafana", catalog=catalog, bundles=limits)
    package.bundles.filter(version="1.0.0").update(image="quay.io/grafana@sha256:1")
    make_operator(
        cluster=prod, name="grafana", package="grafana", bundle="quay.io/grafana@sha256:1"
    )
    row = the_row(prod, "max-openshift")
    assert (row.version, row.weight) == ("1.0.0", "plan")
    assert row.sentence.startswith("1.0.0 supports OpenShift up to 4.16")


def test_an_operator_that_no_catalog_has_is_not_called_ready(prod: Cluster) -> None:
    make_operator(cluster=prod, kind="ClusterExtension", name="unheard")
    found = readiness([prod])[0]
    assert [row.code for row in found.rows] == ["max-openshift-unknown"]
    assert found.counts == {"blocks": 0, "completion": 0, "holds": 0, "unknown": 1, "plan": 0}


def make_blocking(cluster: Cluster, message: str, name: str = "operator-lifecycle-manager") -> None:
    make_clusteroperator(
        cluster,
        name,
        upgradeable="False",
        reason="IncompatibleOperatorsInstalled",
        message=message,
    )


HEAD = "ClusterServiceVersions blocking minor version upgrades to 4.17.0 or higher:"


@pytest.mark.parametrize(
    ("message", "names"),
    [
        (
            f"{HEAD}\n- maximum supported OCP version for tools/ceiling.v1.1.0 is 4.16\n"
            "- maximum supported OCP version for openshift-logging/logging.v6.2.9 is 4.16",
            [("tools", "ceiling.v1.1.0", "4.16"), ("openshift-logging", "logging.v6.2.9", "4.16")],
        ),
        (
            "Cluster operator operator-lifecycle-manager should not be upgraded between minor "
            "versions: ClusterServiceVersions blocking cluster upgrade: a/b.v1 is incompatible "
            "with OpenShift minor versions greater than 4.14,a/c.v1.12.2 is incompatible with "
            "OpenShift minor versions greater than 4.14",
            [("a", "b.v1", "4.14"), ("a", "c.v1.12.2", "4.14")],
        ),
        (
            f"{HEAD}\n- a/b.v1 has invalid olm.maxOpenShiftVersion properties: "
            "Defining more than one olm.maxOpenShiftVersion property is not allowed",
            [("a", "b.v1", "")],
        ),
        (
            "Found ClusterExtensions that require upgrades prior to upgrading cluster to version "
            '4.17: bundle "b.v1" for ClusterExtension "b",bundle "c.v2" for ClusterExtension "c".',
            [("", "b", ""), ("", "c", "")],
        ),
        ("etcd/main is defragmenting", []),
    ],
)
def test_the_operators_that_a_message_of_the_cluster_names(
    message: str, names: list[tuple[str, str, str]]
) -> None:
    assert [row[1:] for row in reported_operators(message)] == names


def test_the_rows_of_operators_come_before_the_condition_that_names_them(
    prod: Cluster, catalog: Catalog
) -> None:
    make_blocking(
        prod, f"{HEAD}\n- maximum supported OCP version for {NAMESPACE}/grafana.v1.0.0 is 4.16"
    )
    make_package(
        name="grafana", catalog=catalog, bundles={"1.0.0": {"max_openshift_version": "4.16"}}
    )
    make_subscription(prod)
    operator, condition = rows_of(prod)
    assert (condition.kind, condition.code) == ("ClusterOperator", "cluster-operator")
    assert f"Upgrade or remove {NAMESPACE}/grafana.v1.0.0, as its row says." in condition.ways[0]
    assert (operator.code, operator.name, operator.target) == ("max-openshift", "grafana", "1.1.0")
    reports = "ClusterOperator operator-lifecycle-manager reports grafana.v1.0.0 as incompatible."
    assert reports in operator.sentence


def test_a_failing_cluster_is_not_called_ready(reader: Client, prod: Cluster) -> None:
    condition = {
        "type": "Failing",
        "status": "True",
        "reason": "ClusterOperatorNotAvailable",
        "message": "Cluster operator etcd is not available",
    }
    Component.objects.filter(kind="ClusterVersion").update(conditions=[condition])
    row = the_row(prod, "cluster-failing")
    assert (row.kind, row.weight) == ("ClusterVersion", "completion")
    assert row.sentence == (
        "ClusterVersion version says Failing=True: Cluster operator etcd is not available."
    )
    page = assert_page(reader.get("/readiness/"))
    text = page.text
    assert "/cluster-operators/?cluster=prod" in page.links
    refusal = "oc adm upgrade needs --allow-upgrade-with-warnings"
    verdict = f"can start. While the cluster is failing, {refusal} and an update does not complete."
    assert f"Cluster failing The update to OpenShift 4.17 {verdict}" in text
    assert "Not blocked" not in text
    assert "Prevents completion The cluster is failing ClusterVersion" in text
    assert f"until then {refusal}, and" in text
    assert f"Until then {refusal}." in assert_page(reader.get("/")).text
    report = assert_page(reader.get("/report/")).text
    assert "Prevents completion The cluster is failing version ClusterVersion" in report
    for name in ("etcd", "kube-apiserver"):
        make_clusteroperator(prod, name, available="False", severity=3)
    make_operator(cluster=prod)
    Cluster.objects.update(revision=7)
    for path in ("/readiness/", "/"):
        page = assert_page(reader.get(path))
        assert "/cluster-operators/prod/etcd" in page.links


def test_a_word_of_the_message_that_names_a_healthy_cluster_operator_is_not_the_reason(
    reader: Client, prod: Cluster
) -> None:
    make_cluster_failing("Cluster operator etcd is not available: no network between its members")
    make_clusteroperator(prod, "etcd", available="False", severity=3)
    make_clusteroperator(prod, "network")
    row = the_row(prod, "cluster-failing")
    assert (row.reason_at, row.recovery) == ("etcd", None)
    assert row.ways[0].startswith("Resolve ClusterOperator etcd first")


@pytest.mark.parametrize(
    ("message", "names"),
    [
        ("Cluster operator etcd is not available: no network between its members", ("etcd",)),
        ("Cluster operators etcd, network are not available, as is dns", ("etcd", "network")),
        ("Some cluster operators are still updating: dns and etcd", ("dns", "etcd")),
        (
            "Multiple errors:\n* Cluster operator etcd is degraded: no network\n* Could not update",
            ("etcd",),
        ),
    ],
)
def test_only_cluster_operators_that_the_message_is_about_recovered(
    prod: Cluster, message: str, names: tuple[str, ...]
) -> None:
    make_cluster_failing(message)
    for name in ("dns", "etcd", "network"):
        make_clusteroperator(prod, name)
    recovery = the_row(prod, "cluster-failing").recovery
    assert recovery is not None
    assert recovery.operators == names


def test_a_verdict_names_all_cluster_operators_without_which_no_update_completes(
    prod: Cluster,
) -> None:
    for name in ("insights", "monitoring"):
        make_clusteroperator(prod, name, degraded="True", severity=2)
    (report,) = readiness([prod])
    names = "ClusterOperator insights and ClusterOperator monitoring"
    assert verdict(report).endswith(f"An update does not complete before {names} recover.")


def test_a_verdict_says_once_that_an_update_of_a_failing_cluster_does_not_complete(
    prod: Cluster,
) -> None:
    make_cluster_failing("Cluster operator etcd is not available")
    make_clusteroperator(prod, "etcd", available="False", severity=3)
    make_clusteroperator(prod, "insights", degraded="True", severity=2)
    (report,) = readiness([prod])
    assert verdict(report) == (
        f"The update to OpenShift 4.17 can start. While the cluster is failing, "
        f"{REFUSED_WHILE_FAILING}. An update does not complete before Failing=True clears and "
        "ClusterOperator insights recovers."
    )


def test_a_cluster_operator_that_blocks_the_completion_alone_has_a_row(
    reader: Client, prod: Cluster
) -> None:
    make_clusteroperator(
        prod, "insights", available="True", degraded="True", reason="UploadFailed",
        message="Unable to upload", severity=2,
    )  # fmt: skip
    row = the_row(prod, "cluster-operator-unhealthy")
    assert (row.kind, row.name, row.weight) == ("ClusterOperator", "insights", "completion")
    assert row.sentence.startswith(
        "ClusterOperator insights says Degraded=True (UploadFailed): Unable to upload. An update "
    )
    page = assert_page(reader.get("/readiness/"))
    verdict = "An update does not complete before ClusterOperator insights recovers."
    assert f"Won’t complete The update to OpenShift 4.17 can start. {verdict}" in page.text
    assert "Prevents completion A ClusterOperator prevents completion" in page.text
    assert "/cluster-operators/prod/insights" in page.links
    report = assert_page(reader.get("/report/")).text
    assert "Prevents completion A ClusterOperator prevents completion insights" in report
    overview = assert_page(reader.get("/"))
    assert (
        "Won’t complete An update starts, and does not complete before ClusterOperator insights "
        "recovers."
    ) in overview.text


def test_the_severities_of_the_filter_are_the_badges_of_the_rows(
    reader: Client, prod: Cluster
) -> None:
    make_clusteroperator(prod, "insights", degraded="True", severity=2)
    page = assert_page(reader.get("/readiness/", {"weight": "completion"}))
    badge = "Prevents completion"
    assert f"{badge} A ClusterOperator prevents completion" in page.text
    assert f"Blocks the update {badge} Holds back an operator Unknown Plan ahead" in page.text
    narrowed = assert_page(reader.get("/readiness/", {"weight": "holds"})).text
    assert f"{badge} A ClusterOperator" not in narrowed


def make_cluster_failing(message: str) -> None:
    condition = {"type": "Failing", "status": "True", "message": message}
    condition["lastTransitionTime"] = (timezone.now() - timedelta(hours=6)).isoformat()
    Component.objects.filter(kind="ClusterVersion").update(conditions=[condition])


def test_the_pages_say_that_a_recovered_cluster_operator_is_not_in_the_cluster_version_yet(
    reader: Client, prod: Cluster
) -> None:
    make_operator(cluster=prod)
    make_cluster_failing("Cluster operator etcd is not available")
    etcd = make_clusteroperator(prod, "etcd")  # available since two hours
    row = the_row(prod, "cluster-failing")
    assert row.ways[0].startswith(
        "ClusterOperator etcd recovered. Wait for the cluster-version-operator, which clears the "
    )
    for path in ("/", "/readiness/", "/cluster-operators/prod/etcd"):
        assert (
            "ClusterOperator etcd recovered 2 h ago , but ClusterVersion version still reports "
            "Failing=True, for 6 h : the cluster-version-operator has not updated it yet."
        ) in assert_page(reader.get(path)).text
    make_clusteroperator(prod, "dns")
    make_cluster_failing("Cluster operators dns, etcd are not available")
    Cluster.objects.update(revision=6)
    assert "ClusterOperators dns, etcd recovered" in assert_page(reader.get("/")).text
    etcd.conditions[0]["status"] = "False"
    etcd.available = "False"
    etcd.save()
    Cluster.objects.update(revision=7)
    for path in ("/", "/readiness/", "/cluster-operators/prod/etcd"):
        assert "etcd recovered" not in assert_page(reader.get(path)).text


def test_a_failing_cluster_links_to_the_cluster_operator_in_the_column_of_resolutions(
    reader: Client, prod: Cluster
) -> None:
    make_cluster_failing("Cluster operator etcd is not available")
    make_clusteroperator(prod, "etcd", available="False", severity=3)
    make_clusteroperator(prod, "insights", degraded="True", severity=2, message="i/o timeout")
    text = assert_page(reader.get("/readiness/")).text
    step = f"Resolve ClusterOperator etcd first: until then {REFUSED_WHILE_FAILING}, and an update "
    step += "that was started with it does not complete. Why ClusterOperator etcd fails"
    assert step in text
    assert (
        "Resolve the cause; the condition clears automatically. ClusterOperator insights is no "
        "part of OLM, so this console can't clear its conditions: see oc describe clusteroperator "
        "insights Conditions and next steps of ClusterOperator insights"
    ) in text


@pytest.mark.parametrize(
    ("message", "step"),
    [
        ("Something else", "Resolve the cause"),
        ("Get https://console.example/api: dial tcp: i/o timeout", "Resolve the cause"),
        (
            "Disabling ownership via cluster version overrides prevents upgrades. Please remove "
            "overrides before continuing.",
            "Do what its message asks for",
        ),
        (
            "Kubernetes 1.25 and therefore OpenShift 4.12 remove several APIs which require admin "
            "consideration. Please see the knowledge article",
            "Do what its message asks for",
        ),
    ],
)
def test_a_remedy_refers_to_the_message_only_if_it_asks_for_something(
    prod: Cluster, message: str, step: str
) -> None:
    make_blocking(prod, message)
    assert the_row(prod, "cluster-operator").ways == (
        f"{step}; the condition clears automatically.",
    )


def test_a_named_operator_without_stored_facts_takes_its_maximum_from_the_message(
    prod: Cluster,
) -> None:
    make_subscription(prod)
    make_blocking(
        prod, f"{HEAD}\n- maximum supported OCP version for {NAMESPACE}/grafana.v1.0.0 is 4.16"
    )
    row = the_row(prod, "max-openshift")
    assert (row.kind, row.weight) == ("Subscription", "blocks")


def test_a_named_version_that_was_not_found_has_a_row_with_what_to_check(prod: Cluster) -> None:
    make_blocking(prod, f"{HEAD}\n- maximum supported OCP version for tools/ceiling.v1.1.0 is 4.16")
    row = the_row(prod, "reported-missing")
    assert (row.kind, row.namespace, row.name) == (
        "ClusterServiceVersion", "tools", "ceiling.v1.1.0",
    )  # fmt: skip
    assert row.weight == "blocks"
    assert "supports OpenShift up to 4.16" in row.sentence
    assert row.ways[0].endswith("kubectl get clusterserviceversion ceiling.v1.1.0 -n tools")
    assert "a version that supports OpenShift 4.17" in row.ways[1]


def test_a_named_version_that_the_stored_facts_allow_has_a_row_that_says_so(prod: Cluster) -> None:
    row = make_subscription(prod, current="1.1.0")
    make_csv(row, max_openshift=["4.18"])
    make_component(
        operator=row, kind="ClusterServiceVersion", namespace=NAMESPACE, name="grafana.v0.9.0",
    )  # fmt: skip
    make_blocking(
        prod,
        f"{HEAD}\n- {NAMESPACE}/grafana.v1.0.0 has invalid olm.maxOpenShiftVersion properties: x"
        f"\n- maximum supported OCP version for {NAMESPACE}/grafana.v0.9.0 is 4.16",
    )
    found = [row for row in rows_of(prod) if row.code == "reported-incompatible"]
    assert [(row.name, row.weight) for row in found] == [("grafana", "blocks")] * 2
    sentences = " ".join(row.sentence for row in found)
    assert "grafana.v1.0.0 as incompatible" in sentences
    assert "grafana.v0.9.0 as incompatible" in sentences


def test_a_named_cluster_extension_blocks(prod: Cluster, catalog: Catalog) -> None:
    make_package(
        name="argocd", catalog=catalog, bundles={"1.0.0": {"max_openshift_version": "4.16"}}
    )
    make_operator(cluster=prod, kind="ClusterExtension", name="argocd")
    make_blocking(
        prod,
        "Found ClusterExtensions that require upgrades prior to upgrading cluster to version 4.17: "
        'bundle "argocd.v1.0.0" for ClusterExtension "argocd".',
        name="olm",
    )
    row = the_row(prod, "max-openshift")
    assert (row.weight, row.target) == ("blocks", "1.1.0")
    assert "ClusterOperator olm reports" in row.sentence


def test_what_is_part_of_olm_is_not_checked(prod: Cluster, following: Catalog) -> None:
    make_operator(
        cluster=prod,
        kind="ClusterServiceVersion",
        namespace="openshift-operator-lifecycle-manager",
        name="packageserver",
        bundle="packageserver",
    )
    report = readiness([prod], following)[0]
    assert (report.rows, report.operators, report.part_of_olm) == ((), 0, 1)


def test_an_operator_condition_holds_its_operator_unless_it_was_overruled(prod: Cluster) -> None:
    row = make_subscription(prod)
    make_csv(row)
    said = {"type": "Upgradeable", "status": "False", "message": "a migration runs"}
    condition = make_component(
        operator=row,
        kind="OperatorCondition",
        namespace=NAMESPACE,
        name=row.bundle,
        conditions=[said],
    )
    found = the_row(prod, "operator-condition")
    assert found.weight == "holds"
    assert "a migration runs." in found.sentence
    condition.details = {"overrides": [{**said, "status": "True"}]}
    condition.save()
    assert rows_of(prod) == []


def test_deprecations_name_their_message_and_the_version_that_is_not(
    prod: Cluster, catalog: Catalog
) -> None:
    make_package(
        name="grafana",
        catalog=catalog,
        deprecated=True,
        deprecation="Use tempo.",
        channels={"stable": ("1.0.0", "1.1.0"), "next": ("1.0.0", "1.1.0")},
        bundles={"1.0.0": {"deprecated": True, "deprecation": "Has a\nleak."}},
    )
    Channel.objects.filter(name="stable").update(deprecated=True, deprecation="Moved.")
    make_csv(make_subscription(prod))
    codes = [row.code for row in rows_of(prod)]
    assert codes == ["package-deprecated", "channel-deprecated", "bundle-deprecated"]
    assert "Use tempo." in the_row(prod, "package-deprecated").sentence
    assert the_row(prod, "channel-deprecated").ways == (
        "Change its channel to next, which has 1.0.0, too.",
    )
    bundle = the_row(prod, "bundle-deprecated")
    assert (bundle.target, "Has a leak." in bundle.sentence) == ("1.1.0", True)


@pytest.fixture
def following() -> Catalog:
    return make_catalog(name="next", cluster=None)


def test_a_package_that_the_next_catalog_lacks_is_told(
    prod: Cluster, catalog: Catalog, following: Catalog
) -> None:
    make_package(name="grafana", catalog=catalog)
    make_csv(make_subscription(prod))
    assert rows_of(prod) == []
    assert "-/next has no package grafana" in the_row(prod, "package-gone", following).sentence


def test_a_channel_that_the_next_catalog_lacks_has_its_successor_named(
    prod: Cluster, catalog: Catalog, following: Catalog
) -> None:
    make_package(name="grafana", catalog=catalog)
    make_package(name="grafana", catalog=following, channels={"v2": ("1.0.0", "2.0.0")})
    make_csv(make_subscription(prod))
    row = the_row(prod, "channel-gone", following)
    assert "Change its channel to v2" in row.ways[0]


def test_a_stranded_version_is_upgraded_first_to_one_that_the_next_catalog_has(
    prod: Cluster, catalog: Catalog, following: Catalog
) -> None:
    make_package(name="grafana", catalog=catalog, channels={"stable": ("1.0.0", "1.1.0", "1.2.0")})
    make_package(name="grafana", catalog=following, channels={"stable": ("1.2.0", "1.3.0")})
    make_csv(make_subscription(prod))
    row = the_row(prod, "version-gone", following)
    assert row.target == "1.2.0"
    assert "Upgrade to 1.2.0 in channel stable before the update" in row.ways[0]


def test_a_version_that_something_in_the_next_catalog_replaces_is_not_stranded(
    prod: Cluster, catalog: Catalog, following: Catalog
) -> None:
    make_package(name="grafana", catalog=catalog)
    package = make_package(name="grafana", catalog=following, channels={"stable": ("1.2.0",)})
    package.channels.get().entries.update(replaces="grafana.v1.0.0")
    make_csv(make_subscription(prod))
    assert rows_of(prod, following) == []


def test_a_plain_kubernetes_has_a_next_minor_and_no_openshift_rules(catalog: Catalog) -> None:
    plain = make_cluster(name="plain", version="v1.29.4")
    row = make_subscription(plain)
    make_csv(row, max_openshift=["4.8"], min_kube="1.30.0")
    found = readiness([plain])[0]
    assert (found.platform, found.following) == ("Kubernetes", "1.30")
    assert [row.code for row in found.rows] == ["min-kube"]


def test_the_number_of_queries_does_not_grow_with_operators_and_clusters(
    prod: Cluster, catalog: Catalog, django_assert_max_num_queries: Any
) -> None:
    for number in range(4):
        make_package(
            name=f"op-{number}",
            catalog=catalog,
            bundles={"1.0.0": {"max_openshift_version": "4.16"}},
        )
        make_subscription(prod, name=f"op-{number}")
    other = make_cluster(name="other")
    make_subscription(other, name="op-1")
    with django_assert_max_num_queries(7):
        found = readiness([other, prod])
    assert sum(len(one.rows) for one in found) == 4


def test_the_report_for_a_ticket_has_no_markup_of_others(prod: Cluster, catalog: Catalog) -> None:
    evil = "<img src=x>[a](b)"
    make_operator(cluster=prod, kind="ClusterExtension", name="evil", bundle=evil)
    text = "".join(markdown(readiness([prod]), ReadinessRequest()))
    assert "## prod: 4.16.3" in text
    assert "\\<img src=x\\>\\[a\\](b)" in text
    assert "[a](b)" not in text
