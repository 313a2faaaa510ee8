"""From "why do operators fail" to the removal of all operators of the first cause, by keyboard."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e import steps
from tests.e2e.product import Product, demo

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def product() -> Iterator[Product]:
    """A demo for this module alone, as its operators are removed."""
    with demo() as running:
        yield running


def press(page: Page, control: Locator, key: str = "Enter") -> None:
    """Uses a control as the keyboard does."""
    expect(control).to_be_enabled()
    control.focus()
    expect(control).to_be_focused()
    page.keyboard.press(key)


def test_the_operators_of_a_cause_are_removed_together_by_keyboard(new_page) -> None:
    page = new_page()
    steps.sign_in(page, "operator")
    causes = page.get_by_role("region", name="Causes")
    first = causes.get_by_role("listitem").first
    expect(first).to_contain_text("26")
    press(page, first.get_by_role("link", name="View remedy"))
    cause = page.locator(".olm-cause-block").first
    expect(cause.get_by_text("kubectl delete platformoperator").first).to_be_visible()
    expect(cause).not_to_contain_text("<name>")

    press(page, cause.get_by_role("link", name="Delete 26 PlatformOperators"))
    expect(page.get_by_role("status").filter(has_text="26 of 26 selected")).to_be_visible()
    press(page, page.get_by_role("button", name="Review", exact=True))
    expect(page.get_by_text("would accept 26")).to_be_visible(timeout=steps.OUTCOME_MS)
    sure = page.get_by_label("I understand that these resources will be deleted")
    press(page, sure, "Space")
    expect(sure).to_be_checked()
    press(page, page.get_by_role("button", name="Delete 26"))

    page.wait_for_url("**/activity/bulk-installs/*")
    expect(page.get_by_role("heading", name="Bulk removal of 26")).to_be_visible()
    finished = page.get_by_text("All 26 have finished.")
    expect(finished).to_be_visible(timeout=4 * steps.OUTCOME_MS)
    expect(page.get_by_role("list", name="Results")).to_contain_text("Succeeded 26")
    page.goto("/operators/")
    expect(page.get_by_text("Delete 14 PlatformOperators")).to_be_visible(timeout=steps.SEEN_MS)
    expect(page.get_by_text("AllNamespaces install mode required")).to_have_count(0)
