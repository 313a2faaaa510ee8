"""What only a browser can tell: where things stand on a page."""

import re
from itertools import pairwise

import pytest
from django.template.loader import get_template
from playwright.sync_api import expect

from installs.queries.operator_table import OPERATORS
from tests.e2e.screenshots import ACCOUNT_PAGES, PAGES
from tests.e2e.steps import sign_in

pytestmark = pytest.mark.e2e


def test_the_button_of_the_audit_stands_on_the_line_of_what_it_is_about(new_page) -> None:
    page = new_page(viewport={"width": 1280, "height": 900})
    page.goto("/audit/")
    form = page.locator("main form.olm-filters").first
    select = form.get_by_label("Catalog").bounding_box()
    button = form.get_by_role("button", name="Audit").bounding_box()
    assert select
    assert button
    assert abs(select["y"] + select["height"] / 2 - button["y"] - button["height"] / 2) < 2


# Whether a choice is wider than the field that shows it.
CLIPPED = """select => {
  const width = select.getBoundingClientRect().width;
  for (const option of [...select.options]) if (!option.selected) option.remove();
  select.style.cssText = "width: max-content; max-width: none; flex: none";
  return width + 1 < select.getBoundingClientRect().width;
}"""


@pytest.mark.parametrize("width", [1440, 1280, 390])
def test_pickers_show_the_names_of_catalogs_and_clusters_in_full(new_page, width: int) -> None:
    page = new_page(viewport={"width": width, "height": 900})
    page.goto("/audit/?cluster=-")
    for picker in ("#audit-catalog", "#audit-cluster"):
        assert not page.locator(picker).evaluate(CLIPPED), picker
    page.goto(PAGES["compare"])
    for picker in ("select[name=from]", "select[name=to]"):
        assert not page.locator(picker).evaluate(CLIPPED), picker


def test_the_filters_of_a_catalogs_changes_stand_on_one_line(new_page) -> None:
    page = new_page(viewport={"width": 1280, "height": 900})
    page.goto(PAGES["catalog-changes"])
    form = page.locator(".olm-change-tools form")
    since = form.locator("select[name=since]").bounding_box()
    button = form.get_by_role("button", name="Show").bounding_box()
    assert since
    assert button
    assert abs(since["y"] + since["height"] - button["y"] - button["height"]) < 8


@pytest.mark.parametrize("width", [1440, 1280, 390])
def test_the_table_of_operators_fits_its_room_with_every_column(new_page, width: int) -> None:
    page = new_page(viewport={"width": width, "height": 900})
    columns = "&".join(f"columns={name}" for name in OPERATORS.names)
    page.goto(f"/operators/?view=all&{columns}")
    table = page.get_by_role("table", name="Installed operators")
    table.wait_for()
    room = "table => [table.scrollWidth, table.parentElement.clientWidth]"
    needed, there = table.evaluate(room)
    assert needed <= there
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_row_menu_and_the_columns_are_reached_by_keyboard(new_page) -> None:
    page = new_page(viewport={"width": 1280, "height": 900})
    page.goto("/operators/?view=all")
    columns = page.locator("#columns > summary")
    columns.focus()
    page.keyboard.press("Enter")
    page.get_by_label("Channel", exact=True).uncheck()
    page.get_by_role("button", name="Show columns").press("Enter")
    page.wait_for_url("**columns=name**")
    assert page.get_by_role("columnheader", name="Channel").count() == 0
    assert page.get_by_role("columnheader", name="Catalog").count() == 1


@pytest.mark.parametrize("user", ["", "operator"])
def test_what_to_know_and_do_about_a_failing_cluster_is_on_the_first_screen(
    new_page, user: str
) -> None:
    page = new_page(viewport={"width": 1280, "height": 800})
    if user:
        sign_in(page, user)
    page.goto("/")
    assert page.locator("#demo").is_visible()
    needed = "Needs your action" if user else "Needs action"
    for name in ("Health", "Cluster update", needed, "Causes"):
        box = page.get_by_role("region", name=name).bounding_box()
        assert box
        assert box["y"] + box["height"] <= 800, name


def test_the_status_report_prints_black_on_white_with_tables_and_without_navigation(
    new_page,
) -> None:
    page = new_page(viewport={"width": 680, "height": 1000}, color_scheme="dark")
    page.goto("/report/")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")  # as a browser does before it prints
    page.emulate_media(media="print")
    for name in ("navigation", "banner", "button"):
        assert not any(one.is_visible() for one in page.get_by_role(name).all()), name
    assert page.evaluate("document.documentElement.scrollWidth") <= 680
    for selector in ("h1", "td", "th", ".olm-muted", ".olm-label"):
        colors = """element => [getComputedStyle(element).color,
            getComputedStyle(element).backgroundColor]"""
        found = page.get_by_role("main").locator(selector).first.evaluate(colors)
        assert found == ["rgb(0, 0, 0)", "rgba(0, 0, 0, 0)"], selector
    cells = page.get_by_role("table", name="Causes on sandbox").locator("tbody tr").first
    tops = {box["y"] for cell in cells.locator("th, td").all() if (box := cell.bounding_box())}
    assert len(tops) == 1, "a row is a row"


def test_the_page_scrolls_below_the_masthead_and_not_the_window(new_page) -> None:
    page = new_page(viewport={"width": 390, "height": 844})
    page.goto("/")
    assert page.evaluate("document.documentElement.scrollHeight") == 844
    page.goto("/#tasks")
    expect(page.get_by_role("link", name="Install Tracing Demo")).to_be_in_viewport()
    expect(page.get_by_role("button", name="Navigation")).to_be_in_viewport()


# The reader of a phone scrolls five screens at most to the end of the longest pages.
@pytest.mark.parametrize(
    ("path", "folded"),
    [
        ("/audit/", "Predicted vs actual on sandbox"),
        ("/report/", "Causes"),
        ("/operators/?view=cause", "Remedy"),
        ("/", "Each change, newest first"),
        ("/software/?view=table", ""),
        ("/clusters/sandbox", "kinds, with state, events and requests of each"),
        (PAGES["compare"], "Only in redhat-operators"),
    ],
)
def test_long_parts_begin_folded_on_a_phone_only(new_page, path: str, folded: str) -> None:
    page = new_page(viewport={"width": 390, "height": 844})
    page.goto(path)
    summary = page.locator("main details > summary", has_text=folded).first
    fold = summary.locator("..")
    assert page.locator("main").evaluate("main => main.scrollHeight") < 5 * 844
    if not folded:
        return
    expect(fold).not_to_have_attribute("open", "")
    summary.focus()
    page.keyboard.press("Enter")
    expect(fold).to_have_attribute("open", "")
    page.set_viewport_size({"width": 1280, "height": 900})
    page.goto(path)
    expect(fold).to_have_attribute("open", "")


def test_folded_parts_of_the_report_are_printed(new_page) -> None:
    page = new_page(viewport={"width": 390, "height": 844})
    page.goto("/report/")
    causes = page.get_by_role("table", name="Causes on sandbox")
    expect(causes).to_be_hidden()
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    expect(causes).to_be_visible()


# Contrast of the icon of an alert to its background (WCAG 1.4.11: 3 to 1 at least).
ICON_CONTRAST = """tone => {
  const alert = document.createElement("div");
  alert.className = `pf-v6-c-alert pf-m-inline pf-m-${tone}`;
  alert.innerHTML = '<div class="pf-v6-c-alert__icon"></div>';
  document.querySelector("main").append(alert);
  const light = (color) => color.match(/[\\d.]+/g).slice(0, 3)
    .map((part) => part / 255).map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, index) => sum + c * [0.2126, 0.7152, 0.0722][index], 0);
  const [icon, ground] = [getComputedStyle(alert.firstChild).color,
    getComputedStyle(alert).backgroundColor].map(light);
  return (Math.max(icon, ground) + 0.05) / (Math.min(icon, ground) + 0.05);
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_icons_of_alerts_stand_out_in_both_themes(new_page, scheme: str) -> None:
    page = new_page(color_scheme=scheme)
    page.goto("/help/")
    for tone in ("success", "info", "warning", "danger"):
        assert page.evaluate(ICON_CONTRAST, tone) >= 3, tone


WIDTHS = (1440, 1280, 768, 390)
PUBLIC = tuple(name for name in PAGES if name != "missing")  # a 404 is an error in the console
# What does not fit, statuses on two lines, and targets that are too small (WCAG 2.5.8: 24 px, or
# 24 px of room around the centre, or a link within text), each as a sentence.
FAULTS = """() => {
  const faults = [], shown = (e) => e.checkVisibility({ visibilityProperty: true });
  const named = (e) => `${e.tagName.toLowerCase()}.${e.className?.baseVal ?? e.className} `
    + `“${(e.ariaLabel || e.innerText || e.name || "").trim().slice(0, 40)}”`;
  const wide = document.documentElement.scrollWidth;
  if (wide > innerWidth) faults.push(`the document is ${wide} px wide`);
  const main = document.querySelector(".pf-v6-c-page__main");
  if (main && main.scrollWidth > main.clientWidth)
    faults.push(`the main part is ${main.scrollWidth} px wide in ${main.clientWidth} px`);
  for (const table of document.querySelectorAll("main table")) {
    const room = table.parentElement.clientWidth;
    if (shown(table) && table.scrollWidth > room)
      faults.push(`table “${table.ariaLabel}” needs ${table.scrollWidth} px of ${room} px`);
  }
  for (const label of document.querySelectorAll(".olm-table .olm-label"))
    if (innerWidth >= 1280 && shown(label) && label.offsetHeight > 32
        && !label.closest(".olm-why, .olm-verdict-labels"))
      faults.push(`status “${label.innerText.trim()}” wraps`);
  const kinds = "a[href], button, input, select, textarea, summary";
  const targets = [...document.querySelectorAll(kinds)]
    .filter((e) => e.type !== "hidden" && shown(e)).map((e) => [e, e.getBoundingClientRect()])
    .filter(([, r]) => r.width > 1 && r.height > 1);
  const centre = (r) => [r.x + r.width / 2, r.y + r.height / 2];
  const inText = (e) => {
    const style = getComputedStyle(e);
    return e.tagName === "A" && style.display.startsWith("inline") && e.parentElement
      .innerText.trim().length > e.innerText.trim().length;
  };
  const small = ([e, r]) => (r.width < 23.9 || r.height < 23.9);
  for (const target of targets.filter(small)) {
    const [element, box] = target, [x, y] = centre(box);
    if (inText(element)) continue;
    const label = element.closest("label")?.getBoundingClientRect();
    if (label && label.width >= 24 && label.height >= 24) continue;
    const near = targets.some(([other, r]) => {
      if (other === element || other.contains(element) || element.contains(other)) return false;
      const dx = Math.max(r.left - x, 0, x - r.right), dy = Math.max(r.top - y, 0, y - r.bottom);
      if (Math.hypot(dx, dy) < 12) return true;
      const [cx, cy] = centre(r);
      return small([other, r]) && Math.hypot(cx - x, cy - y) < 24;
    });
    if (near)
      faults.push(`${named(element)} is ${Math.round(box.width)} x ${Math.round(box.height)} px`);
  }
  return faults;
}"""

# The navigation slides out of a page that becomes narrower.
STILL = """() => document.getAnimations()
  .every((one) => one.playState !== "running" || one.effect.getTiming().iterations === Infinity)"""


@pytest.mark.parametrize("names", [PUBLIC, tuple(ACCOUNT_PAGES)], ids=["public", "account"])
def test_every_page_fits_at_every_width_and_its_targets_can_be_hit(
    new_page, names: tuple[str, ...]
) -> None:
    page = new_page()
    if "install" in names:
        sign_in(page, "admin")
    faults = set()
    for name in names:
        page.goto((PAGES | ACCOUNT_PAGES)[name])
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            page.wait_for_function(STILL)
            faults |= {f"{name} at {width}: {fault}" for fault in page.evaluate(FAULTS)}
    assert not faults, "\n".join(sorted(faults))


# Words of tables that are broken between two letters or digits, where no part of a name ends.
BROKEN_WORDS = """() => {
  const broken = [], range = document.createRange();
  for (const table of document.querySelectorAll("main table")) {
    const walker = document.createTreeWalker(table, NodeFilter.SHOW_TEXT);
    for (let node; (node = walker.nextNode()); ) {
      if (!node.parentElement.checkVisibility() || node.parentElement.closest("pre")) continue;
      for (const word of node.data.matchAll(/[A-Za-z0-9]+/g)) {
        range.setStart(node, word.index);
        range.setEnd(node, word.index + word[0].length);
        const tops = new Set([...range.getClientRects()].map((box) => Math.round(box.top)));
        if (tops.size > 1) broken.push(word[0]);
      }
    }
  }
  return broken;
}"""


def test_tables_break_names_between_their_parts_only(new_page) -> None:
    """For an administrator, whose rows also have boxes to tick and menus."""
    page = new_page(viewport={"width": 1280, "height": 900})
    sign_in(page, "admin")
    for name in ("operators-all", "operators-second", "software-table", "crds", "cluster"):
        page.goto(PAGES[name])
        page.get_by_role("main").get_by_role("table").first.wait_for()
        assert page.evaluate(BROKEN_WORDS) == [], name
        assert page.evaluate(FAULTS) == [], name


def test_the_table_of_operators_fits_an_administrators_room_in_every_order(new_page) -> None:
    """Each order puts other names, kinds and pending updates on the first page."""
    page = new_page(viewport={"width": 1280, "height": 900})
    sign_in(page, "admin")
    table = page.get_by_role("table", name="Installed operators")
    tight = []
    for sort in (*OPERATORS.names, *(f"-{name}" for name in OPERATORS.names)):
        page.goto(f"/operators/?view=all&sort={sort}")
        table.wait_for()
        needed, there = table.evaluate("one => [one.scrollWidth, one.parentElement.clientWidth]")
        if needed > there:
            tight.append(f"{sort}: {needed} px of {there} px")
    assert not tight


def test_the_cause_of_a_failure_takes_two_lines_of_the_table_of_operators(new_page) -> None:
    page = new_page(viewport={"width": 1280, "height": 900})
    sign_in(page, "admin")
    page.goto(PAGES["operators-all"])
    causes = page.locator('.olm-operators td[data-label="Status"] > .olm-small')
    causes.first.wait_for()
    high = """causes => causes
      .filter((cause) => cause.offsetHeight > 2.5 * parseFloat(getComputedStyle(cause).lineHeight))
      .map((cause) => cause.textContent)"""
    assert causes.evaluate_all(high) == []


# Elements of the administration that are wider than the room inside of the one around them, less
# texts for screen readers, choices of a list, and regions that scroll.
INNER_OVERFLOW = """() => [...document.querySelectorAll("#container *")]
  .filter((element) => element.clientWidth > 1 && element.scrollWidth > element.clientWidth
    && !element.closest("select") && getComputedStyle(element).display !== "inline"
    && getComputedStyle(element).overflowX === "visible")
  .map((element) => `${element.tagName}#${element.id}.${element.className}`
    + ` ${element.scrollWidth} px in ${element.clientWidth} px`)"""


@pytest.mark.parametrize("width", [1440, 1280, 390])
def test_nothing_on_the_index_and_the_lists_of_the_administration_juts_out(
    new_page, width: int
) -> None:
    page = new_page(viewport={"width": width, "height": 900})
    sign_in(page, "admin")
    wide = []
    for path in ("/admin/", "/admin/auth/group/", *(f"/admin/{name}/" for name in ADMIN_LISTS)):
        page.goto(path)
        wide += [f"{path}: {fault}" for fault in page.evaluate(INNER_OVERFLOW)]
    assert not wide, "\n".join(wide)


# Lists of the administration that have rows in a demo, and pages of their first row.
ADMIN_LISTS = (
    *("auth/user", "catalogs/catalog", "installs/operator", "olmweb/auditevent"),
    *("olmweb/cluster", "olmweb/resourcewatch", "olmweb/syncrun"),
)


@pytest.mark.parametrize("width", [1280, 390])
def test_the_pages_of_the_administration_fit_their_room(new_page, width: int) -> None:
    """A list on a phone scrolls in its own region, never the window."""
    page = new_page(viewport={"width": width, "height": 900})
    sign_in(page, "admin")
    long = f"/{'a' * 40}" * 3
    wide = []
    for name in ADMIN_LISTS:
        page.goto(f"/admin/{name}/")
        problems = page.locator("#result_list .field-error_text")
        if problems.count():
            problems.first.evaluate("(cell, text) => (cell.textContent = text)", long)
        needed, room = page.locator(".results").evaluate(
            "list => [list.scrollWidth, list.clientWidth]"
        )
        if width > 1000 and needed > room:
            wide.append(f"{name}: {needed} px in {room} px")
        if page.evaluate("document.documentElement.scrollWidth") > width:
            wide.append(f"{name}: a long problem widens the window")
        first = page.locator("#result_list tbody th a").first.get_attribute("href")
        for path in (f"/admin/{name}/", first):
            page.goto(path)
            if page.evaluate("document.documentElement.scrollWidth") > width:
                wide.append(f"{path} is wider than the window")
            if not page.locator("#result_list").count():
                text = page.locator(".readonly").last
                if text.count():
                    text.evaluate("(line, text) => (line.textContent = text)", long)
                if page.evaluate("document.getElementById('content').scrollWidth") > width:
                    wide.append(f"{path}: a long value is not broken")
    assert not wide


# What the demo's longest pages take at most on a phone, in pixels.
LONGEST = {
    "operators": 6000,
    "operators-all": 3800,
    "crds": 3300,
    "compare": 1500,
    "cluster": 1500,
    "aggregated": 4000,
    "audit": 8000,
}


def test_the_longest_pages_are_folded_on_a_phone(new_page) -> None:
    page = new_page(viewport={"width": 390, "height": 844})
    for name, most in LONGEST.items():
        page.goto(PAGES[name])
        height = page.locator("#main").evaluate("main => main.scrollHeight")
        assert height <= most, f"{name} is {height} px high"


@pytest.mark.parametrize("width", [1280, 390])
def test_the_link_to_more_causes_leads_to_the_table_of_all_of_them(new_page, width: int) -> None:
    page = new_page(viewport={"width": width, "height": 800})
    page.goto("/")
    page.get_by_role("link", name=re.compile(r"^\d+ more causes")).click()
    page.wait_for_url("**view=cause**")
    causes = page.get_by_role("table", name="All causes").get_by_role("link")
    blocks = page.locator(".olm-cause-block")
    expect(causes).to_have_count(blocks.count())
    expect(causes.first).to_be_in_viewport()
    if width == 1280:
        expect(causes.last).to_be_in_viewport()
    name = causes.last.inner_text()
    causes.last.click()
    expect(blocks.last.get_by_role("heading", level=2)).to_contain_text(name)
    expect(blocks.last.locator("details").first).to_have_attribute("open", "")
    expect(blocks.last.get_by_role("heading", level=2)).to_be_in_viewport()


def test_a_link_to_the_remedy_of_a_cause_leads_to_it_unfolded(new_page) -> None:
    page = new_page(viewport={"width": 390, "height": 844})
    page.goto("/")
    links = page.get_by_role("region", name="Causes").get_by_role("link", name="View remedy")
    link = links.last
    name = (link.text_content() or "").partition(" for ")[2]
    link.click()
    page.wait_for_url("**view=cause**")
    cause = page.get_by_role("region", name=name)
    expect(cause).to_be_in_viewport()
    expect(cause.get_by_text("Remedy", exact=True)).to_be_visible()


def test_the_upgrade_graph_is_on_the_first_screen_of_its_tab(new_page) -> None:
    page = new_page(viewport={"width": 1280, "height": 800})
    page.goto(PAGES["package-channels"])
    box = page.locator(".olm-channel-graph").bounding_box()
    assert box
    assert box["y"] + min(box["height"], 200) <= 800


def test_the_upgrade_graph_has_scroll_bars_only_where_it_needs_them(new_page) -> None:
    page = new_page(viewport={"width": 1280, "height": 800})
    page.goto(PAGES["package-channels"])
    graph = page.locator(".olm-channel-graph")
    assert graph.evaluate("graph => getComputedStyle(graph).overflow") == "auto"


def test_facts_stand_beside_their_names_on_a_phone(new_page) -> None:
    page = new_page(viewport={"width": 390, "height": 844})
    page.goto(PAGES["operator-failed"])
    tops = page.locator(".olm-facts").last.evaluate(
        "list => [...list.children].map(child => Math.round(child.getBoundingClientRect().top))"
    )
    assert tops[::2] == tops[1::2]


def test_every_tab_of_a_package_is_in_sight_on_a_phone(new_page) -> None:
    page = new_page(viewport={"width": 390, "height": 844})
    page.goto(PAGES["package-installs"])
    ends = page.locator(".olm-package-tabs .olm-tab").evaluate_all(
        "tabs => tabs.map(tab => tab.getBoundingClientRect().right)"
    )
    assert len(ends) == 5
    assert max(ends) <= 390


@pytest.mark.parametrize("width", [1440, 1280, 390])
def test_the_fields_of_an_upgrade_path_show_long_bundle_names_in_full(new_page, width: int) -> None:
    page = new_page(viewport={"width": width, "height": 900})
    page.goto("/software/sandbox/redhat-operators/advanced-cluster-management?tab=channels")
    field = page.locator(".olm-route-form input[name=to]")
    expect(field).to_have_value(re.compile("advanced-cluster-management"))
    assert field.evaluate("field => field.scrollWidth <= field.clientWidth")


def test_long_names_of_the_audit_wrap_beside_their_boxes(new_page) -> None:
    page = new_page(viewport={"width": 1280, "height": 900})
    sign_in(page, "admin")
    page.goto("/audit/?catalog=sandbox/redhat-operators&path=PlatformOperator&cluster=sandbox")
    offsets = page.locator("th:has(> .olm-pick-package)").evaluate_all(
        """heads => heads.map(head => {
          const box = head.querySelector("input").getBoundingClientRect();
          const name = head.querySelector("a").getBoundingClientRect();
          return name.left - box.right;
        })"""
    )
    assert offsets
    assert min(offsets) >= 0


def test_long_names_of_packages_stay_in_their_column(new_page) -> None:
    page = new_page(viewport={"width": 1280, "height": 900})
    sign_in(page, "admin")
    page.goto("/software/?view=table")
    rooms = page.locator(".olm-packages tbody th").evaluate_all(
        """heads => heads.map(head => {
          const cell = head.querySelector(".olm-package-cell > div").getBoundingClientRect();
          return head.getBoundingClientRect().right - cell.right;
        })"""
    )
    assert rooms
    assert min(rooms) > 0
    table = page.get_by_role("table", name="Packages")
    assert table.evaluate("table => table.scrollWidth <= table.parentElement.clientWidth")


@pytest.mark.parametrize("name", ["400.html", "500.html"])
def test_pages_of_errors_without_a_shell_have_room_between_their_lines(new_page, name: str) -> None:
    page = new_page(viewport={"width": 1280, "height": 900})
    body = get_template(name).render()
    page.route("**/error", lambda route: route.fulfill(content_type="text/html", body=body))
    page.goto("/error")
    boxes = [line.bounding_box() for line in page.locator("main > *").all()]
    gaps = [below["y"] - above["y"] - above["height"] for above, below in pairwise(boxes)]
    assert len(gaps) == 3
    assert min(gaps) >= 8
    link = page.get_by_role("link", name="To the overview").bounding_box()
    assert link["height"] >= 24


def test_icons_of_the_administration_are_light_on_a_dark_page(new_page) -> None:
    page = new_page(viewport={"width": 1280, "height": 900}, color_scheme="dark")
    sign_in(page, "admin")
    page.goto("/admin/auth/group/add/")
    for name in (".selector-chooser button", ".search-label-icon", ".selector-chooseall"):
        for icon in page.locator(name).all():
            expect(icon).to_have_css("filter", "brightness(2)")
    page.goto("/admin/installs/allowrule/add/")
    expect(page.locator(".view-related").first).to_have_css("filter", "brightness(2)")


def test_a_time_of_the_administration_breaks_after_its_date_at_most(new_page) -> None:
    page = new_page(viewport={"width": 1280, "height": 900})
    sign_in(page, "admin")
    page.goto("/admin/olmweb/cluster/")
    cell = page.locator("#result_list .field-checked_at").first
    # With the widest digits, beside a column that takes all the room it can get.
    cell.evaluate("""cell => {
      cell.textContent = "2026-06-29 00:00:00 UTC";
      cell.previousElementSibling.textContent = "word ".repeat(200);
      cell.closest(".results").style.width = "40rem";
    }""")
    lines = cell.evaluate("""cell => {
      const range = document.createRange();
      range.selectNodeContents(cell);
      return new Set([...range.getClientRects()].map(box => Math.round(box.top))).size;
    }""")
    assert lines <= 2


def test_the_label_of_a_notice_is_as_wide_as_its_words_on_a_phone(new_page) -> None:
    page = new_page(viewport={"width": 390, "height": 844})
    page.goto("/operators/sandbox/ClusterExtension/-/queue")
    label = page.locator(".olm-note > .olm-label").first.bounding_box()
    assert label
    assert label["width"] < 200


def test_rows_of_the_lists_of_the_administration_are_low_on_a_phone(new_page) -> None:
    page = new_page(viewport={"width": 390, "height": 844})
    sign_in(page, "admin")
    page.goto("/admin/installs/operator/")
    heights = page.locator("#result_list tbody tr").evaluate_all(
        "rows => rows.map(row => row.getBoundingClientRect().height)"
    )
    assert sorted(heights)[len(heights) // 2] < 60
