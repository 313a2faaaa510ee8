"""The provider of a kind, compared in two catalogs and exported pinned to a version, with the
keyboard alone and without an account."""

import re
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml
from playwright.sync_api import expect

from tests.e2e.product import Product, demo
from tests.e2e.steps import press, tab_to

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def product() -> Iterator[Product]:
    """A demo of its own: the catalogs of others may be read again in theirs."""
    with demo() as running:
        yield running


def test_the_provider_of_a_kind_is_compared_and_exported_with_the_keyboard(new_page) -> None:
    page = new_page()
    page.goto("/")
    pages: list[str] = []
    page.on("framenavigated", lambda frame: pages.append(frame.url))
    page.keyboard.press("Control+k")
    page.keyboard.type("TraceStore")
    provider = page.get_by_role("option", name=re.compile("provided by tracing-demo in redhat-"))
    expect(provider).to_contain_text("in redhat-operators and community-operators")
    compare = page.get_by_role("option", name=re.compile("^Compare tracing-demo"))
    expect(compare).to_be_visible()
    while compare.get_attribute("aria-selected") != "true":
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")

    page.wait_for_url("**/catalogs/compare**")
    main = page.get_by_role("main")
    expect(main.get_by_role("heading", level=2).first).to_contain_text("redhat-operators")
    expect(main.get_by_role("heading", level=2).first).to_contain_text("community-operators")
    expect(main).to_contain_text("1.5.0")
    press(page, main.get_by_role("link", name="tracing-demo from redhat-operators"))

    page.wait_for_url("**/redhat-operators/tracing-demo/export**")
    tab_to(page, page.get_by_label("Version or range"))
    page.keyboard.type("1.4.2")
    page.keyboard.press("Tab")  # the manifests beside the form follow each field
    expect(page.get_by_role("heading", name="Manifests")).to_be_visible()
    expect(page.get_by_role("main")).to_contain_text("pinned to 1.4.2")
    expect(page.locator(".htmx-request, .htmx-swapping, .htmx-settling")).to_have_count(0)
    expect(page).to_have_url(re.compile("version=1.4.2"))
    expect(page.get_by_role("banner")).to_have_count(1)  # the form alone was replaced
    download = page.get_by_role("link", name="One YAML file")
    with page.expect_download() as saved:
        press(page, download)
    manifests = list(yaml.safe_load_all(saved.value.path().read_text(encoding="utf-8")))
    assert "1.4.2" in str([manifest["spec"] for manifest in manifests if "spec" in manifest])
    assert parse_qs(urlsplit(page.url).query)["version"] == ["1.4.2"]
    paths = dict.fromkeys(urlsplit(address).path for address in pages)
    assert len(paths) == 2, f"comparison, export: {paths}"
