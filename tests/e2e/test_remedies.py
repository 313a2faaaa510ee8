"""Why 53 operators fail, and the first cause fixed for all of them, with the keyboard alone."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, Route, expect

from tests.e2e import steps
from tests.e2e.product import Product, demo
from tests.e2e.steps import press

pytestmark = pytest.mark.e2e

CAUSE = "AllNamespaces install mode required by PlatformOperator"
OTHER_CAUSE = "Resource conflict: the object exists already"
ALL_MS = 240_000  # more than twenty actions, three at a time


@pytest.fixture(scope="module")
def product() -> Iterator[Product]:
    """A demo of its own: other journeys count the operators that fail in theirs."""
    with demo() as running:
        yield running


def count_of(page: Page) -> int:
    """How many operators the overview says that this cause has."""
    cause = page.get_by_role("region", name="Causes").get_by_role("row").filter(has_text=CAUSE)
    return int(re.findall(r"\d+", cause.inner_text())[0])


def test_the_first_cause_is_mended_for_all_its_operators_with_the_keyboard(new_page) -> None:
    page = new_page()
    page.goto("/login/?next=/")
    steps.type_credentials(page, "operator")
    page.wait_for_url(re.compile(r"/$"))
    before = count_of(page)
    pages: list[str] = []
    page.on("framenavigated", lambda frame: pages.append(frame.url))

    press(page, page.get_by_role("link", name=f"Migrate to Subscriptions with {CAUSE}"))

    page.wait_for_url("**/operators/bulk-change**")
    outcome = page.get_by_role("status").filter(has_text="Dry run passed")
    expect(outcome).to_be_visible(timeout=ALL_MS)
    expect(outcome).to_be_focused()
    expect(outcome).to_be_in_viewport()
    confirm = page.get_by_role("button", name=re.compile(r"^Migrate \d+, remove \d+$"))
    expect(confirm).to_be_in_viewport()
    assert sum(map(int, re.findall(r"\d+", confirm.inner_text()))) == before
    expect(page.get_by_text("Not possible")).to_have_count(0)
    press(page, confirm)

    page.wait_for_url("**/activity/bulk-installs/*")
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Bulk migration of {before}")
    expect(page.get_by_text(f"All {before} have finished.")).to_be_visible(timeout=ALL_MS)
    assert len(pages) == 2, "the review, the progress"

    press(page, page.get_by_role("link", name="View remaining causes of sandbox"))
    page.wait_for_url("**/operators/**")
    expect(page.get_by_role("region", name=OTHER_CAUSE)).to_be_visible()
    expect(page.get_by_role("region", name=CAUSE)).to_have_count(0)


def test_operators_cannot_be_chosen_while_their_review_is_under_way(new_page) -> None:
    page = new_page()
    steps.sign_in(page, "operator")
    page.goto("/operators/?view=cause")
    held: list[Route] = []
    page.route(
        "**/operators/bulk-change**",
        lambda route: held.append(route) if route.request.method == "POST" else route.continue_(),
    )
    page.get_by_role("link", name=re.compile(r"^(Remove|Retry) \d+ ")).first.click()
    page.wait_for_url("**/operators/bulk-change**")
    operator = page.get_by_role("checkbox").first
    expect(operator).to_be_disabled()
    expect(operator).to_be_checked()
    held.pop().continue_()
    expect(page.get_by_role("status").filter(has_text="Dry run")).to_be_visible()
    expect(operator).to_be_enabled()


def test_the_overview_leads_to_the_commands_of_a_cause(new_page) -> None:
    page = new_page()
    steps.sign_in(page, "operator")
    page.goto("/")
    press(page, page.get_by_role("link", name=f"View remedy for {OTHER_CAUSE}"))
    page.wait_for_url("**/operators/**")
    cause = page.get_by_role("region", name=OTHER_CAUSE)
    expect(cause).to_be_in_viewport()
    expect(cause.get_by_text("kubectl get").first).to_be_visible()
    expect(page.get_by_role("main")).not_to_contain_text("<name>")


def test_operators_of_another_cause_are_deleted_without_scripts(new_page) -> None:
    page = new_page(java_script_enabled=False)
    steps.sign_in(page, "operator")
    page.goto("/operators/?view=cause")
    page.get_by_role("link", name=re.compile(r"^Remove \d+ PlatformOperators?$")).last.click()
    page.get_by_role("button", name="Review", exact=True).click()
    expect(page.get_by_text("Dry run passed")).to_be_visible()
    page.get_by_role("checkbox", name="I understand").check()
    page.get_by_role("button", name=re.compile(r"^Remove \d+$")).click()
    page.wait_for_url("**/activity/bulk-installs/*")
    for _ in range(60):
        if page.get_by_text(re.compile("All \\d+ have finished.")).is_visible():
            break
        page.wait_for_timeout(1000)
        page.reload()
    expect(page.get_by_text(re.compile("All \\d+ have finished."))).to_be_visible()
    expect(page.get_by_role("row").filter(has_text="Succeeded").first).to_be_visible()
