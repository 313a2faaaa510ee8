"""The route of an upgrade in several steps: how far it is, on the pages and in the records."""

from typing import Any

import pytest
from django.test import Client

from installs.actions import record
from installs.actions.plan import plan_install
from installs.actions.plan_changes import plan_approve, plan_upgrade
from installs.actions.upgrade_route import UpgradeProgress, progress_on
from installs.models import Action, Component, Operator
from olmweb.models import Cluster
from tests.factories import (
    make_catalog,
    make_cluster,
    make_component,
    make_operator,
    make_package,
)
from tests.worlds.html import assert_page

ROUTE = ("etcd.v1.0.0", "etcd.v1.5.0", "etcd.v2.0.0")
VERSIONS = ("1.0.0", "1.5.0", "2.0.0")


@pytest.mark.parametrize(
    ("route", "installed", "sentence"),
    [
        (
            ROUTE,
            "etcd.v1.0.0",
            "Upgrading from 1.0.0 to 2.0.0 over 1.5.0: 0 of 2 steps done, now at 1.0.0.",
        ),
        (
            ROUTE,
            "etcd.v1.5.0",
            "Upgrading from 1.0.0 to 2.0.0 over 1.5.0: 1 of 2 steps done, now at 1.5.0.",
        ),
        (("", *ROUTE[:2]), "", "Installing 1.0.0, then upgrading to 1.5.0: 0 of 2 steps done."),
        (
            ("", *ROUTE),
            "etcd.v1.0.0",
            "Installing 1.0.0, then upgrading to 2.0.0 over 1.5.0: 1 of 3 steps done, now at "
            "1.0.0.",
        ),
        (("a", "b", "c"), "b", "Upgrading from a to c over b: 1 of 2 steps done, now at b."),
    ],
)
def test_the_progress_names_the_versions_and_the_steps(
    route: tuple[str, ...], installed: str, sentence: str
) -> None:
    progress = progress_on(route, installed)
    assert progress is not None
    assert progress.sentence == sentence


@pytest.mark.parametrize(
    ("installed", "sentence"),
    [
        (
            "",
            "Installs 1.0.0 after approval. 1.5.0 is offered next and needs an approval of its "
            "own.",
        ),
        (
            "etcd.v1.0.0",
            "1.0.0 is installed. 1.5.0 is offered next and needs an approval of its own.",
        ),
        (
            "etcd.v1.5.0",
            "1.5.0 is installed. 2.0.0 is offered next and needs an approval of its own.",
        ),
    ],
)
def test_after_an_installation_with_manual_approval_later_versions_are_offers(
    installed: str, sentence: str
) -> None:
    progress = progress_on(("", *ROUTE), installed, manual=True)
    assert progress is not None
    assert progress.sentence == sentence
    assert progress.step_to(ROUTE) == ""
    upgrade = progress_on(ROUTE, "etcd.v1.0.0", manual=True)
    assert upgrade is not None
    assert upgrade.sentence.startswith("Upgrading from 1.0.0 to 2.0.0 over 1.5.0:")


def test_a_route_that_has_ended_or_was_left_has_no_progress() -> None:
    assert progress_on(ROUTE, "etcd.v2.0.0") is None
    assert progress_on(ROUTE, "etcd.v1.2.0") is None
    assert progress_on(None, "etcd.v1.0.0") is None


def test_a_step_is_known_by_the_bundle_that_it_leads_to() -> None:
    progress = UpgradeProgress(ROUTE, 1)
    assert progress.step_to(["etcd.v2.0.0"]) == "step 2 of 2 to 2.0.0"
    assert progress.step_to(["nats.v1.0.0", "etcd.v1.5.0"]) == "step 1 of 2 to 2.0.0"
    assert progress.step_to(["etcd.v1.0.0"]) == ""


@pytest.fixture
def prod(db: None) -> Cluster:
    served = {"state": "served", "version": "v1alpha1"}
    cluster = make_cluster(kinds={"Subscription": served, "InstallPlan": served})
    make_package(catalog=make_catalog(cluster=cluster), channels={"stable": VERSIONS})
    make_component(
        cluster=cluster, kind="CatalogSource", name="redhat-operators", namespace="marketplace"
    )
    return cluster


def subscribe(prod: Cluster, installed: str, following: str) -> Operator:
    """The Subscription with this version, and an InstallPlan for the next one that waits."""
    Operator.objects.all().delete()
    Component.objects.filter(kind="InstallPlan").delete()
    bundle = f"etcd.v{following}"
    make_component(
        cluster=prod, kind="InstallPlan", name=f"install-{following}", namespace="apps",
        phase="RequiresApproval", details={"csvs": [bundle], "steps": [], "approved": False},
    )  # fmt: skip
    return make_operator(
        cluster=prod, kind="Subscription", namespace="apps", name="etcd", package="etcd",
        channel="stable", health="NeedsApproval",
        details={
            "installed_csv": installed and f"etcd.v{installed}", "current_csv": bundle,
            "plan": f"install-{following}", "plan_namespace": "apps", "approval": "Manual",
        },
    )  # fmt: skip


def approve(prod: Cluster, user: Any) -> Action:
    plan = plan_approve(prod, Component.objects.get(kind="InstallPlan"))
    action = record.request(plan, user)
    Action.objects.filter(pk=action.pk).update(state="succeeded")
    return action


def test_approvals_continue_the_route_of_the_installation(
    prod: Cluster, client: Client, olivia: Any
) -> None:
    client.force_login(olivia)
    package = prod.catalogs.get().packages.get()
    fields = {"namespace": "apps", "version": "1.0.0", "approval": "Manual"}
    install = record.request(plan_install(prod, package, "", "Subscription", fields), olivia)
    assert install.route == ["", *ROUTE]
    page = assert_page(client.get(f"/activity/actions/{install.pk}"))
    assert "Target: etcd.v1.0.0" in page.text, "the version that was chosen"
    Action.objects.filter(pk=install.pk).update(state="succeeded")
    operator = "/operators/prod/Subscription/apps/etcd"

    subscribe(prod, "", "1.0.0")
    page = assert_page(client.get(f"/activity/actions/{install.pk}"))
    offered = "is offered next and needs an approval of its own."
    assert f"Installs 1.0.0 after approval. 1.5.0 {offered}" in page.text
    assert approve(prod, olivia).route == ["", *ROUTE]

    subscribe(prod, "1.0.0", "1.5.0")
    page = assert_page(client.get(f"/activity/actions/{install.pk}"))
    first = f"1.0.0 is installed. 1.5.0 {offered}"
    assert first in page.text
    assert "Next: InstallPlan install-1.5.0 requires approval" in page.text
    assert "step 2" not in page.text
    assert first in assert_page(client.get(operator)).text
    assert approve(prod, olivia).route == ["", *ROUTE]

    subscribe(prod, "1.5.0", "2.0.0")
    second = f"1.5.0 is installed. 2.0.0 {offered}"
    assert second in assert_page(client.get(operator)).text
    waiting = "Waiting for OLM to create the next InstallPlan."
    address = f"/activity/actions/{install.pk}"
    assert waiting not in assert_page(client.get(address)).text
    Operator.objects.update(health="Healthy")
    assert f"{second} {waiting}" in assert_page(client.get(address)).text

    Operator.objects.update(details={"installed_csv": ROUTE[-1], "current_csv": ROUTE[-1]})
    assert offered not in assert_page(client.get(operator)).text
    page = assert_page(client.get(f"/activity/actions/{install.pk}"))
    assert offered not in page.text


def test_an_approval_begins_a_route_of_its_own(prod: Cluster, client: Client, olivia: Any) -> None:
    subscribe(prod, "1.0.0", "1.5.0")
    assert approve(prod, olivia).route == list(ROUTE)
    subscribe(prod, "1.5.0", "2.0.0")
    assert approve(prod, olivia).route == list(ROUTE), "it continues the one before"
    removal = Action(cluster=prod, verb="remove", path="Subscription", namespace="apps")
    removal.name, removal.package, removal.state = "etcd", "etcd", "succeeded"
    removal.save()
    subscribe(prod, "1.5.0", "2.0.0")
    Action.objects.filter(verb="approve").update(name="earlier")
    assert approve(prod, olivia).route is None, "one step, of another Subscription"
    client.force_login(olivia)
    page = assert_page(client.get("/operators/prod/Subscription/apps/etcd"))
    assert "steps done" not in page.text


def test_a_catalog_without_an_upgrade_graph_has_no_route(prod: Cluster, olivia: Any) -> None:
    prod.catalogs.update(access_method="PackageManifest")
    subscribe(prod, "1.0.0", "1.5.0")
    assert approve(prod, olivia).route is None
    graph = make_catalog(cluster=prod, slug="graph", source_kind="ClusterCatalog")
    make_package(catalog=graph, channels={"stable": VERSIONS})
    Action.objects.all().delete()
    assert approve(prod, olivia).route == list(ROUTE)


def test_an_upgrade_records_its_route(prod: Cluster, olivia: Any) -> None:
    for installed, route in (("1.0.0", list(ROUTE)), ("1.5.0", None)):
        operator = subscribe(prod, installed, "2.0.0")
        Component.objects.filter(kind="InstallPlan").delete()
        action = record.request(plan_upgrade(operator, {"channel": "stable"}), olivia)
        assert (action.target, action.route) == (ROUTE[-1], route)
        Action.objects.update(state="succeeded")


def test_before_the_first_installation_no_version_is_said_to_stay(prod: Cluster) -> None:
    operator = subscribe(prod, "1.0.0", "1.5.0")
    Component.objects.filter(kind="InstallPlan").delete()
    operator.details |= {"installed_csv": ""}
    operator.save()
    plan = plan_upgrade(operator, {"channel": "stable"})
    expected = "Nothing is installed yet; the change applies to the first installation."
    assert expected in plan.consequences
