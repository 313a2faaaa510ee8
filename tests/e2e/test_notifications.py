"""The bell in the masthead, with the keyboard alone."""

import re

import pytest
from playwright.sync_api import expect

from tests.e2e import steps

pytestmark = pytest.mark.e2e


def test_the_bell_counts_and_leads_to_the_notifications_by_keyboard(new_page) -> None:
    page = new_page()
    steps.sign_in(page, "viewer")
    bell = page.get_by_role("link", name="Notifications")
    unread = re.compile(r"^Notifications, \d+\+? unread$")
    expect(bell).to_have_accessible_name(unread, timeout=steps.SEEN_MS)
    steps.tab_to(page, bell)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Notifications")
    steps.tab_to(page, page.get_by_role("button", name="Mark all as read"))
    page.keyboard.press("Enter")
    expect(page.get_by_text("All notifications marked as read.")).to_be_visible()
    expect(page.get_by_role("heading", name="No new notifications")).to_be_visible()
    steps.tab_to(page, page.get_by_role("button", name="Close"))
    page.keyboard.press("Enter")
    expect(page.get_by_text("All notifications marked as read.")).to_have_count(0)
