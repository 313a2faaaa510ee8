"""What only a browser can tell: where things stand on a page."""

import pytest
from playwright.sync_api import expect

from installs.queries.operator_table import OPERATORS
from tests.e2e.steps import sign_in

pytestmark = pytest.mark.e2e


def test_the_button_of_the_audit_stands_on_the_line_of_what_it_is_about(new_page) -> None:
    page = new_page(viewport={"width": 1280, "height": 900})
    page.goto("/audit/")
    form = page.locator("main form.olm-filters").first
    select = form.get_by_label("Catalog").bounding_box()
    button = form.get_by_role("button", name="Audit").bounding_box()
    assert select
    assert button
    assert abs(select["y"] + select["height"] / 2 - button["y"] - button["height"] / 2) < 2


@pytest.mark.parametrize("width", [1440, 1280, 390])
def test_the_table_of_operators_fits_its_room_with_every_column(new_page, width: int) -> None:
    page = new_page(viewport={"width": width, "height": 900})
    columns = "&".join(f"columns={name}" for name in OPERATORS.names)
    page.goto(f"/operators/?view=all&{columns}")
    table = page.get_by_role("table", name="Installed operators")
    table.wait_for()
    room = "table => [table.scrollWidth, table.parentElement.clientWidth]"
    needed, there = table.evaluate(room)
    assert needed <= there
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_row_menu_and_the_columns_are_reached_by_keyboard(new_page) -> None:
    page = new_page(viewport={"width": 1280, "height": 900})
    page.goto("/operators/?view=all")
    columns = page.locator("#columns > summary")
    columns.focus()
    page.keyboard.press("Enter")
    page.get_by_label("Channel", exact=True).uncheck()
    page.get_by_role("button", name="Show columns").press("Enter")
    page.wait_for_url("**columns=name**")
    assert page.get_by_role("columnheader", name="Channel").count() == 0
    assert page.get_by_role("columnheader", name="Catalog").count() == 1


@pytest.mark.parametrize("user", ["", "operator"])
def test_what_to_know_and_do_about_a_failing_cluster_is_on_the_first_screen(
    new_page, user: str
) -> None:
    page = new_page(viewport={"width": 1280, "height": 800})
    if user:
        sign_in(page, user)
    page.goto("/")
    assert page.locator("#demo").is_visible()
    for name in ("Health", "Cluster update", "Needs your action", "Causes"):
        box = page.get_by_role("region", name=name).bounding_box()
        assert box
        assert box["y"] + box["height"] <= 800, name


def test_the_status_report_prints_on_white_paper_without_navigation(new_page) -> None:
    page = new_page(viewport={"width": 794, "height": 1123}, color_scheme="light")
    page.goto("/report/")
    page.emulate_media(media="print")
    for gone in (page.get_by_role("navigation", name="Main"), page.get_by_role("banner")):
        assert gone.count() == 0 or not gone.first.is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 794
    assert page.pdf(format="A4", prefer_css_page_size=True).startswith(b"%PDF")


def test_the_page_scrolls_below_the_masthead_and_not_the_window(new_page) -> None:
    page = new_page(viewport={"width": 390, "height": 844})
    page.goto("/")
    assert page.evaluate("document.documentElement.scrollHeight") == 844
    page.goto("/#tasks")
    expect(page.get_by_role("link", name="Choose an installable operator")).to_be_in_viewport()
    expect(page.get_by_role("button", name="Navigation")).to_be_in_viewport()
