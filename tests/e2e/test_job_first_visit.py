"""A first visitor with a keyboard: from the start page of a fresh demo to a healthy operator."""

import re
import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Frame, Page, expect

from tests.e2e import steps
from tests.e2e.product import Product, demo
from tests.e2e.steps import tab_to

pytestmark = pytest.mark.e2e
PAGES = 3  # start, form, action


@pytest.fixture(scope="module")
def product() -> Iterator[Product]:
    """A demo of this file: in another one the operator may be installed already."""
    with demo(judged=False) as running:
        yield running


def press(page: Page, role: str, name: str, heading: str) -> None:
    """Goes to the control of the main part by Tab, presses Enter, and lands under the heading."""
    tab_to(page, page.get_by_role("main").get_by_role(role, name=name, exact=True))  # type: ignore[arg-type]
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(heading)


def test_a_first_visitor_installs_an_operator_by_the_button_of_the_start_page(
    new_page, capsys: pytest.CaptureFixture[str]
) -> None:
    page: Page = new_page(viewport={"width": 1280, "height": 800})
    visited: list[str] = []

    def count(frame: Frame) -> None:
        path = frame.url.partition("?")[0].partition("#")[0]
        if visited[-1:] != [path]:
            visited.append(path)

    page.on("framenavigated", count)
    page.goto("/")
    began = time.monotonic()
    panel = page.get_by_role("region", name="Demo")
    expect(panel).to_contain_text("This is a demo with a simulated cluster.")
    press(page, "button", "Sign in as operator and install Tracing Demo", "Install Tracing Demo")
    review = page.get_by_role("main").get_by_role("button", name="Review", exact=True)
    expect(review).to_be_in_viewport(ratio=1)  # above what is below the fold
    press(page, "button", "Review", "Install Tracing Demo")
    expect(page.get_by_role("status").filter(has_text="Dry run passed")).to_be_focused()
    tab_to(page, page.get_by_role("button", name="Install", exact=True), limit=1)
    page.keyboard.press("Enter")
    page.wait_for_url("**/activity/actions/*")
    steps.follow_to(page, "Succeeded")
    outcome = page.get_by_role("region", name="Outcome")
    expect(outcome).to_contain_text(re.compile(r"tracing-demo [\w.-]+ is installed\."))
    expect(outcome).to_contain_text("Healthy")
    expect(outcome.get_by_role("link", name="View operator tracing-demo")).to_be_visible()

    with capsys.disabled():
        print(f"\nfirst visit: {len(visited)} pages, {time.monotonic() - began:.0f} s")
    assert len(visited) == PAGES, visited


def test_the_tasks_are_open_after_signing_in_from_them(new_page) -> None:
    page: Page = new_page(viewport={"width": 1280, "height": 800})
    page.goto("/")
    panel = page.get_by_role("region", name="Demo")
    tab_to(page, panel.locator("summary"))
    page.keyboard.press("Enter")
    expect(panel).to_contain_text("sign in as operator")
    press(page, "link", "sign in", "Sign in")
    tab_to(page, page.get_by_role("button", name="Sign in as operator"))
    page.keyboard.press("Enter")
    # Back at the tasks: they are open, and the next stop is the first of them.
    expect(panel).to_contain_text("You are signed in as operator.")
    expect(panel.locator("#tasks:target")).to_be_visible()
    tab_to(page, panel.get_by_role("link", name="See why operators fail"), limit=1)
    tab_to(page, panel.get_by_role("link", name="Install Tracing Demo"), limit=1)
    tab_to(page, panel.get_by_role("link", name="choose another installable operator"), limit=1)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Software catalog")
    card = page.get_by_role("link", name="Tenant Demo", exact=True)
    expect(card).to_have_count(0)
