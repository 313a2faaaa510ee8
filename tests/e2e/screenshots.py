"""`python -m tests.e2e.screenshots FOLDER [URL]`: every page, light and dark, wide and narrow.

Without URL a demo is started for it. For people who look; asserts nothing. `readme.png` is the
README's: docs/images/overview.png.
"""

import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

from playwright.sync_api import sync_playwright

from tests.e2e.product import CHROMIUM_FLAGS, demo

PAGES = {
    "overview": "/",
    "report": "/report/",
    "readiness": "/readiness/",
    "software": "/software/",
    "software-table": "/software/?view=table",
    "software-search": "/software/?q=operator+service",
    "software-none": "/software/?q=kafkka",
    "package": "/software/sandbox/redhat-operators/tracing-demo",
    "package-channels": "/software/sandbox/redhat-operators/tracing-demo?tab=channels",
    "package-versions": "/software/sandbox/redhat-operators/tracing-demo?tab=versions",
    "package-installs": "/software/sandbox/redhat-operators/tracing-demo?tab=installs",
    "operators": "/operators/",
    "operators-all": "/operators/?view=all",
    "operator-failed": "/operators/sandbox/PlatformOperator/-/advanced-cluster-management",
    "operator-healthy": "/operators/sandbox/PlatformOperator/-/3scale-operator",
    "operator-conflict": "/operators/sandbox/PlatformOperator/-/web-terminal",
    "operator-approval": "/operators/sandbox/Subscription/openshift-devspaces/devspaces",
    "operator-requirements": "/operators/sandbox/Subscription/team-blue/ledger-demo",
    "operator-catalog": "/operators/sandbox/Subscription/team-lab/chat-demo",
    "operator-pods": "/operators/sandbox/ClusterExtension/-/weather",
    "cluster": "/clusters/sandbox",
    "crds": "/crds/",
    "copied-csvs": "/reports/copied-csvs/",
    "cluster-operators": "/cluster-operators/",
    "aggregated": "/cluster-operators/sandbox/platform-operators-aggregated",
    "catalogs": "/catalogs/",
    "catalog": "/catalogs/sandbox/redhat-operators",
    "activity": "/activity/",
    "login": "/login/",
    "missing": "/operators/sandbox/PlatformOperator/-/nothing",
    "api-docs": "/api/v1/docs",
    "help": "/help/",
}
# Taller than any screen: the page scrolls inside its frame, and a picture shows all of it.
SIZES = {"wide": (1280, 1800), "narrow": (390, 2600)}
README = (1280, 860)


def main(folder: Path, url: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    running = nullcontext(SimpleNamespace(url=url)) if url else demo()
    with running as product, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=CHROMIUM_FLAGS
        )
        for size, (width, height) in SIZES.items():
            for scheme in ("light", "dark"):
                page = browser.new_page(
                    viewport={"width": width, "height": height}, color_scheme=scheme
                )
                for name, path in PAGES.items():
                    page.goto(product.url + path)
                    wide = page.evaluate("document.documentElement.scrollWidth")
                    if wide > width:
                        print(f"{name} {size} {scheme}: {wide} px wide")
                    page.screenshot(path=folder / f"{name}-{size}-{scheme}.png")
                page.close()
        width, height = README
        page = browser.new_page(viewport={"width": width, "height": height}, color_scheme="light")
        page.goto(product.url)
        page.screenshot(path=folder / "readme.png")
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "")
