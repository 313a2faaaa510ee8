"""Browse, install, follow to the outcome, read the reason, remove: as an operator and a viewer."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.e2e import steps

pytestmark = pytest.mark.e2e


def find_and_open(page: Page, title: str) -> None:
    """Types into the catalog's search, which filters as one types, and opens the package."""
    page.get_by_label("Search packages").fill(title)
    card = page.get_by_role("listitem").filter(has=page.get_by_role("heading", name=title))
    # A demo that has just begun is still judging every package, beside other journeys.
    filtered = page.get_by_role("status").filter(has_text=" of ")
    expect(filtered).to_be_visible(timeout=steps.SEEN_MS)
    card.get_by_role("link", name=title, exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(title)


def test_an_operator_finds_a_package_installs_it_and_watches_it_become_healthy(new_page) -> None:
    page = new_page()
    steps.sign_in(page, "operator", "/software/")
    find_and_open(page, "Backup Demo")

    page.get_by_role("link", name="Install", exact=True).click()
    # A PlatformOperator does not look at the dependencies of the package, so it is not the first.
    expect(page.get_by_role("radio", name="Subscription")).to_be_checked()
    page.get_by_role("radio", name="PlatformOperator").check()
    expect(page.get_by_label("Name of the PlatformOperator")).to_have_value("backup-demo")
    expect(page.get_by_text("Not validated yet")).to_be_visible()
    steps.review_and_confirm(page)
    loads: list[str] = []
    page.on("domcontentloaded", lambda loaded: loads.append(loaded.url))
    steps.follow_to(page, "Succeeded")
    assert not loads  # the page followed by itself

    outcome = page.get_by_role("region", name="Outcome")
    expect(outcome).to_contain_text(re.compile(r"backup-demo [\d.]+ is installed\."))
    outcome.get_by_role("link", name="View operator backup-demo").click()
    happened = page.get_by_role("region", name="What happened")
    expect(happened).to_contain_text("Healthy")
    expect(happened).to_contain_text("Installed and working: version 1.2.0.")

    page.goto("/activity/")
    row = page.get_by_role("row").filter(has_text="backup-demo")
    expect(row).to_contain_text("Succeeded")


def test_a_failed_install_tells_cause_and_remedy_is_grouped_by_cause_and_can_be_removed(
    new_page,
) -> None:
    page = new_page()
    steps.sign_in(page, "operator", "/software/")
    find_and_open(page, "Tenant Demo")
    page.get_by_role("link", name="Install", exact=True).click()
    page.get_by_role("radio", name="PlatformOperator").check()
    warning = "PlatformOperators need install mode AllNamespaces; this bundle supports"
    expect(page.get_by_role("main")).to_contain_text(warning)
    steps.review_and_confirm(page)
    steps.follow_to(page, "Failed")

    outcome = page.get_by_role("region", name="Outcome")
    expect(outcome.get_by_role("heading", level=2)).to_have_text(
        "AllNamespaces install mode required by PlatformOperator"
    )
    expect(outcome).to_contain_text("kubectl delete platformoperator tenant-demo")

    page.goto("/operators/")
    cause = page.get_by_role(
        "region", name="AllNamespaces install mode required by PlatformOperator"
    )
    everyone = cause.get_by_role("link", name=re.compile(r"^All \d+ with this cause$"))
    if everyone.count():
        page.goto(f"/operators/{everyone.get_attribute('href')}&q=tenant-demo")
        cause = page.locator("#live")
    expect(cause.get_by_role("link", name="tenant-demo", exact=True)).to_be_visible()

    page.goto(steps.AGGREGATED)
    group = page.get_by_role(
        "region", name="AllNamespaces install mode required by PlatformOperator"
    )
    group.get_by_text(re.compile(r"^\d+ platform operators$")).click()
    member = page.get_by_role("row", name=re.compile("^tenant-demo "))
    expect(member).to_contain_text("UnpackFailed", timeout=steps.SEEN_MS)
    member.get_by_role("link", name="tenant-demo").click()

    steps.choose_action(page, "Remove")
    expect(page.get_by_text("DELETE PlatformOperator tenant-demo")).to_be_visible()
    page.get_by_label("I understand that these resources will be deleted").check()
    page.get_by_role("button", name="Remove", exact=True).click()
    page.wait_for_url("**/activity/actions/*")
    steps.follow_to(page, "Succeeded")
    expect(page.get_by_role("region", name="Outcome")).to_contain_text(
        "PlatformOperator tenant-demo is deleted."
    )

    page.goto("/operators/?view=all&q=tenant-demo")
    expect(page.get_by_role("heading", name="No results found")).to_be_visible()


def test_a_viewer_is_told_at_the_button_why_not(new_page) -> None:
    page = new_page()
    steps.sign_in(page, "viewer", f"{steps.OPERATOR}/3scale-operator")
    button = page.get_by_role("button", name="Remove", exact=True)
    expect(button).to_be_disabled()
    expect(button).to_have_accessible_description(re.compile("Your role may not change clusters"))
