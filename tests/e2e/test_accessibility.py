"""axe-core on every page, light and dark, wide and narrow: nothing serious or critical."""

import time

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, StorageState

from tests.e2e import steps
from tests.e2e.browser import Chromium
from tests.e2e.product import Product
from tests.e2e.screenshots import ACCOUNT_PAGES, PAGES

pytestmark = pytest.mark.e2e

SIGNED_OUT = {"login"}
GRAVE = ("serious", "critical")
EVERY_RULE = {"resultTypes": ["violations"]}
# The only rule that depends on the theme; the others would say the same again.
CONTRAST = {"resultTypes": ["violations"], "runOnly": ["color-contrast"]}
MOVING = """() => document.getAnimations().some(
  (one) => one instanceof CSSTransition && one.playState === "running"
)"""


@pytest.fixture(scope="module")
def pages(chromium_process: Chromium, product: Product) -> tuple[dict[str, str], StorageState]:
    """Every page by name, with the form and the outcome of an install; and a signed-in session."""
    context = chromium_process.running().new_context(base_url=product.url)
    page = context.new_page()
    form = f"{steps.CATALOG}/policy-demo/install?path=PlatformOperator"  # which fails
    steps.sign_in(page, "operator", form)
    steps.review_and_confirm(page)
    steps.follow_to(page, "Failed")
    action = page.url.removeprefix(product.url)
    remove = f"{steps.OPERATOR}/policy-demo/remove"
    signed_in = context.storage_state()
    chromium_process.close(context)
    added = {"install-failed": form, "action": action, "remove-failed": remove}
    return {**PAGES, **ACCOUNT_PAGES, **added}, signed_in


def faults_of(page: Page, name: str, options: dict) -> list[str]:
    """The page's grave faults, each with where its first three are."""
    found = Axe().run(page, options=options).response["violations"]
    return [
        f"{name}: {one['id']}: {one['help']}: {[node['target'][0] for node in one['nodes'][:3]]}"
        for one in found
        if one["impact"] in GRAVE
    ]


def toggle_theme(page: Page, *, dark: bool) -> None:
    """Changes the theme as a reader does, and waits until no colour is on its way any more."""
    page.get_by_role("button", name="Switch between light and dark").click()
    classes = page.locator("html").get_attribute("class") or ""
    assert ("pf-v6-theme-dark" in classes) == dark
    deadline = time.monotonic() + 5
    while page.evaluate(MOVING):
        assert time.monotonic() < deadline, "the colours never come to rest"


@pytest.mark.parametrize("width", [1280, 390])
def test_no_page_has_a_serious_or_critical_fault_in_light_or_dark(
    browser: Browser, product: Product, pages, width: int
) -> None:
    found, session = pages
    faults: list[str] = []
    for signed_in in (False, True):
        context = browser.new_context(
            base_url=product.url,
            viewport={"width": width, "height": 900},
            color_scheme="light",
            storage_state=session if signed_in else None,
        )
        page = context.new_page()
        for name, path in found.items():
            if (name in SIGNED_OUT) == signed_in:
                continue
            page.goto(path)
            faults += faults_of(page, name, EVERY_RULE)
            toggle_theme(page, dark=True)
            faults += faults_of(page, f"{name} (dark)", CONTRAST)
            toggle_theme(page, dark=False)
        context.close()
    assert not faults, "\n".join(faults)
