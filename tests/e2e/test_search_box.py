"""The search box of every page, with the keyboard alone."""

import pytest
from playwright.sync_api import expect

from tests.e2e.test_accessibility import EVERY_RULE, faults_of

pytestmark = pytest.mark.e2e
ICON_ENDS_BEFORE_WORDS = """badge => {
    const words = document.createRange();
    words.selectNodeContents(badge.lastChild);
    const icon = badge.querySelector("svg").getBoundingClientRect();
    return icon.right <= words.getBoundingClientRect().left;
}"""


def test_the_search_box_shows_results_while_one_types_and_escape_closes_them(new_page) -> None:
    page = new_page(viewport={"width": 1280, "height": 800})
    page.goto("/help/")
    page.wait_for_load_state()
    box = page.get_by_role("combobox", name="Search operators, packages")
    page.keyboard.press("Control+k")
    expect(box).to_be_focused()
    expect(box).to_have_attribute("aria-expanded", "false")
    page.keyboard.type("3scale")
    results = page.get_by_role("listbox", name="Search results")
    first = results.get_by_role("option").first
    expect(first).to_contain_text("3scale")
    expect(box).to_have_attribute("aria-expanded", "true")
    expect(page.get_by_role("status").filter(has_text="arrow keys select")).to_have_count(1)
    page.keyboard.press("ArrowUp")
    last = results.get_by_role("option").last
    expect(last).to_have_attribute("aria-selected", "true")
    expect(box).to_have_attribute("aria-activedescendant", "typed-all")
    page.keyboard.press("ArrowDown")
    expect(first).to_have_attribute("aria-selected", "true")
    expect(last).to_have_attribute("aria-selected", "false")
    assert faults_of(page, "results of the search", EVERY_RULE) == []
    assert first.locator(".pf-v6-c-label__content").evaluate(ICON_ENDS_BEFORE_WORDS)

    page.keyboard.press("Escape")
    expect(results).to_be_hidden()
    expect(box).to_be_focused()
    expect(box).to_have_value("3scale")
    page.keyboard.press("ArrowDown")
    expect(first).to_be_visible()
    page.keyboard.press("Tab")
    expect(results).to_be_hidden()

    page.keyboard.press("Control+k")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search/?q=3scale")
