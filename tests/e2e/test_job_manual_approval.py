"""A Subscription in a namespace of its own, from its installation with manual approval over an
intermediate version to its removal, with the keyboard alone."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e import steps
from tests.e2e.product import Product, demo
from tests.e2e.steps import press, tab_to

pytestmark = pytest.mark.e2e
PAGES = 4  # package, form, action with its three approvals and the removal, and its outcome there


@pytest.fixture(scope="module")
def product() -> Iterator[Product]:
    """A demo of its own: others install the same package as a PlatformOperator in theirs."""
    with demo() as running:
        yield running


def choose(page: Page, words: str) -> None:
    """Moves in a group of radio buttons with the arrow keys, of which Tab stops at one."""
    radio = page.get_by_role("radio", name=words)
    for _ in range(3):
        if radio.is_checked():
            break
        page.keyboard.press("ArrowDown")
    expect(radio).to_be_checked()
    expect(radio).to_be_focused()


def open_by_search(page: Page, text: str, option: Locator) -> None:
    """Types into the search box of the page and opens the option below it."""
    page.keyboard.press("Control+k")
    page.keyboard.type(text)
    expect(option).to_be_visible()
    for _ in range(4):
        if option.get_attribute("aria-selected") == "true":
            break
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")


def test_a_subscription_is_installed_approved_upgraded_and_removed_with_the_keyboard_alone(
    new_page,
) -> None:
    """As an operator, the least role that may change a cluster."""
    page = new_page(viewport={"width": 1280, "height": 800})
    page.goto("/login/?next=/")
    steps.type_credentials(page, "operator")
    expect(page).to_have_url("/")
    page.wait_for_load_state()  # the script that opens the search
    pages: list[str] = []
    page.on("framenavigated", lambda frame: pages.append(frame.url))

    package = page.get_by_role("group", name="Packages").get_by_role("option", name="Backup Demo")
    open_by_search(page, "backup demo", package)
    page.wait_for_url("**/backup-demo")
    press(page, page.get_by_role("link", name="Install", exact=True))
    page.wait_for_url("**/backup-demo/install")

    manifests = page.get_by_role("region", name="Manifests to apply").locator("pre")
    tab_to(page, page.locator("input[name=path]:checked"))
    choose(page, "Subscription")
    expect(manifests).to_contain_text("kind: Subscription")
    tab_to(page, page.get_by_label("Namespace", exact=True), limit=1)
    page.keyboard.press("Control+A")
    page.keyboard.type("team-backup")
    expect(page.get_by_text("Not on cluster sandbox yet; it is created.")).to_be_visible()
    expect(manifests).to_contain_text("kind: OperatorGroup")
    tab_to(page, page.locator("input[name=mode]:checked"), limit=1)
    choose(page, "This namespace only")
    expect(manifests).to_contain_text("- team-backup")
    tab_to(page, page.get_by_label("Channel"), limit=1)
    tab_to(page, page.get_by_label("Starting version"), limit=1)
    page.keyboard.type("1.0.1")
    expect(manifests).to_contain_text("startingCSV: backup-demo.v1.0.1")
    tab_to(page, page.locator("input[name=approval]:checked"), limit=1)
    choose(page, "Manual")
    expect(manifests).to_contain_text("installPlanApproval: Manual")

    press(page, page.get_by_role("button", name="Review", exact=True))
    outcome = page.get_by_role("status").filter(has_text="Dry run passed")
    expect(outcome).to_be_focused()
    expect(page.get_by_role("button", name="Install", exact=True)).to_be_in_viewport(ratio=1)
    tab_to(page, page.get_by_role("button", name="Install", exact=True), limit=1)
    page.keyboard.press("Enter")
    page.wait_for_url("**/activity/actions/*")

    # The page of the installation shows what each next InstallPlan brings, and approves it.
    outcome = page.locator("#outcome")
    approve = page.get_by_role("button", name="Approve InstallPlan")
    for version in ("1.0.1", "1.1.0", "1.2.0"):
        bundle = f"backup-demo.v{version}"
        brought = page.get_by_role("table", name="What the InstallPlan changes")
        expect(brought).to_contain_text(bundle, timeout=steps.OUTCOME_MS)
        press(page, approve)
        expect(outcome).to_be_focused(timeout=steps.SEEN_MS)  # where the news is, also later
        dependency = ", object-store-demo.v2.1.0" if version == "1.0.1" else ""
        completed = f"completed: {bundle}{dependency}."
        expect(outcome).to_contain_text(completed, timeout=steps.OUTCOME_MS)
        expect(outcome).to_be_focused()
    earlier = page.get_by_role("region", name="Before that").get_by_role("listitem")
    expect(earlier).to_have_count(3)

    press(page, page.locator("summary", has_text="Remove backup-demo"))
    going = page.get_by_role("region", name="What will be deleted")
    expect(going).to_contain_text("DELETE ClusterServiceVersion team-backup/backup-demo.v1.2.0")
    staying = page.get_by_role("region", name="What stays")
    expect(staying).to_contain_text("backupplans.backup.demo.olmweb.dev with ")
    expect(staying).to_contain_text("OperatorGroup team-backup/team-backup")
    expect(staying).to_contain_text("Namespace team-backup")
    expect(staying).to_contain_text("installed as a dependency: object-store-demo")
    tab_to(page, page.get_by_role("checkbox", name="I understand"))
    page.keyboard.press("Space")
    tab_to(page, page.get_by_role("button", name="Remove", exact=True), limit=6)
    page.keyboard.press("Enter")
    left = page.get_by_role("region", name="Outcome")
    expect(left).to_contain_text(
        "Operator backup-demo 1.2.0 is removed. Deleted: Subscription", timeout=steps.OUTCOME_MS
    )
    expect(left).to_contain_text("backupplans.backup.demo.olmweb.dev")
    expect(left).to_contain_text(
        "The OperatorGroup and Namespace team-backup stay for object-store-demo, which was "
        "installed as a dependency."
    )
    assert len(pages) == PAGES, pages
