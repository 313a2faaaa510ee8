"""Bulk install in the browser: ticks, one review, one confirmation, progress; as plain HTML too."""

import pytest
from playwright.sync_api import Page, expect

from tests.e2e import steps

pytestmark = pytest.mark.e2e


def choose(page: Page, *packages: str) -> None:
    """From the list with these packages ticked to the form, which then is of Subscriptions."""
    install = page.get_by_role("button", name="Install selected").first
    for name in packages:
        page.get_by_label(f"Select {name}", exact=True).check()
    expect(install).to_be_enabled()
    install.click()
    expect(page.get_by_role("heading", name="Install several")).to_be_visible()
    page.get_by_label("Install method", exact=True).select_option("Subscription")
    page.get_by_role("button", name="Review", exact=True).click()
    expect(page.get_by_text("Dry run passed")).to_be_visible()
    refused = page.get_by_role("row").filter(has_text="Would be refused").get_by_role("checkbox")
    if refused.count():
        # On a busy machine a dry run may take longer than the page allows; it offers another.
        for box in refused.all():
            box.check()
        page.get_by_role("button", name="Review again").click()
    expect(page.get_by_role("main")).to_contain_text("would accept the installation of 2 packages.")


def test_a_selection_is_reviewed_installed_and_followed_live(new_page) -> None:
    page = new_page()
    steps.sign_in(page, "operator")
    page.goto("/software/?catalog=redhat-operators&installed=no&view=table")
    for button in page.get_by_role("button", name="Install selected").all():
        expect(button).to_be_disabled()
    choose(page, "markup-demo", "icon-demo", "branches-demo")
    row = page.get_by_role("row").filter(has_text="Branches Demo")
    expect(row.get_by_role("checkbox")).not_to_be_checked()
    expect(row).to_contain_text("Not installable")
    expect(page.get_by_text("kind: Subscription").first).to_be_hidden()
    page.get_by_role("row").filter(has_text="Icon Demo").get_by_text("manifest").click()
    expect(page.get_by_text("kind: Subscription").first).to_be_visible()
    page.get_by_role("button", name="Install 2").click()
    page.wait_for_url("**/activity/bulk-installs/*")
    ended = page.get_by_text("All 2 have finished.")
    expect(ended).to_be_visible(timeout=2 * steps.OUTCOME_MS)
    expect(page.get_by_role("row").filter(has_text="icon-demo")).to_contain_text("Succeeded")


def test_without_scripts_it_is_the_same_by_reloading(new_page) -> None:
    page = new_page(java_script_enabled=False)
    steps.sign_in(page, "operator")
    page.goto("/software/?catalog=redhat-operators&installed=no")
    choose(page, "nightly-demo", "metrics-api-demo")
    page.get_by_role("button", name="Install 2").click()
    page.wait_for_url("**/activity/bulk-installs/*")
    for _ in range(40):
        if page.get_by_text("All 2 have finished.").is_visible():
            break
        page.wait_for_timeout(1000)
        page.reload()
    expect(page.get_by_text("All 2 have finished.")).to_be_visible()
