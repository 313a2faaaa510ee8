"""What journeys have in common: signing in, where an operator's pages are, following an action."""

from playwright.sync_api import Locator, Page, expect

PASSWORDS = {"admin": "demo-admin", "operator": "demo-operator", "viewer": "demo-viewer"}
# On a cluster of one's own: the first administrator's password is checked.
ADMIN_PASSWORD = "an anchor and its chain"
CATALOG = "/software/sandbox/redhat-operators"
OPERATOR = "/operators/sandbox/PlatformOperator/-"
AGGREGATED = "/cluster-operators/sandbox/platform-operators-aggregated"
# Sending, the sandbox's steps of a second each, the page's poll; generous for a busy machine.
OUTCOME_MS = 40_000
# A change comes by watch and a page polls every 1.2 s; generous for a busy machine.
SEEN_MS = 12_000

# Whether the focused element differs from itself without focus: its own look or that around it.
SHOWS_FOCUS = """() => {
  const element = document.activeElement;
  const look = () => [element, element.parentElement].flatMap((shown) =>
    ["", "::before", "::after"].map((part) => {
      const style = getComputedStyle(shown, part || null);
      const outline = style.outlineStyle === "none" ? "none" : style.outline;
      return [outline, style.boxShadow, style.borderBottom, style.border].join();
    })).join("\\n");
  for (const shown of [element, element.parentElement]) shown.classList.add("no-transition");
  const focused = look();
  const box = element.getBoundingClientRect();
  const inside = box.width > 1 && box.bottom > 0 && box.top < innerHeight
    && box.right > 0 && box.left < innerWidth;
  element.blur();
  const blurred = look();
  element.focus({ focusVisible: true });
  return inside && focused !== blurred;
}"""

SETTLED = "() => !document.querySelector('.htmx-added, .htmx-settling, .htmx-swapping')"


def sign_in(page: Page, user: str, then: str = "/", *, password: str = "") -> None:
    """Signs a user in, by default with the demo's password, and lands on the page `then`."""
    page.goto(f"/login/?next={then}")
    page.get_by_label("User name").fill(user)
    page.get_by_label("Password").fill(password or PASSWORDS[user])
    page.get_by_role("main").get_by_role("button", name="Sign in", exact=True).click()
    expect(page).to_have_url(then)


def review_and_confirm(page: Page) -> None:
    """From an install form to the page of the action: dry run first, then for good."""
    page.get_by_role("button", name="Review", exact=True).click()
    expect(page.get_by_text("Dry run passed")).to_be_visible()
    page.get_by_role("button", name="Install", exact=True).click()
    page.wait_for_url("**/activity/actions/*")


def choose_action(page: Page, words: str) -> None:
    """An action on the page of an operator: its button, or its entry of the menu Actions."""
    link = page.get_by_role("link", name=words, exact=True)
    if not link.is_visible():
        page.get_by_role("main").locator("summary", has_text="Actions").click()
    link.click()


def follow_to(page: Page, word: str) -> None:
    """Waits until an action's page says its outcome; the page must update itself."""
    outcome = page.get_by_role("region", name="Outcome")
    expect(outcome.get_by_text(word, exact=True).first).to_be_visible(timeout=OUTCOME_MS)


def tab_to(page: Page, goal: Locator, *, limit: int = 90) -> None:
    """Presses Tab until `goal` has the focus; every stop on the way must show that it has it."""
    # Before its styles are there, a page has not followed its fragment yet: Tab begins at the top.
    page.wait_for_load_state()
    hidden = []
    for _ in range(limit):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement === document.body"):
            continue
        if not page.evaluate(SHOWS_FOCUS):
            hidden.append(page.evaluate("document.activeElement.outerHTML.slice(0, 160)"))
        if goal.evaluate("element => element === document.activeElement"):
            assert not hidden, f"focus is not visible on: {hidden}"
            return
    raise AssertionError(f"{limit} times Tab did not reach {goal}")


def press(page: Page, goal: Locator) -> None:
    """Presses Tab until the link or button has the focus, then Enter."""
    tab_to(page, goal)
    # htmx takes over what it swapped in a moment later; until then a form is a plain form.
    page.wait_for_function(SETTLED)
    page.keyboard.press("Enter")


def type_credentials(page: Page, user: str) -> None:
    """Signs a user of the demo in on the open sign-in page, with the keyboard alone."""
    tab_to(page, page.get_by_label("User name"))
    page.keyboard.type(user)
    tab_to(page, page.get_by_label("Password"), limit=1)
    page.keyboard.type(PASSWORDS[user])
    page.keyboard.press("Enter")
