"""Browse, install, follow to the outcome, read the reason, remove: as an operator and a viewer."""

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e import steps
from tests.e2e.steps import tab_to

pytestmark = pytest.mark.e2e


def find_and_open(page: Page, title: str) -> None:
    """Types into the catalog's search, which filters as one types, and opens the package."""
    page.get_by_label("Search packages").fill(title)
    card = page.get_by_role("listitem").filter(has=page.get_by_role("heading", name=title))
    # A demo that has just begun is still judging every package, beside other journeys.
    filtered = page.get_by_role("status").filter(has_text=" of ")
    expect(filtered).to_be_visible(timeout=steps.SEEN_MS)
    card.get_by_role("link", name=title, exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(title)


def test_an_operator_finds_a_package_installs_it_and_watches_it_become_healthy(new_page) -> None:
    page = new_page()
    steps.sign_in(page, "operator", "/software/")
    find_and_open(page, "Backup Demo")

    page.get_by_role("link", name="Install", exact=True).click()
    expect(page.get_by_label("Name of the PlatformOperator")).to_have_value("backup-demo")
    expect(page.get_by_text("Not validated yet")).to_be_visible()
    steps.review_and_confirm(page)
    loads: list[str] = []
    page.on("domcontentloaded", lambda loaded: loads.append(loaded.url))
    steps.follow_to(page, "Succeeded")
    assert not loads  # the page followed by itself

    outcome = page.get_by_role("region", name="Outcome")
    expect(outcome).to_contain_text("backup-demo is installed.")
    outcome.get_by_role("link", name="View operator backup-demo").click()
    happened = page.get_by_role("region", name="What happened")
    expect(happened).to_contain_text("Healthy")
    expect(happened).to_contain_text("Installed and working: version 1.2.0.")

    page.goto("/activity/")
    row = page.get_by_role("row").filter(has_text="backup-demo")
    expect(row).to_contain_text("Succeeded")


def test_a_failed_install_tells_cause_and_remedy_is_grouped_by_cause_and_can_be_removed(
    new_page,
) -> None:
    page = new_page()
    steps.sign_in(page, "operator", "/software/")
    find_and_open(page, "Tenant Demo")
    page.get_by_role("link", name="Install", exact=True).click()
    page.get_by_role("radio", name="PlatformOperator").check()
    told = re.compile("AllNamespaces must be enabled|does not support the AllNamespaces")
    expect(page.get_by_role("main")).to_contain_text(told)
    steps.review_and_confirm(page)
    steps.follow_to(page, "Failed")

    outcome = page.get_by_role("region", name="Outcome")
    expect(outcome.get_by_role("heading", level=2)).to_have_text(
        "AllNamespaces install mode required"
    )
    expect(outcome).to_contain_text("kubectl delete platformoperator tenant-demo")

    page.goto("/operators/")
    cause = page.get_by_role("region", name="AllNamespaces install mode required")
    everyone = cause.get_by_role("link", name=re.compile(r"^All \d+ with this cause$"))
    if everyone.count():
        page.goto(f"/operators/{everyone.get_attribute('href')}&q=tenant-demo")
        cause = page.locator("#live")
    expect(cause.get_by_role("link", name="tenant-demo", exact=True)).to_be_visible()

    page.goto(steps.AGGREGATED)
    member = page.get_by_role("row", name=re.compile("^tenant-demo "))
    expect(member).to_contain_text("UnpackFailed", timeout=steps.SEEN_MS)
    member.get_by_role("link", name="tenant-demo").click()

    page.get_by_role("link", name="Remove", exact=True).click()
    expect(page.get_by_text("DELETE PlatformOperator tenant-demo")).to_be_visible()
    page.get_by_label("I understand that these resources will be deleted").check()
    page.get_by_role("button", name="Remove", exact=True).click()
    page.wait_for_url("**/activity/actions/*")
    steps.follow_to(page, "Succeeded")
    expect(page.get_by_role("region", name="Outcome")).to_contain_text(
        "PlatformOperator tenant-demo is removed."
    )

    page.goto("/operators/?view=all&q=tenant-demo")
    expect(page.get_by_role("heading", name="No results found")).to_be_visible()


def test_a_subscription_is_installed_approved_upgraded_and_removed_with_the_keyboard_alone(
    new_page,
) -> None:
    """As an operator, the least role that may change a cluster. Thirteen pages after signing in:
    search, package, form, action, an approval and its action for each of three versions, operator,
    removal and its action."""
    page = new_page()
    page.goto("/login/?next=/")
    steps.type_credentials(page, "operator")
    expect(page).to_have_url("/")
    page.wait_for_load_state()  # the script that opens the search
    pages: list[str] = []
    page.on("framenavigated", lambda frame: pages.append(frame.url))

    def follow(link: Locator, address: str) -> None:
        tab_to(page, link)
        page.keyboard.press("Enter")
        page.wait_for_url(address)

    def choose(words: str, key: str) -> None:
        """Moves in a group of radio buttons with the arrow keys, of which Tab stops at one."""
        radio = page.get_by_role("radio", name=words)
        for _ in range(3):
            if radio.is_checked():
                break
            page.keyboard.press(key)
        expect(radio).to_be_checked()
        expect(radio).to_be_focused()

    page.keyboard.press("Control+k")
    page.keyboard.type("backup demo")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search/**")
    follow(page.get_by_role("link", name="Backup Demo", exact=True), "**/backup-demo")
    follow(page.get_by_role("link", name="Install", exact=True), "**/backup-demo/install")

    manifests = page.get_by_role("region", name="Manifests to apply").locator("pre")
    tab_to(page, page.locator("input[name=path]:checked"))
    choose("Subscription", "ArrowDown")
    expect(manifests).to_contain_text("kind: Subscription")
    tab_to(page, page.get_by_label("Namespace", exact=True), limit=1)
    page.keyboard.press("Control+A")
    page.keyboard.type("team-backup")
    expect(page.get_by_text("Not on cluster sandbox yet; it is created.")).to_be_visible()
    expect(manifests).to_contain_text("kind: OperatorGroup")
    tab_to(page, page.locator("input[name=mode]:checked"), limit=1)
    choose("This namespace only", "ArrowDown")
    expect(manifests).to_contain_text("- team-backup")
    tab_to(page, page.get_by_label("Channel"), limit=1)
    tab_to(page, page.get_by_label("Starting version"), limit=1)
    page.keyboard.type("1.0.1")
    expect(manifests).to_contain_text("startingCSV: backup-demo.v1.0.1")
    tab_to(page, page.locator("input[name=approval]:checked"), limit=1)
    choose("Manual", "ArrowDown")
    expect(manifests).to_contain_text("installPlanApproval: Manual")

    tab_to(page, page.get_by_role("button", name="Review", exact=True))
    page.keyboard.press("Enter")
    outcome = page.get_by_role("status").filter(has_text="Dry run passed")
    expect(outcome).to_be_focused()
    expect(page.get_by_role("button", name="Install", exact=True)).to_be_in_viewport(ratio=1)
    tab_to(page, page.get_by_role("button", name="Install", exact=True), limit=1)
    page.keyboard.press("Enter")
    page.wait_for_url("**/activity/actions/*")

    for version in ("1.0.1", "1.1.0", "1.2.0"):
        approve = page.get_by_role("link", name=re.compile("^Review and approve InstallPlan"))
        expect(approve).to_be_visible(timeout=steps.OUTCOME_MS)
        follow(approve, "**/approve")
        expect(page.get_by_role("main")).to_contain_text(f"backup-demo.v{version}")
        tab_to(page, page.get_by_role("button", name="Review", exact=True))
        page.keyboard.press("Enter")
        expect(outcome).to_be_focused()
        tab_to(page, page.get_by_role("button", name="Approve", exact=True), limit=1)
        page.keyboard.press("Enter")
        page.wait_for_url("**/activity/actions/*")
        done = page.get_by_text(f"completed: backup-demo.v{version}.")
        expect(done).to_be_visible(timeout=steps.OUTCOME_MS)

    view = page.get_by_role("link", name="View operator backup-demo")
    follow(view, "**/operators/sandbox/Subscription/team-backup/backup-demo")
    expect(page.get_by_role("region", name="What happened")).to_contain_text("version 1.2.0")
    follow(page.get_by_role("link", name="Remove", exact=True), "**/remove")
    going = page.get_by_role("region", name="What will be deleted")
    expect(going).to_contain_text("DELETE ClusterServiceVersion team-backup/backup-demo.v1.2.0")
    expect(going).to_contain_text("(backupplans.backup.demo.olmweb.dev) and every object of these")
    expect(going).to_contain_text("so do the OperatorGroup, the namespace")
    tab_to(page, page.get_by_role("checkbox", name="I understand"))
    page.keyboard.press("Space")
    tab_to(page, page.get_by_role("button", name="Remove", exact=True), limit=1)
    page.keyboard.press("Enter")
    page.wait_for_url("**/activity/actions/*")
    steps.follow_to(page, "Succeeded")
    expect(page.get_by_role("main")).to_contain_text("Subscription backup-demo is removed.")
    assert len(pages) == 13, pages


def test_a_viewer_is_told_at_the_button_why_not(new_page) -> None:
    page = new_page()
    steps.sign_in(page, "viewer", f"{steps.OPERATOR}/3scale-operator")
    button = page.get_by_role("button", name="Remove", exact=True)
    expect(button).to_be_disabled()
    expect(button).to_have_accessible_description(re.compile("Your role may not change clusters"))
