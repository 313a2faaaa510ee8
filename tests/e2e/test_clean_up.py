"""What a removed operator left is found, reviewed and deleted, with the keyboard alone."""

import pytest
from playwright.sync_api import Page, expect

from tests.e2e import steps
from tests.e2e.steps import press, tab_to

pytestmark = pytest.mark.e2e
NAMESPACE = "team-leftovers"
NAME = "tenants"
FORM = f"/leftovers/sandbox/Subscription/{NAMESPACE}/tenant-demo/clean-up"
CRD = "tenants.tenancy.demo.olmweb.dev"


def install_and_remove(page: Page) -> None:
    """Leaves the CRD of the package, an OperatorGroup and a namespace on the cluster."""
    page.goto(
        f"{steps.CATALOG}/tenant-demo/install?path=Subscription&namespace={NAMESPACE}&mode=own"
        f"&name={NAME}"
    )
    steps.review_and_confirm(page)
    steps.follow_to(page, "Succeeded")
    page.goto(f"/operators/sandbox/Subscription/{NAMESPACE}/{NAME}/remove")
    page.get_by_role("checkbox", name="I understand").check()
    page.get_by_role("button", name="Remove", exact=True).click()
    page.wait_for_url("**/activity/actions/*")
    steps.follow_to(page, "Succeeded")


def test_leftovers_of_a_removed_operator_are_reviewed_and_deleted_with_the_keyboard_alone(
    new_page,
) -> None:
    page = new_page(viewport={"width": 1280, "height": 800})
    steps.sign_in(page, "operator")
    install_and_remove(page)
    page.goto("/leftovers/?q=tenant-demo")
    mine = page.get_by_role("main").locator(f"a[href='{FORM}']")
    # The leftovers appear with the events of the watches.
    expect(mine).to_be_visible(timeout=steps.SEEN_MS)
    press(page, mine)
    page.wait_for_url(f"**{FORM}")

    rows = page.get_by_role("table", name="Leftovers of tenant-demo")
    expect(rows.get_by_role("checkbox", name=CRD)).to_be_checked()
    expect(rows.get_by_role("checkbox", name=NAMESPACE, exact=True)).not_to_be_checked()
    going = page.get_by_role("region", name="What will be deleted")
    expect(going).to_contain_text(f"DELETE CustomResourceDefinition {CRD}")
    expect(going).to_contain_text("Nothing brings them back.")
    expect(going).not_to_contain_text("DELETE Namespace")
    delete = page.get_by_role("button", name="Clean up", exact=True)
    expect(delete).to_have_count(0)

    tab_to(page, rows.get_by_role("checkbox", name=NAMESPACE, exact=True))
    page.keyboard.press("Space")
    press(page, page.get_by_role("button", name="Review", exact=True))
    # The rights of the person on the cluster decide: operators may not delete definitions there.
    expect(page.get_by_role("main")).to_contain_text(f"{CRD} in all namespaces: no rule allows")
    expect(page.get_by_role("status").filter(has_text="Dry run failed")).to_be_visible()
    expect(delete).to_have_count(0)
    tab_to(page, rows.get_by_role("checkbox", name=CRD))
    page.keyboard.press("Space")
    press(page, page.get_by_role("button", name="Review again"))
    expect(page.get_by_role("status").filter(has_text="Dry run passed")).to_be_focused()
    expect(going).to_contain_text(f"Namespace {NAMESPACE} is deleted with everything in it.")
    expect(going).not_to_contain_text(CRD)
    tab_to(page, page.get_by_role("checkbox", name="I understand"), limit=1)
    page.keyboard.press("Space")
    tab_to(page, delete, limit=1)
    page.keyboard.press("Enter")
    page.wait_for_url("**/activity/actions/*")
    steps.follow_to(page, "Succeeded")
    deleted = page.get_by_role("region", name="Deleted resources")
    expect(deleted).to_contain_text(f"DELETE OperatorGroup {NAMESPACE}/{NAMESPACE}")
    expect(deleted).to_contain_text(f"DELETE Namespace {NAMESPACE}")

    page.goto("/leftovers/?q=tenant-demo")
    left = page.get_by_role("table", name="Leftovers of tenant-demo").filter(has_text=CRD)
    expect(left).not_to_contain_text(NAMESPACE, timeout=steps.SEEN_MS)
    delete_definition_as_admin(new_page(viewport={"width": 1280, "height": 800}))


def delete_definition_as_admin(page: Page) -> None:
    """The cluster lets its administrators delete definitions: nothing is left then."""
    steps.sign_in(page, "admin")
    page.goto(FORM)
    rows = page.get_by_role("table", name="Leftovers of tenant-demo")
    expect(rows.get_by_role("checkbox", name=CRD)).to_be_checked()
    page.get_by_role("button", name="Review", exact=True).click()
    expect(page.get_by_role("status").filter(has_text="Dry run passed")).to_be_visible()
    going = page.get_by_role("region", name="What will be deleted")
    expect(going).to_contain_text(f"DELETE CustomResourceDefinition {CRD}")
    page.get_by_role("checkbox", name="I understand").check()
    page.get_by_role("button", name="Clean up", exact=True).click()
    page.wait_for_url("**/activity/actions/*")
    steps.follow_to(page, "Succeeded")
    deleted = page.get_by_role("region", name="Deleted resources")
    expect(deleted).to_contain_text(f"DELETE CustomResourceDefinition {CRD}")
    page.goto("/leftovers/?q=tenant-demo")
    expect(page.get_by_role("main")).not_to_contain_text(CRD, timeout=steps.SEEN_MS)
    assert page.request.get(FORM).status == 404
