"""A first visitor with a keyboard: from the start page of a fresh demo to a healthy operator."""

import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Frame, Page, expect

from tests.e2e import steps
from tests.e2e.product import Product, demo
from tests.e2e.steps import tab_to

pytestmark = pytest.mark.e2e
PAGES = 8  # start, sign-in, start, catalog, package, form, action, operator


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


def test_a_first_visitor_installs_an_operator_by_the_tasks_of_the_start_page(
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
    panel = page.locator("#demo")
    tab_to(page, panel.locator("summary"))
    page.keyboard.press("Enter")
    facts = panel.locator("dl")
    accounts = dict(
        zip(
            facts.locator("dt").all_inner_texts(),
            facts.locator("dd").all_inner_texts(),
            strict=True,
        )
    )
    expect(panel).to_contain_text("sign in as operator")
    press(page, "link", "sign in", "Sign in")

    tab_to(page, page.get_by_label("User name"))
    page.keyboard.type("operator")
    tab_to(page, page.get_by_label("Password"), limit=1)
    page.keyboard.type(accounts["operator"].strip())
    page.keyboard.press("Enter")

    # Back at the tasks: they are open, and the next stop is the first of them.
    expect(panel).to_contain_text("You are signed in as operator.")
    task = panel.get_by_role("link", name="Choose an installable operator")
    expect(task).to_be_in_viewport()
    tab_to(page, panel.get_by_role("link", name="See why operators fail"), limit=1)
    tab_to(page, task, limit=1)
    expect(panel.get_by_role("listitem").nth(1)).to_contain_text("Tracing Demo")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Software catalog")

    press(page, "link", "Tracing Demo", "Tracing Demo")
    press(page, "link", "Install", "Install Tracing Demo")
    press(page, "button", "Review", "Install Tracing Demo")
    expect(page.get_by_role("status").filter(has_text="Dry run passed")).to_be_focused()
    tab_to(page, page.get_by_role("button", name="Install", exact=True), limit=1)
    page.keyboard.press("Enter")
    page.wait_for_url("**/activity/actions/*")
    steps.follow_to(page, "Succeeded")
    press(page, "link", "View operator tracing-demo", "tracing-demo")
    expect(page.get_by_role("region", name="What happened")).to_contain_text("Healthy")

    with capsys.disabled():
        print(f"\nfirst visit: {len(visited)} pages, {time.monotonic() - began:.0f} s")
    assert len(visited) == PAGES, visited
