"""axe-core on every page, light and dark, wide and narrow: nothing serious or critical."""

from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, StorageState

from tests.e2e import steps
from tests.e2e.product import Product
from tests.e2e.screenshots import PAGES

pytestmark = pytest.mark.e2e

SIGNED_OUT = {"login"}
GRAVE = ("serious", "critical")
OPTIONS = {"resultTypes": ["violations"]}


@pytest.fixture(scope="module")
def pages(browser: Browser, product: Product) -> Iterator[tuple[dict[str, str], StorageState]]:
    """Every page by name, with the form and the outcome of an install; and a signed-in session."""
    context = browser.new_context(base_url=product.url)
    page = context.new_page()
    form = f"{steps.CATALOG}/policy-demo/install"
    steps.sign_in(page, "operator", form)
    steps.review_and_confirm(page)
    steps.follow_to(page, "Failed")
    action = page.url.removeprefix(product.url)
    remove = f"{steps.OPERATOR}/policy-demo/remove"
    yield (
        {**PAGES, "install": form, "action": action, "remove": remove},
        context.storage_state(),
    )
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_no_page_has_a_serious_or_critical_fault(
    browser: Browser, product: Product, pages, width: int, scheme
) -> None:
    found, session = pages
    faults = []
    for signed_in in (False, True):
        context = browser.new_context(
            base_url=product.url,
            viewport={"width": width, "height": 900},
            color_scheme=scheme,
            reduced_motion="reduce",
            storage_state=session if signed_in else None,
        )
        page = context.new_page()
        for name, path in found.items():
            if (name not in SIGNED_OUT) != signed_in:
                continue
            page.goto(path)
            for violation in Axe().run(page, options=OPTIONS).response["violations"]:
                if violation["impact"] in GRAVE:
                    where = [str(node["target"][0]) for node in violation["nodes"][:3]]
                    faults.append(f"{name}: {violation['id']}: {violation['help']}: {where}")
        context.close()
    assert not faults, "\n".join(faults)
