"""One running demo and one browser for all journeys; every journey gets a context of its own."""

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from tests.e2e.product import CHROMIUM_FLAGS, Product, demo

# Playwright's event loop lives in this thread; Django must not take our code for asynchronous.
os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"


@pytest.fixture(scope="session")
def product() -> Iterator[Product]:
    with demo() as running:
        yield running


@pytest.fixture(scope="session")
def browser(chromium: str) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=CHROMIUM_FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def new_page(browser: Browser, product: Product) -> Iterator[Callable[..., Page]]:
    """Makes a page with the given context options; fails the journey on any console error."""
    contexts: list[BrowserContext] = []
    errors: list[str] = []

    def make(**options: Any) -> Page:
        context = browser.new_context(base_url=product.url, **options)
        context.set_default_timeout(15_000)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on(
            "console",
            lambda message: errors.append(message.text) if message.type == "error" else None,
        )
        return page

    yield make
    for context in contexts:
        context.close()
    # A refused form answers 422, which Chromium reports as an error; that is what we asked for.
    assert not [error for error in errors if "422" not in error]
