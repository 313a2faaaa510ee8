"""The start page of an installation without a cluster, and of one whose cluster does not answer."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from olmweb.sandbox.cluster import Sandbox
from tests.e2e import steps
from tests.e2e.product import serve
from tests.e2e.test_accessibility import EVERY_RULE, faults_of
from tests.services import free_port

pytestmark = pytest.mark.e2e
KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: east
clusters: [{{name: east, cluster: {{server: "http://127.0.0.1:{port}"}}}}]
users: [{{name: east, user: {{token: any}}}}]
contexts: [{{name: east, context: {{cluster: east, user: east}}}}]
"""
ENVIRONMENT = {
    "OLMWEB_PUBLIC_READ": "true",
    "OLMWEB_STATE_POLL": "2s",
    "OLMWEB_ADMIN_PASSWORD": steps.ADMIN_PASSWORD,
    "OLMWEB_CLUSTERS": "",
}


def open_start(browser: Browser, url: str) -> Page:
    page = browser.new_page(base_url=url, viewport={"width": 390, "height": 844})
    page.goto("/")
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert faults_of(page, "first steps", EVERY_RULE) == []
    return page


def test_an_installation_without_a_cluster_shows_the_commands(
    browser: Browser, tmp_path: Path
) -> None:
    with serve(tmp_path, ENVIRONMENT) as product:
        page = open_start(browser, product.url)
        main = page.get_by_role("main")
        expect(main.get_by_role("heading", level=2)).to_have_text("Connect the first cluster")
        expect(main).to_contain_text("kubectl apply -f deploy/kubernetes/rbac.yaml")
        expect(main.get_by_role("button", name="Copy the command")).to_have_count(4)
        page.close()


def test_each_error_of_a_cluster_is_at_its_step_and_the_overview_follows_by_itself(
    browser: Browser, tmp_path: Path
) -> None:
    port, kubeconfig = free_port(), tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG.format(port=port))
    environment = ENVIRONMENT | {"KUBECONFIG": str(kubeconfig), "OLMWEB_CLUSTERS": "east=east"}
    with serve(tmp_path, environment) as product:
        page = open_start(browser, product.url)
        first = page.get_by_role("listitem")
        step = first.filter(has_text="Wait for the first sync")
        expect(step).to_contain_text("connection refused", timeout=steps.SEEN_MS)
        expect(step).to_contain_text("Check that the API server runs")
        sandbox = Sandbox(port=port, require_token=False)
        sandbox.start()
        try:
            account = first.filter(has_text="Write a kubeconfig of this account")
            expect(account).to_contain_text(
                "Cluster east did not accept our credentials", timeout=steps.OUTCOME_MS
            )
            sandbox.write_kubeconfig(kubeconfig, context="east")
            expect(page.locator("#overview")).to_contain_text(
                "operators need attention", timeout=steps.OUTCOME_MS
            )
            expect(step).to_have_count(0)
        finally:
            sandbox.stop()
        page.close()
