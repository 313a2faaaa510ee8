"""Every action on real OLM v0, in the browser alone, as a person whom the server's log names."""

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from playwright.sync_api import Locator, Page, expect

from tests.e2e import steps
from tests.e2e.product import ROOT, Product, product_folder, serve
from tests.peers.client import Client, Object, wait_until
from tests.peers.controllers import ensure_namespace, opm_serve, service_account_token
from tests.peers.processes import folder
from tests.real.bundles import GROUP, Bundle, crd, write_catalog
from tests.real.world import SECONDS, V1ALPHA1, World
from tests.services import required

pytestmark = [pytest.mark.e2e, pytest.mark.peers]

CATALOG = "pier"
BUNDLES = (
    Bundle("crane", "1.0.0", channels=("stable", "fast")),
    Bundle("crane", "1.1.0", replaces="crane.v1.0.0", channels=("fast",)),
    Bundle("dinghy", "1.0.0", modes=("OwnNamespace", "SingleNamespace")),
    Bundle("ferry", "1.0.0", requires=("oars",)),
    Bundle("skiff", "1.0.0", needs=("Sail",)),
    Bundle("tug", "1.0.0", ships=(("monitoring.coreos.com/v1", "ServiceMonitor"),)),
)
PLAN_FAILS_SECONDS = 2 * SECONDS  # OLM tries a plan again for a minute before it gives it up
ACCOUNT = "system:serviceaccount:olmweb:olmweb"
PERSON, GROUP_OF_PERSON = "operator", "olmweb-operators"
ADD_PERSON = f"""
from django.contrib.auth.models import Group, User
made = User.objects.create_user("{PERSON}", password="{steps.PASSWORDS[PERSON]}")
made.groups.add(Group.objects.get(name="{GROUP_OF_PERSON}"))
"""


def own_address() -> str:
    """Of this machine and not loopback: no cluster's object may send OLM Web there."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        try:
            asked.connect(("192.0.2.1", 9))  # of documentation; a datagram socket sends nothing
        except OSError:
            reason = "this machine has no address but that of loopback"
            if "olm" in required():
                pytest.fail(f"olm is required: {reason}")
            pytest.skip(reason)
        return str(asked.getsockname()[0])


@contextmanager
def pier(olm: World) -> Iterator[None]:
    """A CatalogSource of these tests' own, beside the one that all stories share."""
    with folder("pier") as catalog:
        write_catalog(catalog, BUNDLES)
        with opm_serve(catalog) as opm:
            address = f"{own_address()}:{opm.port}"
            source = olm.catalog_source(CATALOG, olm.olm.namespace, address)
            yield
            olm.kubectl.delete(source)


def grant(kubectl: Client) -> None:
    """What the project ships for reading, impersonating and writing, and nothing else."""
    for thing in yaml.safe_load_all((ROOT / "deploy" / "kubernetes" / "rbac.yaml").read_text()):
        namespace = thing["metadata"].get("namespace")
        if namespace:
            ensure_namespace(kubectl, namespace)
        kubectl.apply(thing)


def add_person(where: Path) -> None:
    environment = {**os.environ, "OLMWEB_DATA_DIR": str(where)}
    command = [sys.executable, "manage.py", "shell", "-v", "0", "-c", ADD_PERSON]
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)


@pytest.fixture(scope="module")
def product(olm: World) -> Iterator[Product]:
    """The product with a ServiceAccount's token, writing as the signed-in person."""
    with pier(olm), product_folder() as where:
        grant(olm.kubectl)
        token = service_account_token(olm.kubectl, "olmweb", "olmweb")
        kubeconfig = olm.server.write_kubeconfig(where / "kubeconfig", token=token)
        environment = {
            "KUBECONFIG": str(kubeconfig),
            "OLMWEB_CLUSTERS": "real=real",
            "OLMWEB_ADMIN_PASSWORD": steps.ADMIN_PASSWORD,
            "OLMWEB_GRPC_HOSTS": own_address(),  # no pod network: opm runs on this host
        }
        with serve(where, environment) as running:
            add_person(where)
            yield running


def open_form(page: Page, package: str, mode: str = "", **fields: str) -> Locator:
    """The install form of a Subscription with the installation mode (all or own) and these fields;
    returns its part with the verdict."""
    page.goto(f"/software/real/{CATALOG}/{package}/install?path=Subscription&targets={mode}")
    what = page.get_by_role("region", name="Installation", exact=True)
    wait_until(lambda: is_judged(page, what), f"{package} judged", SECONDS, pause=1)
    for label, value in fields.items():
        field = page.get_by_label(label, exact=True)
        if field.evaluate("one => one.tagName") == "SELECT":
            field.select_option(value)
        else:
            field.fill(value)
    return what


def is_judged(page: Page, what: Locator) -> bool:
    """The worker judges a catalog some seconds after it was read; a form doesn't poll for it."""
    page.reload()
    expect(what).to_contain_text("From catalog")
    return "Not evaluated yet" not in what.inner_text()


def review(page: Page) -> None:
    page.get_by_role("button", name=re.compile("^Review( first)?$")).click()
    expect(page.get_by_text("Dry run passed")).to_be_visible()


def confirm(page: Page, word: str) -> Locator:
    """From a review that passed to the outcome; returns the region that says it."""
    page.get_by_role("button", name=word, exact=True).click()
    page.wait_for_url("**/activity/actions/*")
    return page.get_by_role("region", name="Outcome")


def open_operator(page: Page, namespace: str, name: str) -> Locator:
    page.goto(f"/operators/real/Subscription/{namespace}/{name}")
    return page.get_by_role("region", name="What happened")


def play_node_until(olm: World, namespace: str, csv: str) -> None:
    """The pods come up whenever OLM has written a Deployment anew, until the CSV has succeeded."""
    olm.csv(namespace, csv, "Installing")

    def has_succeeded() -> bool:
        olm.play_node(namespace)
        found = olm.kubectl.get(V1ALPHA1, "ClusterServiceVersion", csv, namespace)
        return found["status"]["phase"] == "Succeeded"

    wait_until(has_succeeded, f"{csv} Succeeded", SECONDS, pause=1)


def approve(page: Page, olm: World, namespace: str, csv: str) -> None:
    """From the operator's page over what the plan carries to the new version's success."""
    page.get_by_role("link", name="Approve", exact=True).click()
    carried = page.get_by_role("region", name="Contents of the InstallPlan")
    expect(carried).to_contain_text(csv)
    expect(carried).to_contain_text("ClusterServiceVersion")
    review(page)
    outcome = confirm(page, "Approve")
    play_node_until(olm, namespace, csv)
    expect(outcome).to_contain_text("completed", timeout=steps.OUTCOME_MS)


def test_install_approve_upgrade_approve_and_remove(new_page, olm: World) -> None:
    namespace = "cranes"
    page = new_page()
    steps.sign_in(page, PERSON, "/software/")
    expect(page.get_by_role("link", name="Crane Operator")).to_be_visible(timeout=steps.OUTCOME_MS)

    open_form(page, "crane", Namespace=namespace, Channel="stable")
    page.get_by_role("radio", name="Manual").check()
    review(page)
    what = page.get_by_role("region", name="Installation", exact=True)
    expect(what).to_contain_text("crane.v1.0.0")
    expect(what).to_contain_text("Installable")
    outcome = confirm(page, "Install")
    expect(outcome).to_contain_text("requires approval", timeout=steps.OUTCOME_MS)
    assert not olm.kubectl.list(V1ALPHA1, "ClusterServiceVersion", namespace)

    expect(open_operator(page, namespace, "crane")).to_contain_text("Needs approval")
    approve(page, olm, namespace, "crane.v1.0.0")
    expect(open_operator(page, namespace, "crane")).to_contain_text("version 1.0.0")

    steps.choose_action(page, "Change channel or approval")
    page.get_by_label("Channel", exact=True).select_option("fast")
    review(page)
    expect(page.get_by_role("main")).to_contain_text("Upgrade path: crane.v1.0.0 to crane.v1.1.0.")
    target = page.get_by_role("row").filter(has_text="crane.v1.1.0")
    expect(target).to_contain_text("Installable")
    outcome = confirm(page, "Upgrade")
    expect(outcome).to_contain_text("requires approval", timeout=steps.OUTCOME_MS)
    assert olm.csv(namespace, "crane.v1.0.0", "Succeeded")
    open_operator(page, namespace, "crane")
    approve(page, olm, namespace, "crane.v1.1.0")
    open_operator(page, namespace, "crane")
    expect(page.get_by_role("region", name="Version and catalog")).to_contain_text("1.1.0")

    steps.choose_action(page, "Remove")
    page.get_by_label("I understand that these resources will be deleted").check()
    outcome = confirm(page, "Remove")
    expect(outcome).to_contain_text("is removed", timeout=steps.OUTCOME_MS)
    for kind in ("Subscription", "ClusterServiceVersion"):
        assert not olm.kubectl.list(V1ALPHA1, kind, namespace)
    crds = "apiextensions.k8s.io/v1"
    assert olm.kubectl.find(crds, "CustomResourceDefinition", f"cranes.{GROUP}"), "they stay"


def test_what_is_foretold_to_fail_fails_with_the_reason_that_was_foretold(
    new_page, olm: World
) -> None:
    page = new_page()
    steps.sign_in(page, PERSON, "/software/")
    stories = (
        ("dinghy", "all", "fail with UnsupportedOperatorGroup", "UnsupportedOperatorGroup"),
        ("ferry", "own", f"the CRD oars.{GROUP} is required", f"oars.{GROUP}"),
        ("skiff", "own", "Sail", "A required operator is missing"),
    )
    for package, watches, foretold, _ in stories:
        what = open_form(page, package, mode=watches, Namespace=f"{package}s")
        review(page)
        expect(what).to_contain_text("Not installable")
        expect(what).to_contain_text(foretold)
        confirm(page, "Install")
    for package, _, _, seen in stories:
        page.goto("/operators/")  # until a sync has seen the Subscription, it has no page
        row = page.get_by_role("link", name=package, exact=True).first
        expect(row).to_be_visible(timeout=steps.OUTCOME_MS)
        told = open_operator(page, f"{package}s", package)
        expect(told).to_contain_text(seen, timeout=steps.OUTCOME_MS)
    failed = olm.csv("dinghys", "dinghy.v1.0.0", "Failed", "UnsupportedOperatorGroup")
    assert failed


def test_a_plan_that_failed_for_a_kind_that_came_later_is_tried_again_by_retry(
    new_page, olm: World
) -> None:
    namespace, csv = "tugs", "tug.v1.0.0"
    page = new_page()
    steps.sign_in(page, PERSON, "/software/")
    what = open_form(page, "tug", mode="own", Namespace=namespace)
    expect(what).to_contain_text("ServiceMonitor")
    review(page)
    confirm(page, "Install")
    plan = olm.install_plan(namespace, csv)["metadata"]
    wait_until(
        lambda: olm.install_plan(namespace, csv)["status"]["phase"] == "Failed",
        "the InstallPlan Failed",
        PLAN_FAILS_SECONDS,
    )
    told = open_operator(page, namespace, "tug")
    expect(told).to_contain_text("a kind that is not served here", timeout=steps.OUTCOME_MS)
    monitors = crd("servicemonitors", "ServiceMonitor", "monitoring.coreos.com")
    olm.kubectl.create(monitors)
    try:
        steps.choose_action(page, "Retry")
        main = page.get_by_role("main")
        expect(main).to_contain_text(f"DELETE InstallPlan {namespace}/{plan['name']}")
        expect(main).to_contain_text(f"DELETE Subscription {namespace}/tug")
        review(page)
        assert olm.subscription(namespace, "tug")["status"]["installPlanRef"]["uid"] == plan["uid"]
        outcome = confirm(page, "Retry")
        play_node_until(olm, namespace, csv)
        expect(outcome).to_contain_text("tug is healthy", timeout=steps.OUTCOME_MS)
        assert olm.kubectl.list("monitoring.coreos.com/v1", "ServiceMonitor", namespace)
    finally:
        olm.kubectl.delete(monitors)


def test_the_servers_log_names_the_person_on_every_write(olm: World) -> None:
    writes = [one for one in olm.server.audit_events() if _is_our_write(one)]
    assert {one.get("impersonatedUser", {}).get("username") for one in writes} == {PERSON}
    assert all(GROUP_OF_PERSON in one["impersonatedUser"]["groups"] for one in writes)
    assert all("olmweb" in one["userAgent"] for one in writes)
    kept = {_what(one) for one in writes if "dryRun" not in one["requestURI"]}
    assert kept >= {
        ("patch", "namespaces"),
        ("patch", "operatorgroups"),
        ("patch", "subscriptions"),
        ("patch", "installplans"),
        ("delete", "subscriptions"),
        ("delete", "clusterserviceversions"),
        ("delete", "installplans"),
    }


def _is_our_write(event: Object) -> bool:
    return event["user"]["username"] == ACCOUNT and event["verb"] not in ("get", "list", "watch")


def _what(event: Object) -> tuple[Any, Any]:
    return event["verb"], event["objectRef"]["resource"]
