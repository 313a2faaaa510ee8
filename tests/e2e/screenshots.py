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
from tests.e2e.steps import sign_in

_PACKAGE = "/software/sandbox/redhat-operators/tracing-demo"
_BUNDLE = "sandbox/redhat-operators/tracing-demo/tracing-demo.v1.4.0"
_CRD = "/objects/sandbox/CustomResourceDefinition/-"
_OPERATOR = "/operators/sandbox/PlatformOperator/-"
_SUBSCRIPTION = "/operators/sandbox/Subscription"
PAGES = {
    "overview": "/",
    "report": "/report/",
    "search": "/search/?q=operator",
    "readiness": "/readiness/",
    "migration": "/readiness/olm-v1/",
    "software": "/software/",
    "software-table": "/software/?view=table",
    "software-search": "/software/?q=operator+service",
    "software-none": "/software/?q=kafkka",
    "package": _PACKAGE,
    "package-channels": f"{_PACKAGE}?tab=channels",
    "package-versions": f"{_PACKAGE}?tab=versions",
    "package-installs": f"{_PACKAGE}?tab=installs",
    "bundle": f"/software/{_BUNDLE}",
    "contents": f"/contents/{_BUNDLE}",
    "export": f"{_PACKAGE}/export",
    "operators": "/operators/?view=cause",
    "operators-all": "/operators/?view=all",
    "operators-second": "/operators/?view=all&page=2&sort=-version",
    "operators-none": "/operators/?view=all&q=kafkka",
    "operator-failed": f"{_OPERATOR}/advanced-cluster-management",
    "operator-healthy": f"{_OPERATOR}/3scale-operator",
    "operator-conflict": f"{_OPERATOR}/web-terminal",
    "operator-approval": f"{_SUBSCRIPTION}/openshift-devspaces/devspaces",
    "operator-requirements": f"{_SUBSCRIPTION}/team-blue/ledger-demo",
    "operator-catalog": f"{_SUBSCRIPTION}/team-lab/chat-demo",
    "operator-pods": "/operators/sandbox/ClusterExtension/-/weather",
    "cluster": "/clusters/sandbox",
    "object": f"{_CRD}/clusterlogforwarders.logging.openshift.io",
    "crds": "/crds/",
    "leftovers": "/leftovers/",
    "unknown-messages": "/unknown-messages/",
    "catalog-down": "/catalogs/sandbox/lab-catalog",
    "audit": "/audit/",
    "copied-csvs": "/reports/copied-csvs/",
    "cluster-operators": "/cluster-operators/",
    "aggregated": "/cluster-operators/sandbox/platform-operators-aggregated",
    "catalogs": "/catalogs/",
    "catalog": "/catalogs/sandbox/redhat-operators",
    "catalog-changes": "/catalogs/sandbox/redhat-operators?tab=changes",
    "catalog-problems": "/catalogs/sandbox/redhat-operators?tab=problems",
    "compare": "/catalogs/compare?from=sandbox/redhat-operators&to=sandbox/community-operators",
    "activity": "/activity/",
    "syncs": "/activity/?show=syncs",
    "login": "/login/",
    "missing": "/operators/sandbox/PlatformOperator/-/nothing",
    "api-docs": "/api/v1/docs",
    "help": "/help/",
}
# For an administrator.
ACCOUNT_PAGES = {
    "install": f"{_PACKAGE}/install",
    "request-new": f"{_PACKAGE}/request",
    "requests": "/activity/requests/",
    "bulk-install": "/bulk-install/?package=sandbox/redhat-operators/tracing-demo",
    "bulk-change": "/operators/bulk-change?change=migrate&cluster=sandbox&kind=PlatformOperator"
    "&finding=allnamespaces-required",
    "remove": f"{_OPERATOR}/3scale-operator/remove",
    "retry": f"{_OPERATOR}/web-terminal/retry",
    "upgrade": f"{_SUBSCRIPTION}/team-lab/chat-demo/upgrade",
    "configure": f"{_SUBSCRIPTION}/team-lab/chat-demo/configure",
    "crd-check": f"{_SUBSCRIPTION}/team-lab/chat-demo/crds/chat-demo.v1.1.0",
    "catalog-new": "/catalogs/new",
    "preferences": "/account/",
    "tokens": "/account/tokens/",
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
                    base_url=product.url,
                    viewport={"width": width, "height": height},
                    color_scheme=scheme,
                )
                page.goto("/login/")
                page.screenshot(path=folder / f"login-{size}-{scheme}.png")
                sign_in(page, "admin")
                for name, path in (PAGES | ACCOUNT_PAGES).items():
                    if name == "login":
                        continue
                    page.goto(path)
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
