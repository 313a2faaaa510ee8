"""The install journey without a mouse: every stop is visible, and focus goes where the news is."""

import re

import pytest
from playwright.sync_api import expect

from tests.e2e import steps
from tests.e2e.steps import press, tab_to

pytestmark = pytest.mark.e2e


def test_the_skip_link_is_the_first_stop_and_leads_past_the_navigation(new_page) -> None:
    page = new_page()
    page.goto("/operators/")
    skip = page.get_by_role("link", name="Skip to content")
    expect(skip).not_to_be_in_viewport()
    page.keyboard.press("Tab")
    expect(skip).to_be_focused()
    expect(skip).to_be_in_viewport()
    page.keyboard.press("Enter")
    expect(page.get_by_role("main")).to_be_focused()
    page.keyboard.press("Tab")
    expect(
        page.get_by_role("main").get_by_role("link", name="Browse software catalog")
    ).to_be_focused()


def test_a_package_is_found_installed_and_followed_with_the_keyboard_alone(new_page) -> None:
    page = new_page()
    page.goto("/software/")
    page.keyboard.press("/")
    expect(page.get_by_label("Search packages")).to_be_focused()
    page.keyboard.press("Control+k")
    expect(page.get_by_role("combobox", name="Search operators")).to_be_focused()
    page.keyboard.type("object store demo")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search/?q=object+store+demo")

    tab_to(page, page.get_by_role("link", name="Object Store Demo", exact=True))
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{steps.CATALOG}/object-store-demo")
    tab_to(page, page.get_by_role("link", name="Install", exact=True))
    page.keyboard.press("Enter")

    page.wait_for_url("**/login/**")
    steps.type_credentials(page, "operator")

    expect(page).to_have_url(f"{steps.CATALOG}/object-store-demo/install")
    name = page.get_by_label("Name of the PlatformOperator")
    tab_to(page, name)
    page.keyboard.press("Control+A")
    page.keyboard.type("Bad_Name")
    page.keyboard.press("Enter")
    summary = page.get_by_role("alert").filter(has_text="Name")
    expect(summary).to_be_focused()
    expect(name).to_have_attribute("aria-invalid", "true")
    expect(name).to_have_value("Bad_Name")

    tab_to(page, summary.get_by_role("link", name="Name"), limit=1)
    page.keyboard.press("Enter")
    expect(name).to_be_focused()
    page.keyboard.press("Control+A")
    page.keyboard.type("by-keyboard")
    page.keyboard.press("Enter")

    # The outcome has the focus, and what there is to do with it comes next.
    expect(page.get_by_role("status").filter(has_text="Dry run passed")).to_be_focused()
    tab_to(page, page.get_by_role("button", name="Install", exact=True), limit=1)
    page.keyboard.press("Enter")
    page.wait_for_url("**/activity/actions/*")
    steps.follow_to(page, "Succeeded")
    tab_to(page, page.get_by_role("link", name="View operator by-keyboard"))
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("by-keyboard")


def test_a_configuration_is_edited_reviewed_and_followed_with_the_keyboard_alone(new_page) -> None:
    page = new_page()
    operator = "/operators/sandbox/Subscription/openshift-operators/quay-bridge-operator"
    page.goto(operator)
    press(page, page.get_by_role("main").locator("summary", has_text="Actions"))
    press(page, page.get_by_role("main").get_by_role("link", name="Edit configuration"))
    page.wait_for_url("**/login/**")
    steps.type_credentials(page, "operator")

    expect(page).to_have_url(f"{operator}/configure")
    variables = page.get_by_label("Environment variables (env)")
    tab_to(page, variables)
    page.keyboard.press("Control+A")
    page.keyboard.type("no variable")
    press(page, page.get_by_role("button", name="Review", exact=True))
    summary = page.get_by_role("alert").filter(has_text="Environment variables")
    expect(summary).to_be_focused()
    expect(variables).to_have_attribute("aria-invalid", "true")
    tab_to(page, summary.get_by_role("link").first, limit=1)
    page.keyboard.press("Enter")
    expect(variables).to_be_focused()
    page.keyboard.press("Control+A")
    page.keyboard.type("LOG_LEVEL=debug")
    press(page, page.get_by_role("button", name="Review", exact=True))

    # The outcome has the focus; what changes is above it, and the button comes next.
    expect(page.get_by_role("status").filter(has_text="Dry run passed")).to_be_focused()
    expect(page.get_by_label("Changes", exact=True)).to_contain_text("value: debug")
    confirm = page.get_by_role("button", name="Apply", exact=True)
    tab_to(page, confirm, limit=1)
    page.keyboard.press("Enter")
    page.wait_for_url("**/activity/actions/*")
    steps.follow_to(page, "Succeeded")
    page.goto(f"{operator}/configure")
    expect(variables).to_have_value("LOG_LEVEL=debug")


@pytest.mark.parametrize("width", [1440, 1280])
def test_a_filter_low_in_its_column_keeps_the_focus_beside_the_packages_that_it_leaves(
    new_page, width: int
) -> None:
    page = new_page(viewport={"width": width, "height": 900})
    page.goto("/software/")
    count = page.get_by_role("status").filter(has_text="packages")
    for value in ("No", "In some catalogs"):  # 5 pages of packages, then 1 package
        deprecated = page.get_by_role("region", name="Deprecated")
        choice = deprecated.get_by_role("link", name=value, exact=False)
        choice.focus()
        page.keyboard.press("Enter")
        expect(choice).to_have_attribute("aria-current", "true")
        expect(choice).to_be_focused()
        expect(choice).to_be_in_viewport()
        expect(count).to_be_in_viewport()
        choice.press("Enter")
        expect(choice).not_to_have_attribute("aria-current", "true")
    choice.press("Enter")
    expect(page.locator(".olm-package-card")).to_have_count(1)
    expect(page.locator(".olm-package-card")).to_be_in_viewport()


def test_the_narrow_navigation_opens_takes_the_focus_and_gives_it_back(new_page) -> None:
    page = new_page(viewport={"width": 390, "height": 844})
    page.goto("/")
    toggle = page.get_by_role("button", name="Navigation")
    tab_to(page, toggle)
    expect(toggle).to_have_attribute("aria-expanded", "false")
    page.keyboard.press("Enter")
    expect(toggle).to_have_attribute("aria-expanded", "true")
    expect(page.get_by_role("link", name="Overview")).to_be_focused()
    page.keyboard.press("Escape")
    expect(toggle).to_be_focused()
    expect(page.get_by_role("link", name="Overview")).not_to_be_in_viewport()


def test_a_person_makes_and_revokes_a_token_and_saves_preferences_with_the_keyboard(
    new_page,
) -> None:
    page = new_page(color_scheme="light", timezone_id="Asia/Tokyo")
    steps.sign_in(page, "viewer", "/activity/")
    summary = page.get_by_label("Signed in as viewer")
    tab_to(page, summary)
    page.keyboard.press("Enter")
    tab_to(page, page.get_by_role("link", name="Preferences"), limit=1)
    page.keyboard.press("Escape")
    expect(page.get_by_role("link", name="Preferences")).to_be_hidden()
    expect(summary).to_be_focused()

    page.keyboard.press("Enter")
    tab_to(page, page.get_by_role("link", name="API tokens"), limit=2)
    page.keyboard.press("Enter")
    page.wait_for_url("**/account/tokens/")
    tab_to(page, page.get_by_label("Name"))
    page.keyboard.type("by keyboard")
    page.keyboard.press("Enter")
    made = page.get_by_role("region", name="Token by keyboard created")
    expect(made).to_be_focused()
    expect(made.locator("code")).to_have_text(re.compile("^olmweb_"))
    tab_to(page, made.get_by_role("button", name="Copy the token"), limit=1)
    page.goto("/account/tokens/")
    expect(page.get_by_text("olmweb_")).to_have_count(0)
    tab_to(page, page.get_by_role("link", name="Revoke by keyboard"))
    page.keyboard.press("Enter")
    page.wait_for_url("**/revoke")
    tab_to(page, page.get_by_role("button", name="Revoke token"))
    page.keyboard.press("Enter")
    page.wait_for_url("**/account/tokens/")
    expect(page.get_by_role("status").filter(has_text="is revoked")).to_be_visible()

    page.goto("/account/")
    tab_to(page, page.get_by_label("Theme"))
    page.keyboard.type("Dark")
    tab_to(page, page.get_by_label("Density"), limit=1)
    page.keyboard.type("Compact")
    tab_to(page, page.get_by_label("Time zone"), limit=1)
    page.keyboard.type("Of the browser")
    tab_to(page, page.get_by_role("button", name="Save preferences"), limit=2)
    page.keyboard.press("Enter")
    expect(page.get_by_role("status").filter(has_text="Preferences saved")).to_be_visible()
    page.goto("/activity/?show=syncs")
    expect(page.locator("html")).to_have_class(re.compile("pf-v6-theme-dark.*olm-compact"))
    expect(page.locator("main time").first).to_have_attribute("title", re.compile("JST$"))
    page.goto("/account/")
    for label in ("Theme", "Density", "Time zone"):
        page.get_by_label(label).select_option(index=0)
    page.get_by_role("button", name="Save preferences").click()
    expect(page.get_by_role("status").filter(has_text="Preferences saved")).to_be_visible()
