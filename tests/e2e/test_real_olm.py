"""OLM Web on a real API server with real OLM v0: what happens there is seen here within seconds."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e import steps
from tests.e2e.product import Product, product_folder, serve
from tests.peers.client import wait_until
from tests.real.bundles import GROUP, Bundle
from tests.real.world import SECONDS, World

pytestmark = [pytest.mark.e2e, pytest.mark.peers]


@pytest.fixture(scope="module")
def product(olm: World) -> Iterator[Product]:
    """The product as its README starts it on a cluster of one's own."""
    with product_folder() as folder:
        kubeconfig = olm.server.write_kubeconfig(folder / "kubeconfig")
        environment = {
            "KUBECONFIG": str(kubeconfig),
            "OLMWEB_CLUSTERS": "real=real",
            "OLMWEB_ADMIN_PASSWORD": steps.ADMIN_PASSWORD,
        }
        with serve(folder, environment) as running:
            yield running


def open_list(page: Page) -> None:
    """The list of all operators, as soon as the cluster was read for the first time."""
    steps.sign_in(page, "admin", "/operators/?view=all", password=steps.ADMIN_PASSWORD)
    unread = page.get_by_role("heading", name="No cluster yet")
    expect(unread).to_have_count(0, timeout=steps.OUTCOME_MS)


def row(page: Page, namespace: str) -> Locator:
    return page.get_by_role("row").filter(has_text=namespace)


def open_operator(page: Page, namespace: str, name: str) -> Locator:
    """The operator's page; returns the region that tells what happened."""
    page.goto(f"/operators/real/Subscription/{namespace}/{name}")
    return page.get_by_role("region", name="What happened")


def test_an_installation_is_followed_from_approval_to_health_in_an_open_list(
    new_page, olm: World
) -> None:
    page = new_page()
    open_list(page)
    loads: list[str] = []
    page.on("domcontentloaded", lambda loaded: loads.append(loaded.url))

    namespace = olm.own_namespace("manual")
    olm.subscribe(namespace, "winch", installPlanApproval="Manual")
    plan = olm.install_plan(namespace, "winch.v1.0.0")
    mine = row(page, namespace)
    expect(mine).to_contain_text("Needs approval", timeout=steps.SEEN_MS)

    olm.approve(plan)
    olm.csv(namespace, "winch.v1.0.0", "Installing", "InstallWaiting")
    expect(mine).to_contain_text("Installing", timeout=steps.SEEN_MS)

    olm.play_node(namespace)
    olm.csv(namespace, "winch.v1.0.0", "Succeeded")
    expect(mine).to_contain_text("Healthy", timeout=steps.SEEN_MS)
    assert not loads


def test_three_failures_of_real_olm_are_told_with_their_causes(new_page, olm: World) -> None:
    page = new_page()
    open_list(page)

    modes, needs, dead = (
        olm.all_namespaces("modes"),
        olm.own_namespace("needs"),
        olm.own_namespace("dead"),
    )
    olm.subscribe(modes, "mooring")
    olm.csv(modes, "mooring.v1.0.0", "Failed", "UnsupportedOperatorGroup")
    olm.tied(modes, "mooring", "mooring.v1.0.0")
    expect(row(page, modes)).to_contain_text("Blocked", timeout=steps.SEEN_MS)

    olm.subscribe(needs, "beacon")
    olm.csv(needs, "beacon.v1.0.0", "Pending", "RequirementsNotMet")
    olm.tied(needs, "beacon", "beacon.v1.0.0")
    expect(row(page, needs)).to_contain_text("Blocked", timeout=steps.SEEN_MS)

    with olm.dead_catalog("fading", dead, Bundle("buoy", "1.0.0")):
        olm.subscribe(dead, "buoy", source="fading", sourceNamespace=dead)
        wait_until(lambda: olm.condition(dead, "buoy", "ResolutionFailed"), "the failure", SECONDS)
        expect(row(page, dead)).to_contain_text("Failed", timeout=steps.SEEN_MS)
        expect(open_operator(page, dead, "buoy")).to_contain_text("fading")

    told = open_operator(page, modes, "mooring")
    expect(told).to_contain_text("OwnNamespace, SingleNamespace")
    told = open_operator(page, needs, "beacon")
    expect(told).to_contain_text(f"lamps.{GROUP}")
