"""The page of one operator of OLM v0: what it names, what it requires, what happened to it."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from olmweb.models import Cluster
from tests.factories import (
    make_component,
    make_event,
    make_operator,
    make_reference,
    make_transition,
    make_watch,
)
from tests.worlds.html import Page, assert_page
from tests.worlds.subscriptions import (
    NAMESPACE,
    make_crashing,
    make_csv,
    make_deployment,
    make_orphan,
    make_pending_approval,
    make_plan,
    make_subscription,
    make_unmet_requirements,
)

pytestmark = pytest.mark.django_db
EVIL = '"><img src=x onerror=alert(1)>'


@pytest.fixture
def writer(client: Client, olivia: Any) -> Client:
    client.force_login(olivia)
    return client


def address(name: str, kind: str = "Subscription", namespace: str = NAMESPACE) -> str:
    return f"/operators/prod/{kind}/{namespace}/{name}"


def page_of(reader: Client, name: str, **where: str) -> Page:
    return assert_page(reader.get(address(name, **where)))


def test_what_it_names_is_shown_and_what_is_not_there_is_said_so(
    reader: Client, prod: Cluster
) -> None:
    make_crashing(prod)
    gone = make_subscription(prod, "loki")
    make_reference(operator=gone, kind="InstallPlan", namespace=NAMESPACE, name="install-gone")
    make_watch(cluster=prod, kind="InstallPlan")
    page = page_of(reader, "loki")
    assert "InstallPlan install-gone Deleted" in page.text
    assert "It is named, and the cluster does not have it." in page.text
    assert "CatalogSource" in page.text
    assert "registry.example/community:v4.16" in page.text


@pytest.mark.parametrize(
    ("watch", "state", "reason"),
    [
        (
            {"state": "forbidden", "listed_at": None, "error": "installplans is forbidden"},
            "Can't be read",
            "The account of OLM Web may not read InstallPlans. It needs get, list and watch on "
            "installplans.operators.coreos.com",
        ),
        (
            {"state": "retrying", "error": "the server timed out"},
            "Not known",
            "InstallPlans could not be read the last time: the server timed out",
        ),
        ({"listed_at": None}, "Not known", "InstallPlans were not read yet."),
    ],
)
def test_an_object_of_a_kind_that_could_not_be_read_is_not_called_deleted(
    reader: Client, prod: Cluster, watch: dict[str, Any], state: str, reason: str
) -> None:
    make_watch(cluster=prod, kind="InstallPlan", **watch)
    make_subscription(prod, "loki", details={"plan": "install-x"})
    beside = make_subscription(prod, "jaeger")
    make_reference(operator=beside, kind="InstallPlan", namespace=NAMESPACE, name="install-x")
    in_chain, related = page_of(reader, "loki").text, page_of(reader, "jaeger").text
    assert f"InstallPlan {state.lower()}" in in_chain
    assert f"InstallPlan install-x {state}" in related
    for page in (in_chain, related):
        assert f"It is not known whether it exists on the cluster. {reason}" in page
        assert "Sync status of prod" in page
        assert "eleted" not in page
        assert "the cluster does not have it" not in page.partition("install-x")[2][:300]


def test_requirements_that_are_not_met_are_a_table_in_words(reader: Client, prod: Cluster) -> None:
    make_unmet_requirements(prod)
    page = page_of(reader, "tempo")
    assert "2 of 3 not met" in page.text
    assert (
        "certificates.cert-manager.io apiextensions.k8s.io/v1 CustomResourceDefinition Missing"
        in page.text
    )
    assert "Present, not satisfied Policy rule not satisfied 1 not satisfied" in page.text
    assert '"resources":["nodes"]' in page.text
    rows = page.text[page.text.index("What tempo.v0.9.0 requires") :]
    assert rows.index("Missing") < rows.index("Present CSV minKubeVersion")


def test_requirements_that_are_met_are_not_listed(reader: Client, prod: Cluster) -> None:
    make_csv(
        make_subscription(prod),
        requirements=[{"kind": "ServiceAccount", "name": "x", "status": "Present"}],
    )
    assert "What grafana.v1.0.0 requires" not in page_of(reader, "grafana").text


def test_pods_that_do_not_run_say_why(reader: Client, prod: Cluster) -> None:
    make_crashing(prod)
    page = page_of(reader, "jaeger")
    assert "jaeger-controller-5d9c7-abcde manager ImagePullBackOff" in page.text
    assert "0 of 1 ready" in page.text


def test_running_deployments_are_one_line(reader: Client, prod: Cluster) -> None:
    make_deployment(make_subscription(prod))
    page = page_of(reader, "grafana")
    assert "1 of 1 ready" in page.text
    assert "Pods that do not run" not in page.text


def test_facts_of_a_subscription_stand_beside_its_version(reader: Client, prod: Cluster) -> None:
    make_pending_approval(prod)
    page = page_of(reader, "grafana")
    assert "Approval Manual" in page.text
    assert "Installed CSV grafana.v1.0.0" in page.text
    assert "Current CSV grafana.v1.1.0" in page.text
    assert "community-operators in openshift-marketplace" in page.text


def test_an_upgrade_that_is_held_says_why(reader: Client, prod: Cluster) -> None:
    held = "Channel stable has no version 1.1.0 that replaces 1.0.0."
    make_subscription(prod, upgrade="1.1.0", upgrade_held=held)
    page = page_of(reader, "grafana")
    assert f"Held No direct upgrade to 1.1.0. {held}" in page.text


def test_an_upgrade_that_only_needs_approval_is_not_called_indirect(
    reader: Client, prod: Cluster
) -> None:
    make_pending_approval(prod)
    page = page_of(reader, "grafana")
    assert "No direct upgrade" not in page.text
    assert "Manual approval required: InstallPlan" in page.text


def test_a_deprecated_bundle_says_so_in_the_catalogs_words(reader: Client, prod: Cluster) -> None:
    conditions = [
        {"type": "BundleDeprecated", "status": "True", "message": "grafana 1.0 is end of life"}
    ]
    make_subscription(prod, deprecated=True, conditions=conditions)
    text = page_of(reader, "grafana").text
    assert "grafana 1.0 is end of life" in text
    assert "Its catalog no longer recommends" not in text


def test_a_bundle_that_only_the_catalog_calls_deprecated_says_so_too(
    reader: Client, prod: Cluster
) -> None:
    make_subscription(prod, deprecated=True)
    assert "Its catalog no longer recommends" in page_of(reader, "grafana").text


# --- approval ----------------------------------------------------------------------------------


def test_approving_is_told_before_it_is_done(reader: Client, prod: Cluster) -> None:
    make_pending_approval(prod)
    page = page_of(reader, "grafana")
    assert "Manual approval required: InstallPlan install-grafana" in page.text
    assert "upgrades grafana.v1.0.0 to grafana.v1.1.0 and upgrades loki.v2.0.0 to loki.v2.1.0" in (
        page.text
    )
    assert "grafana.v1.1.0 Upgrade grafana.v1.0.0 grafana this one" in page.text
    assert "loki.v2.1.0 Upgrade loki.v2.0.0 loki" in page.text
    assert "approval also changes 1 other operator" in page.text
    assert address("loki") in page.links
    assert "2 CustomResourceDefinition" in page.text
    assert "grafanas.example.com" in page.text
    assert 'patch installplan install-grafana --type merge -p \'{"spec":{"approved":true}}\'' in (
        page.text
    )
    assert "Install progress" in page.text
    assert "next InstallPlan, waiting here" in page.text
    assert "Retrying won't fix this" not in page.text


def test_an_upgrade_is_offered_beside_the_approval_of_one_only(
    writer: Client, prod: Cluster
) -> None:
    first = make_subscription(
        prod, installed="", current="1.0.0", health="NeedsApproval", reason="RequiresApproval",
        details={"approval": "Manual", "state": "UpgradePending"},
    )  # fmt: skip
    make_plan([first], ["grafana.v1.0.0"], phase="RequiresApproval")
    approve = f"/installplans/prod/{NAMESPACE}/install-grafana/approve"
    links = page_of(writer, "grafana").links
    assert approve in links
    assert address("grafana") + "/upgrade" not in links
    first.details["installed_csv"] = "grafana.v0.9.0"
    first.save()
    links = page_of(writer, "grafana").links
    assert {approve, address("grafana") + "/upgrade"} <= set(links)


def test_a_plan_that_is_approved_asks_for_nothing(reader: Client, prod: Cluster) -> None:
    make_crashing(prod)
    assert "anual approval" not in page_of(reader, "jaeger").text


def test_two_plans_for_one_version_are_told(reader: Client, prod: Cluster) -> None:
    row = make_subscription(prod)
    csv = make_csv(row)
    now = timezone.now()
    for name, hours, phase in (("install-old", 5, "RequiresApproval"), ("install-new", 1, "")):
        make_component(
            cluster=prod, kind="InstallPlan", namespace=NAMESPACE, name=name, phase=phase,
            details={"csvs": [csv.name]}, created_at=now - timedelta(hours=hours),
        )  # fmt: skip
    text = page_of(reader, "grafana").text
    assert "2 InstallPlans list grafana.v1.0.0 install-new no phase yet created 1 h ago" in text


# --- what should be known beside the cause -----------------------------------------------------


def test_a_step_that_takes_long_is_labelled(reader: Client, prod: Cluster) -> None:
    row = make_subscription(prod, installed="", health="Installing", reason="InstallWaiting")
    make_csv(
        row, phase="Installing", reason="InstallWaiting",
        last_update=(timezone.now() - timedelta(hours=2)).isoformat(),
    )  # fmt: skip
    text = page_of(reader, "grafana").text
    assert "Longer than usual" in text
    assert "usually takes no more than" in text


def test_an_operator_that_goes_up_and_down_says_how_often(reader: Client, prod: Cluster) -> None:
    row = make_subscription(prod)
    for number in range(7):
        before, after = ("Healthy", "Degraded") if number % 2 == 0 else ("Degraded", "Healthy")
        make_transition(
            subject=row, type="Health", from_status=before, to_status=after,
            at=timezone.now() - timedelta(hours=10 - number),
        )  # fmt: skip
    text = page_of(reader, "grafana").text
    assert "Flapping changed health 7 times in 24 h" in text
    assert "… 1 before" in text
    assert "In all: Degraded" in text


def test_one_failure_that_went_away_is_no_flapping(reader: Client, prod: Cluster) -> None:
    row = make_subscription(prod)
    make_transition(subject=row, type="Health", from_status="Healthy", to_status="Degraded")
    make_transition(subject=row, type="Health", from_status="Degraded", to_status="Healthy")
    assert "Flapping" not in page_of(reader, "grafana").text


# --- timeline ----------------------------------------------------------------------------------


def test_events_and_changes_are_one_story_newest_first(reader: Client, prod: Cluster) -> None:
    make_unmet_requirements(prod)
    page = page_of(reader, "tempo")
    story = page.text[page.text.index("Timeline Installing") :]
    warned = story.index("Warning RequirementsNotMet 12 times, first 18 min ago")
    blocked = story.index("Installing Blocked RequirementsNotMet after 2 min")
    unknown = story.index("Normal RequirementsUnknown")
    assert warned < blocked < unknown
    assert "ClusterServiceVersion tempo.v0.9.0 · reported by" in story


def test_a_condition_tells_how_long_it_was_as_before(reader: Client, prod: Cluster) -> None:
    row = make_subscription(prod)
    csv = make_csv(row)
    now = timezone.now()
    for minutes, before, after in ((30, "", "True"), (10, "True", "False")):
        make_transition(
            subject=row, type="CatalogSourcesUnhealthy", from_status=before, to_status=after,
            message=f"said {after}", at=now - timedelta(minutes=minutes),
        )  # fmt: skip
        make_transition(
            subject=csv, type="Object", to_status="appeared", at=now - timedelta(minutes=20)
        )
    text = page_of(reader, "grafana").text
    assert "CatalogSourcesUnhealthy: True False after 20 min said False" in text
    assert "Appeared ClusterServiceVersion grafana.v1.0.0" in text


def test_a_long_story_folds_its_older_part(reader: Client, prod: Cluster) -> None:
    row = make_subscription(prod)
    for number in range(60):
        make_event(
            subject=row, message=f"event {number}",
            last_at=timezone.now() - timedelta(minutes=number),
        )  # fmt: skip
    page = page_of(reader, "grafana")
    assert "20 older" in page.text
    assert "event 59" in page.text


def test_an_event_without_a_time_harms_nothing(reader: Client, prod: Cluster) -> None:
    make_event(
        subject=make_subscription(prod), last_at=None, first_at=None, type=EVIL[:20], count=3
    )
    page = page_of(reader, "grafana")
    assert "img" not in page.tags[page.tags.index("main") :]


def test_conditions_of_every_object_are_folded_tables(reader: Client, prod: Cluster) -> None:
    row = make_subscription(
        prod, conditions=[{"type": "CatalogSourcesUnhealthy", "status": "False"}]
    )
    make_deployment(row)
    page = page_of(reader, "grafana")
    assert "Subscription grafana 1 condition" in page.text
    assert "Deployment grafana-controller 1 condition" in page.text
    assert "MinimumReplicasAvailable" in page.text


# --- others ------------------------------------------------------------------------------------


def test_a_csv_without_a_subscription_has_a_page(reader: Client, prod: Cluster) -> None:
    make_orphan(prod)
    page = page_of(reader, "mongodb.v0.3.0", kind="ClusterServiceVersion", namespace="legacy")
    assert "mongodb.v0.3.0" in page.text
    assert "Without Subscription" in page.text


def test_a_cluster_extension_shows_where_it_installs(reader: Client, prod: Cluster) -> None:
    make_operator(
        cluster=prod, name="argocd", kind="ClusterExtension",
        details={"namespace": "argocd", "policy": "CatalogProvided", "revisions": ["argocd-1"]},
    )  # fmt: skip
    page = page_of(reader, "argocd", kind="ClusterExtension", namespace="-")
    assert "Installs into argocd" in page.text
    assert "Upgrade policy CatalogProvided" in page.text


def test_details_of_any_shape_harm_no_page(reader: Client, prod: Cluster) -> None:
    row = make_subscription(prod, name="odd")
    row.details = {"approval": {"a": 1}, "plan": [1], "current_csv": EVIL, "catalog_health": 7}
    row.save()
    for number, details in enumerate((
        [], {"steps": 3, "csvs": [None, 1, EVIL], "requirements": [1, {"dependents": 3}]},
        {"pods": [3, {"name": EVIL, "restarts": "many"}], "ready": "x", "replicas": None},
    )):  # fmt: skip
        for kind in ("InstallPlan", "ClusterServiceVersion", "Deployment", "CatalogSource",
                     "OperatorGroup", "Operator", "OperatorCondition"):  # fmt: skip
            make_component(
                operator=row, kind=kind, namespace=NAMESPACE, name=f"n{number}", details=details
            )
    page = page_of(reader, "odd")
    assert "img" not in page.tags[page.tags.index("main") :]


def test_the_fullest_page_costs_at_most_fourteen_queries(
    reader: Client, prod: Cluster, django_assert_max_num_queries: Any
) -> None:
    make_pending_approval(prod)
    make_unmet_requirements(prod)
    for name in ("grafana", "tempo"):
        with django_assert_max_num_queries(14):
            reader.get(address(name))


def test_the_csv_that_is_part_of_olm_is_no_orphan(reader: Client, prod: Cluster) -> None:
    make_operator(cluster=prod, kind="ClusterServiceVersion", namespace="olm", name="packageserver")
    page = page_of(reader, "packageserver", kind="ClusterServiceVersion", namespace="olm")
    assert "Part of OLM" in page.text
    assert "Without Subscription" not in page.text


def test_what_olm_makes_when_it_needs_it_is_not_missed(reader: Client, prod: Cluster) -> None:
    row = make_subscription(prod)
    make_reference(
        operator=row, kind="OperatorCondition", namespace=NAMESPACE, name="grafana.v1.0.0"
    )
    assert "OperatorCondition" not in page_of(reader, "grafana").text
