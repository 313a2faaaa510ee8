"""The install form follows what is entered, as an operator sees it."""

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e import steps

pytestmark = pytest.mark.e2e
PACKAGE = f"{steps.CATALOG}/backup-demo"


def manifests(page: Page):
    return page.get_by_role("region", name="Manifests to apply").locator("pre")


def test_the_manifests_follow_the_form_and_an_edit_ends_the_review(new_page) -> None:
    page = new_page()
    steps.sign_in(page, "operator", f"{PACKAGE}/install?path=PlatformOperator")
    page.get_by_role("radio", name="Subscription").check()
    expect(manifests(page)).to_contain_text("kind: Subscription")
    expect(page.get_by_role("radio", name="Subscription")).to_be_focused()

    namespace = page.get_by_label("Namespace", exact=True)
    namespace.fill("")
    namespace.press_sequentially("team-backup", delay=120)  # slower than the form's pause at times
    expect(manifests(page)).to_contain_text("name: team-backup")
    expect(namespace).to_be_focused()
    expect(namespace).to_have_value("team-backup")

    page.get_by_role("radio", name="PlatformOperator").check()
    expect(manifests(page)).to_contain_text("kind: PlatformOperator")
    page.get_by_role("radio", name="Subscription").check()
    expect(namespace).to_have_value("team-backup")

    page.get_by_role("button", name="Review", exact=True).click()
    expect(page.get_by_text("Dry run passed")).to_be_visible()
    install = page.get_by_role("button", name="Install", exact=True)
    expect(install).to_be_enabled()
    expect(page.locator("[data-focus]")).to_be_focused()  # not taken from the field later
    namespace.press("End")
    namespace.press("2")
    expect(page.get_by_role("button", name="Review", exact=True)).to_be_visible()
    expect(install).to_have_count(0)
    expect(manifests(page)).to_contain_text("name: team-backup2")


def test_the_chosen_version_reaches_the_install_form(new_page) -> None:
    page = new_page()
    steps.sign_in(page, "operator", f"{steps.CATALOG}/tracing-demo")
    offered = page.locator("select[name=version]")
    version = offered.locator("option").last.get_attribute("value")
    assert version
    offered.select_option(version)
    page.wait_for_url(f"**version={version}*")
    page.get_by_role("link", name="Install", exact=True).click()
    expect(manifests(page)).to_contain_text(f"startingCSV: tracing-demo.v{version}")
    page.get_by_role("radio", name="ClusterExtension").check()
    expect(manifests(page)).to_contain_text("kind: ClusterExtension")
    expect(page.locator("[name=version]")).to_have_value(version)  # a ClusterExtension's pin
    page.get_by_role("radio", name="Subscription").check()
    expect(manifests(page)).to_contain_text(f"startingCSV: tracing-demo.v{version}")


def box_of(region: Locator) -> dict[str, float]:
    box = region.bounding_box()
    assert box
    right, bottom = box["x"] + box["width"], box["y"] + box["height"]
    return {"x": box["x"], "y": box["y"], "right": right, "bottom": bottom}


def test_the_manifests_stay_in_view_beside_the_fields_and_follow_below_them_on_a_phone(
    new_page,
) -> None:
    page = new_page(viewport={"width": 1280, "height": 800})
    steps.sign_in(page, "operator", f"{steps.CATALOG}/tenant-demo/install?path=Subscription")
    fields = page.get_by_role("region", name="Installation", exact=True)
    beside = page.get_by_role("region", name="Manifests to apply")
    assert box_of(beside)["x"] >= box_of(fields)["right"]
    review = page.get_by_role("button", name="Review", exact=True)
    review.scroll_into_view_if_needed()
    expect(review).to_be_in_viewport()
    expect(beside.get_by_role("heading")).to_be_in_viewport()
    page.set_viewport_size({"width": 390, "height": 844})
    assert box_of(fields)["bottom"] <= box_of(beside)["y"] < box_of(review)["y"]
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_selected_namespaces_are_named_where_they_are_chosen_and_an_error_takes_the_focus(
    new_page,
) -> None:
    page = new_page()
    steps.sign_in(page, "operator", f"{steps.CATALOG}/tenant-demo/install?path=Subscription")
    names = page.get_by_label("Namespaces to watch")
    expect(names).to_be_hidden()
    selected = page.get_by_role("radio", name="Selected namespaces")
    selected.check()
    expect(names).to_be_visible()
    expect(page.get_by_text("Name the namespaces to watch; separate several")).to_be_visible()
    expect(selected).to_be_focused()
    page.get_by_role("button", name="Review", exact=True).press("Enter")
    summary = page.get_by_role("alert").filter(has_text="Name the namespaces")
    expect(summary).to_be_focused()
    steps.tab_to(page, summary.get_by_role("link", name="Go to the field targets"), limit=1)
    page.keyboard.press("Enter")
    expect(names).to_be_focused()
    page.keyboard.type("team-x, team-y")
    expect(manifests(page)).to_contain_text("- team-y")
    expect(names).to_be_focused()
