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


def test_readiness_shows_the_resolution_before_the_condition_that_follows_from_it(
    new_page,
) -> None:
    page = new_page()
    steps.sign_in(page, "operator", "/readiness/")
    blocked = page.get_by_text("2 blockers for OpenShift 4.13.")
    expect(blocked).to_be_visible(timeout=steps.OUTCOME_MS)
    row = page.get_by_role("row").filter(has_text="ceiling-demo").first
    expect(row).to_contain_text("1.0.0 supports OpenShift up to 4.12")
    expect(row).to_contain_text("Channel stable leads to 1.1.0, which supports OpenShift 4.13")
    expect(row).to_contain_text("requires manual approval: approve it first.")
    expect(row.get_by_text("Review InstallPlan of ceiling-demo")).to_be_visible()


def test_a_visitor_is_led_from_the_blocker_to_the_sign_in_and_back(new_page) -> None:
    page = new_page()
    page.goto("/")
    update = page.get_by_role("region", name="Cluster update")
    review = update.get_by_role("link", name="Review InstallPlan of ceiling-demo to 1.1.0")
    expect(review).to_be_visible(timeout=steps.OUTCOME_MS)
    review.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    page.get_by_role("button", name="Sign in as operator").click()
    expect(page.get_by_role("button", name="Approve", exact=True)).to_be_visible()


def test_a_blocker_of_the_next_minor_is_found_and_resolved_with_the_keyboard(new_page) -> None:
    page = new_page(viewport={"width": 1280, "height": 800})
    page.goto("/login/?next=/")
    steps.type_credentials(page, "operator")
    update = page.get_by_role("region", name="Cluster update")
    expect(update).to_contain_text("next minor 4.13")
    pages: list[str] = []
    page.on("framenavigated", lambda frame: pages.append(frame.url))
    expect(update).to_contain_text(
        "Blocked by ceiling-demo 1.0.0, which supports OpenShift up to 4.12"
    )
    expect(update).not_to_contain_text("ClusterOperator")  # it only reports that operator
    review = update.locator("summary", has_text="Review InstallPlan of ceiling-demo to 1.1.0")
    press(page, review)
    approve = update.get_by_role("button", name=re.compile("^Approve InstallPlan install-"))
    expect(approve).to_be_visible()
    expect(update).to_contain_text("upgrades ceiling-demo.v1.0.0 to ceiling-demo.v1.1.0")
    expect(review).to_be_focused()
    tab_to(page, approve, limit=1)
    page.keyboard.press("Enter")

    page.wait_for_url("**/activity/actions/*")
    steps.follow_to(page, "Succeeded")
    verdict = page.get_by_text("The update to OpenShift 4.13 can start. While")
    expect(verdict).to_be_visible(timeout=steps.OUTCOME_MS)
    assert len(pages) == 1, f"the action: {pages}"
    press(page, page.get_by_role("link", name="Upgrade readiness of sandbox"))

    page.wait_for_url(READINESS)
    expect(page.get_by_role("row").filter(has_text="ceiling-demo")).to_have_count(0)
    tab_to(page, page.get_by_role("link", name="Overview"))
    page.keyboard.press("Enter")
    expect(page.get_by_role("region", name="Cluster update")).to_contain_text("Not blocked")


def test_a_viewer_sees_the_resolution_without_a_link_that_would_refuse(new_page) -> None:
    page = new_page()
    steps.sign_in(page, "viewer", "/readiness/")
    expect(page.get_by_role("heading", level=1)).to_have_text("Upgrade readiness")
    expect(page.get_by_text("Review InstallPlan")).to_have_count(0)
    expect(page.get_by_role("link", name=re.compile("^Upgrade queue"))).to_have_count(0)
