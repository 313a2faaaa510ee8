"""One running demo and one browser for all journeys; every journey gets a context of its own."""

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from tests.e2e.browser import Chromium
from tests.e2e.product import Product, demo

# Playwright's event loop lives in this thread; Django must not take our code for asynchronous.
os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"

# A refused form answers 422, which Chromium reports as an error. Whoever leaves a page stops the
# update that it asked for: htmx reports that, and the end of the request, as errors, too. Any
# other failure of a request has an error of its own beside its end.
EXPECTED = ("htmx:sendAbort", "htmx:afterRequest")


@pytest.fixture(scope="session")
def product() -> Iterator[Product]:
    with demo() as running:
        yield running


@pytest.fixture(scope="session")
def chromium_process(chromium: str) -> Iterator[Chromium]:
    with sync_playwright() as playwright:
        process = Chromium(playwright, chromium)
        yield process
        process.browser.close()


@pytest.fixture
def browser(chromium_process: Chromium) -> Browser:
    return chromium_process.running()


@pytest.fixture
def new_page(
    chromium_process: Chromium, browser: Browser, product: Product
) -> Iterator[Callable[..., Page]]:
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
        chromium_process.close(context)
    assert not [error for error in errors if not error.startswith(EXPECTED) and "422" not in error]
