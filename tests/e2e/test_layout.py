"""What only a browser can tell: where things stand on a page."""

import pytest

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
