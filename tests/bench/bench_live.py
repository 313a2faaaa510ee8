"""From a change in a cluster to the page that a person has open, in a browser on the demo."""

import shutil
import time
from typing import Any

from playwright.sync_api import Page, expect, sync_playwright

from olmweb.kube.client import KubeClient
from olmweb.kube.resources import PLATFORM_OPERATORS
from olmweb.kube.session import open_client
from tests.bench.tools import p95, row
from tests.e2e.product import CHROMIUM_FLAGS, demo

CHANGES = 20
VERSION = "v1alpha1"
NAME = "ceiling-demo"
MANIFEST = {
    "apiVersion": f"platform.openshift.io/{VERSION}",
    "kind": "PlatformOperator",
    "metadata": {"name": NAME},
    "spec": {"package": {"name": NAME}},
}


def run() -> list[dict[str, Any]]:
    """One row; none without a browser."""
    chromium = shutil.which("chromium")
    if chromium is None:
        return []
    with demo() as product, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=CHROMIUM_FLAGS)
        page = browser.new_page(base_url=product.url)
        page.goto(f"/operators/?view=all&q={NAME}")
        with open_client("sandbox", str(product.folder / "kubeconfig")) as client:
            seconds = [one for _ in range(CHANGES // 2) for one in _come_and_go(page, client)]
        browser.close()
    return [row("live: cluster event to open page, p95", p95(seconds), "s", 2.0)]


def _come_and_go(page: Page, client: KubeClient) -> tuple[float, float]:
    """Seconds until an open list shows a new operator, and until it shows that it is gone."""
    shown = page.get_by_role("row").filter(has=page.get_by_role("link", name=NAME))
    started = time.perf_counter()
    client.apply(PLATFORM_OPERATORS, VERSION, MANIFEST, field_manager="terminal")
    expect(shown).to_be_visible(timeout=30_000)
    came = time.perf_counter() - started
    time.sleep(1)
    started = time.perf_counter()
    client.delete(PLATFORM_OPERATORS, VERSION, NAME)
    expect(shown).to_have_count(0, timeout=30_000)
    return came, time.perf_counter() - started
