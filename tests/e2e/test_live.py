"""An open page follows the cluster by itself, and costs nothing while nothing changes."""

import re
from collections.abc import Iterator
from contextlib import suppress
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Page, Response, expect

from olmweb.kube.client import KubeClient
from olmweb.kube.errors import NotFound
from olmweb.kube.resources import PLATFORM_OPERATORS
from olmweb.kube.session import open_client
from tests.e2e import steps
from tests.e2e.product import Product

pytestmark = pytest.mark.e2e

VERSION = "v1alpha1"
NAME = "tracing-demo"
MANIFEST = {
    "apiVersion": "platform.openshift.io/v1alpha1",
    "kind": "PlatformOperator",
    "metadata": {"name": NAME},
    "spec": {"package": {"name": NAME}},
}


@pytest.fixture
def cluster(product: Product) -> Iterator[KubeClient]:
    """The demo's cluster, as somebody at a terminal would change it."""
    client = open_client("sandbox", str(product.folder / "kubeconfig"))
    with client:
        yield client
        with suppress(NotFound):
            client.delete(PLATFORM_OPERATORS, VERSION, NAME)


def open_at_rest(page: Page) -> tuple[Response, list[str]]:
    """Opens the list, again while the change of an earlier test still arrives.

    Returns the answer that nothing has changed since, and the addresses requested until then. In
    the following 4 s, of three polls, the page requested nothing.
    """
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    for _ in range(5):
        requested.clear()
        with page.expect_response(lambda answer: "rev=" in answer.url) as answer:
            page.goto(f"/operators/?view=all&q={NAME}")
        loaded = list(requested)
        requested.clear()
        page.wait_for_timeout(4_000)
        if answer.value.status == 204 and not requested:
            return answer.value, loaded
    raise AssertionError(f"the page is never at rest: {requested}")


def test_an_open_list_shows_what_comes_and_goes_without_a_reload(new_page, cluster) -> None:
    page = new_page()
    page.goto(f"/operators/?view=all&q={NAME}")
    loads: list[str] = []
    page.on("domcontentloaded", lambda loaded: loads.append(loaded.url))
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name=NAME))
    expect(row).to_have_count(0)

    cluster.apply(PLATFORM_OPERATORS, VERSION, MANIFEST, field_manager="terminal")
    expect(row).to_be_visible(timeout=steps.SEEN_MS)

    cluster.delete(PLATFORM_OPERATORS, VERSION, NAME)
    expect(row).to_have_count(0, timeout=steps.SEEN_MS)
    assert not loads


def test_a_fold_that_the_reader_closed_stays_closed_when_the_list_changes(
    new_page, cluster
) -> None:
    page = new_page()
    page.goto("/operators/")
    fold = page.locator("details[id^=fix-]").first
    expect(fold).to_have_attribute("open", "")
    fold.get_by_text("Remedy", exact=True).click()
    expect(fold).not_to_have_attribute("open", "")
    before = page.locator("#live").get_attribute("hx-get")

    cluster.apply(PLATFORM_OPERATORS, VERSION, MANIFEST, field_manager="terminal")
    expect(page.locator("#live")).not_to_have_attribute(
        "hx-get", before or "", timeout=steps.SEEN_MS
    )
    expect(fold).not_to_have_attribute("open", "")


def test_a_page_at_rest_asks_once_and_is_then_told_by_events(new_page, cluster) -> None:
    page = new_page()
    answer, loaded = open_at_rest(page)
    assert answer.headers.get("content-length", "0") == "0"
    # Told with it: when the cluster was last heard from, which the masthead counts from.
    assert "olm:seen" in answer.headers["hx-trigger"]
    streams = [url for url in loaded if "/events/" in url]
    assert [url.partition("?")[2] for url in streams] == ["of=clusters"]

    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name=NAME))
    cluster.apply(PLATFORM_OPERATORS, VERSION, MANIFEST, field_manager="terminal")
    expect(row).to_be_visible(timeout=steps.SEEN_MS)
    # The icon of the new row is the only other request.
    assert [url for url in requested if "rev=" not in url and "/icons/" not in url] == []


def test_a_page_without_events_polls(new_page, cluster) -> None:
    page = new_page()
    page.route("**/events/**", lambda route: route.fulfill(status=204, body=""))
    page.goto(f"/operators/?view=all&q={NAME}")
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name=NAME))
    cluster.apply(PLATFORM_OPERATORS, VERSION, MANIFEST, field_manager="terminal")
    expect(row).to_be_visible(timeout=steps.SEEN_MS)


def test_a_reader_at_work_is_not_interrupted_and_sees_the_change_afterwards(
    new_page, cluster
) -> None:
    page = new_page()
    open_at_rest(page)
    page.evaluate("() => getSelection().selectAllChildren(document.querySelector('#live'))")
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name=NAME))
    with page.expect_event("request", lambda request: "rev=" in request.url, timeout=30_000):
        cluster.apply(PLATFORM_OPERATORS, VERSION, MANIFEST, field_manager="terminal")
        page.wait_for_timeout(3_000)
        expect(row).to_have_count(0)
        page.evaluate("() => getSelection().removeAllRanges()")
    expect(row).to_be_visible(timeout=steps.SEEN_MS)


def test_the_box_of_all_rows_does_not_stop_updates(new_page, cluster) -> None:
    page = new_page()
    cluster.apply(PLATFORM_OPERATORS, VERSION, MANIFEST, field_manager="terminal")
    steps.sign_in(page, "operator")
    page.goto(f"/operators/?view=all&q={NAME}")
    box = page.locator("main [name=operator]")
    expect(box).to_have_count(1, timeout=steps.SEEN_MS)
    # As Cancel of a bulk change leads back: the server ticked the row, the script the box of all.
    ticked = urlencode({"operator": box.get_attribute("value")})
    page.goto(f"/operators/?view=all&q={NAME}&{ticked}")
    expect(box).to_be_checked()
    expect(page.get_by_label("Select all rows")).to_be_checked()

    cluster.delete(PLATFORM_OPERATORS, VERSION, NAME)
    expect(box).to_have_count(0, timeout=steps.SEEN_MS)


def test_how_long_a_failure_lasts_is_counted_in_the_words_of_the_server(new_page) -> None:
    page = new_page()
    page.goto(f"{steps.OPERATOR}/advanced-cluster-management")
    told = page.locator("time[data-ago=lasting]")
    expect(told).to_have_text(re.compile(r"^\d+ h$"))
    # Set in each frame: the server may replace the element in between.
    page.wait_for_function(
        """() => {
          const told = document.querySelector("time[data-ago=lasting]");
          told.dateTime = "2020-01-01T00:00:00Z";
          return /^\\d{4} d$/.test(told.textContent);
        }"""
    )


def test_a_tick_made_while_an_update_is_under_way_stays(new_page) -> None:
    page = new_page()
    steps.sign_in(page, "operator", "/operators/?view=all")
    changed = re.compile(r"rev=[^&]*")
    page.route(changed, lambda route: route.continue_(url=changed.sub("rev=", route.request.url)))
    tick = page.get_by_role("main").get_by_role(
        "checkbox", name="Select advanced-cluster-management"
    )
    button = page.get_by_role("button", name="Retry", exact=True)
    expect(button).to_be_disabled()

    def is_update(response: Response) -> bool:
        """An update from before the route is answered with 204."""
        return "/operators/?view=all&rev=" in response.url and response.status == 200

    with page.expect_response(is_update):
        # Found and ticked in one turn: another update could replace it in between.
        page.evaluate(
            """() => {
              const name = "Select advanced-cluster-management";
              const box = document.querySelector(`main input[aria-label="${name}"]`);
              box.closest("[data-live]").dispatchEvent(new CustomEvent("olm:changed"));
              box.click();
            }"""
        )
    page.wait_for_timeout(500)  # for a swap that must not be
    expect(tick).to_be_checked()
    expect(button).to_be_enabled()
