"""A list that opens with the filters used last says so until the filters change."""

import re

import pytest
from playwright.sync_api import expect

from tests.e2e import steps

pytestmark = pytest.mark.e2e
NOTICE = "This list opened with the filters that you used last."


@pytest.mark.parametrize("scripts", [True, False])
def test_the_notice_of_remembered_filters_goes_with_the_first_change(new_page, scripts) -> None:
    page = new_page(java_script_enabled=scripts)
    steps.sign_in(page, "operator")
    page.goto("/software/?installed=no&deprecated=no")
    (cookie,) = (c for c in page.context.cookies() if c["name"] == "olmweb_view_software")
    # As of an earlier visit: of a recent view the list says nothing.
    cookie["value"] = re.sub(r"\.\d+:", ".1000000000:", cookie["value"])
    page.context.add_cookies([cookie])
    page.goto("/software/")
    expect(page.get_by_text(NOTICE)).to_be_visible()
    page.get_by_role("link", name="Remove filter Installed: No").click()
    expect(page.get_by_role("link", name=re.compile("^Remove filter"))).to_have_count(1)
    expect(page.get_by_text(NOTICE)).to_have_count(0)
