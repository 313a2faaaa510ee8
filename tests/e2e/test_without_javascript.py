"""Every page and form works as plain HTML: scripts are an improvement, not a requirement."""

import re
import time

import pytest
from playwright.sync_api import Page, expect

from tests.e2e import steps

pytestmark = pytest.mark.e2e

BACKGROUND = "getComputedStyle(document.querySelector('.pf-v6-c-page')).backgroundColor"


def brightness(page: Page) -> int:
    """Sum of red, green and blue of the page's background, 0 to 765."""
    found = re.findall(r"\d+", page.evaluate(BACKGROUND))
    return sum(int(part) for part in found[:3])


def test_the_catalog_is_filtered_searched_and_read_without_scripts(new_page) -> None:
    page = new_page(java_script_enabled=False)
    page.goto("/")
    page.get_by_role("link", name="Software catalog").first.click()
    count = page.get_by_role("status").filter(has_text="package")
    everything = count.inner_text()

    facet = page.get_by_role("region", name="Category").get_by_role("link").first
    chosen = facet.inner_text().split("\n")[0].strip()
    facet.click()
    expect(page.get_by_role("link", name=re.compile("^Remove filter"))).to_have_count(1)
    expect(count).to_contain_text(" of ")
    assert count.inner_text() != everything
    expect(page.get_by_role("list", name="Chosen filters")).to_contain_text(chosen)
    page.get_by_role("link", name=re.compile("^Remove filter")).click()
    expect(count).to_have_text(everything)

    page.get_by_label("Search packages").fill("tracing demo")
    page.get_by_role("main").get_by_role("button", name="Search").click()
    page.get_by_role("link", name="Tracing Demo", exact=True).first.click()
    page.get_by_role("link", name=re.compile("^Channels")).click()
    expect(page.get_by_role("heading", name=re.compile("^Upgrade graph"))).to_be_visible()
    expect(page.locator(".olm-channel-graph svg")).to_be_visible()
    expect(page.get_by_role("table")).to_contain_text("tracing-demo.v1.4.2")


def test_an_install_is_reviewed_confirmed_and_followed_by_reloading(new_page) -> None:
    page = new_page(java_script_enabled=False)
    page.goto(f"{steps.CATALOG}/queue-demo")
    page.get_by_role("link", name="Install", exact=True).click()
    page.get_by_label("User name").fill("operator")
    page.get_by_label("Password").fill(steps.PASSWORDS["operator"])
    page.get_by_role("main").get_by_role("button", name="Sign in", exact=True).click()

    name = page.get_by_label("Name of the PlatformOperator")
    name.fill("Bad_Name")
    page.get_by_role("button", name="Review", exact=True).click()
    expect(name).to_have_attribute("aria-invalid", "true")
    name.fill("without-scripts")
    steps.review_and_confirm(page)

    outcome = page.get_by_role("region", name="Outcome")
    deadline = time.monotonic() + steps.OUTCOME_MS / 1000
    while not outcome.get_by_text("Succeeded", exact=True).count():
        assert time.monotonic() < deadline, outcome.inner_text()
        page.wait_for_timeout(500)
        page.reload()
    expect(outcome).to_contain_text(re.compile(r"without-scripts [\d.]+ is installed\."))

    page.get_by_label("Signed in as operator").click()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("link", name="Sign in")).to_be_visible()


def test_operators_are_filtered_with_the_button_that_scripts_hide(new_page) -> None:
    page = new_page(java_script_enabled=False)
    page.goto("/operators/")
    page.get_by_label("Health", exact=True).select_option("Healthy")
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_role("row").filter(has_text="Healthy").first).to_be_visible()
    expect(page.get_by_role("row").filter(has_text="Failed")).to_have_count(0)


def test_the_theme_follows_the_readers_system(new_page) -> None:
    light = new_page(java_script_enabled=False, color_scheme="light")
    dark = new_page(java_script_enabled=False, color_scheme="dark")
    for page in (light, dark):
        page.goto("/")
    assert brightness(light) > 600
    assert brightness(dark) < 200
    native = "getComputedStyle(document.documentElement).colorScheme"
    assert [light.evaluate(native), dark.evaluate(native)] == ["light", "dark"]


def test_the_navigation_is_reached_on_a_phone(new_page) -> None:
    page = new_page(java_script_enabled=False, viewport={"width": 390, "height": 844})
    page.goto("/")
    main_navigation = page.get_by_role("navigation", name="Main")
    activity = main_navigation.get_by_role("link", name="Activity")
    expect(activity).not_to_be_in_viewport()
    page.get_by_role("button", name="Navigation").click()
    expect(activity).to_be_in_viewport()
    page.get_by_role("link", name="Close navigation").click()
    expect(activity).not_to_be_in_viewport()
    page.get_by_role("button", name="Navigation").click()
    activity.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Activity")
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_an_installation_and_its_approval_are_followed_on_one_page_by_reloading(new_page) -> None:
    page = new_page(java_script_enabled=False)
    steps.sign_in(page, "operator", f"{steps.CATALOG}/tracing-demo/install?path=Subscription")
    page.get_by_label("Namespace", exact=True).fill("by-reloading")
    page.get_by_role("radio", name="Manual").check()
    steps.review_and_confirm(page)
    action = page.url
    outcome = page.get_by_role("region", name="Outcome")
    for awaited in ("requires approval", "completed: tracing-demo"):
        deadline = time.monotonic() + steps.OUTCOME_MS / 1000
        while not outcome.get_by_text(awaited).count():
            assert time.monotonic() < deadline, outcome.inner_text()
            page.wait_for_timeout(500)
            page.reload()
        if awaited == "requires approval":
            page.get_by_role("button", name="Approve InstallPlan").click()
            expect(page).to_have_url(action)
    expect(page.get_by_role("region", name="Before that")).to_contain_text("Install tracing-demo")
