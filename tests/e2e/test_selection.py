"""Selected rows of the list of operators: all at once, the changes that they allow, and Cancel."""

import pytest
from playwright.sync_api import expect

from tests.e2e import steps

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize("width", [1440, 390])
def test_selected_operators_offer_their_changes_in_sight_and_stay_selected(new_page, width) -> None:
    page = new_page(viewport={"width": width, "height": 900})
    steps.sign_in(page, "operator")
    page.goto("/operators/?view=all&kind=PlatformOperator")
    boxes = page.get_by_label("Select ", exact=False).and_(page.locator("[name=operator]"))
    approve = page.get_by_role("button", name="Approve")
    remove = page.get_by_role("button", name="Remove")
    expect(remove).to_be_disabled()
    every = page.get_by_label("Select all rows")
    every.check()
    expect(page.locator("[name=operator]:not(:checked)")).to_have_count(0)
    every.uncheck()
    expect(page.locator("[name=operator]:checked")).to_have_count(0)
    boxes.nth(0).check()
    boxes.nth(1).check()
    expect(remove).to_be_enabled()
    expect(remove).to_be_in_viewport()
    expect(approve).to_be_disabled()
    expect(page.get_by_text("No selected operator requires")).to_be_visible()
    remove.click()
    page.wait_for_url("**/operators/bulk-change**")
    page.get_by_role("link", name="Cancel").click()
    page.wait_for_url("**/operators/?view=all&kind=PlatformOperator&operator=**")
    expect(page.locator("[name=operator]:checked")).to_have_count(2)
    expect(remove).to_be_enabled()
