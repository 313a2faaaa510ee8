"""What blocks the next minor version of the cluster, found and resolved with the keyboard alone."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.e2e import steps
from tests.e2e.product import Product, demo
from tests.e2e.steps import press, tab_to

pytestmark = pytest.mark.e2e

READINESS = re.compile(r"/readiness/(\?cluster=sandbox)?$")


@pytest.fixture(scope="module")
def product() -> Iterator[Product]:
    """A demo of its own: the blocker is resolved in it for good."""
    with demo() as running:
        yield running


def test_a_blocker_of_the_next_minor_is_found_and_resolved_with_the_keyboard(new_page) -> None:
    page = new_page(viewport={"width": 1280, "height": 800})
    page.goto("/login/?next=/")
    steps.type_credentials(page, "operator")
    update = page.get_by_role("region", name="Cluster update")
    expect(update).to_contain_text("next minor 4.13")
    pages: list[str] = []
    page.on("framenavigated", lambda frame: pages.append(frame.url))
    expect(update).to_contain_text("Blocked by ClusterOperator operator-lifecycle-manager")
    press(page, update.get_by_role("link", name="View blockers and resolutions"))

    page.wait_for_url(READINESS)
    expect(page.get_by_text("2 blockers for OpenShift 4.13.")).to_be_visible()
    row = page.get_by_role("row").filter(has_text="1.0.0 supports OpenShift up to 4.12")
    expect(row).to_contain_text("Channel stable leads to 1.1.0, which supports OpenShift 4.13")
    expect(row).to_contain_text("requires manual approval: approve it first.")
    press(page, row.get_by_role("link", name="Review InstallPlan of ceiling-demo"))

    page.wait_for_url("**/approve")
    expect(page.get_by_role("main")).to_contain_text("ceiling-demo.v1.1.0")
    press(page, page.get_by_role("button", name="Approve", exact=True))

    page.wait_for_url("**/activity/actions/*")
    steps.follow_to(page, "Succeeded")
    press(page, page.get_by_role("link", name="Upgrade readiness of sandbox"))

    page.wait_for_url(READINESS)
    expect(page.get_by_text("No blocker for OpenShift 4.13.")).to_be_visible(
        timeout=steps.OUTCOME_MS
    )
    expect(page.get_by_role("row").filter(has_text="ceiling-demo")).to_have_count(0)
    assert len(pages) == 4, f"readiness, the InstallPlan, the action, readiness: {pages}"
    tab_to(page, page.get_by_role("link", name="Overview"))
    page.keyboard.press("Enter")
    expect(page.get_by_role("region", name="Cluster update")).to_contain_text("Not blocked")


def test_a_viewer_sees_the_resolution_without_a_link_that_would_refuse(new_page) -> None:
    page = new_page()
    steps.sign_in(page, "viewer", "/readiness/")
    expect(page.get_by_role("heading", level=1)).to_have_text("Upgrade readiness")
    expect(
        page.get_by_role("link", name=re.compile("^(Review InstallPlan|Upgrade queue)"))
    ).to_have_count(0)
