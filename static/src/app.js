// Small helps on top of pages that work without any of them. No state of the application lives here.

import "./forms.js";
import "./live.js";
import "./search.js";

const root = document.documentElement;
const calm = matchMedia("(prefers-reduced-motion: reduce)");

function setTheme(dark) {
  root.classList.toggle("pf-v6-theme-dark", dark);
  try {
    localStorage.setItem("olmweb-theme", dark ? "dark" : "light");
  } catch {
    // Not kept: the page still changes.
  }
}

// Preferences say whether times are in the zone of the browser, which the server reads in a cookie.
const preferences = document.querySelector("form[data-preferences]");
if (preferences || root.dataset.zone) {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const secure = location.protocol === "https:" ? "; secure" : "";
  document.cookie = `olmweb_zone=${zone}; path=/; max-age=31536000; samesite=lax${secure}`;
}

// A theme that is saved for the account replaces the one chosen in this browser.
preferences?.addEventListener("submit", () => {
  try {
    localStorage.removeItem("olmweb-theme");
  } catch {
    // Storage may be forbidden; then nothing was chosen.
  }
});

function toggleNav(button) {
  const sidebar = document.getElementById("nav");
  const open = sidebar.classList.toggle("pf-m-expanded");
  button.setAttribute("aria-expanded", String(open));
  if (open) sidebar.querySelector("a").focus();
}

function showIcon(button, name) {
  const use = button.querySelector("use");
  use?.setAttribute("href", use.getAttribute("href").replace(/\w+$/, name));
}

async function copy(button) {
  const from = button.dataset.copyFrom && document.getElementById(button.dataset.copyFrom);
  const beside = from || button.previousElementSibling?.querySelector(".olm-fold-text") || button.previousSibling;
  const text = button.dataset.copy || beside.textContent;
  let done = true;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Pages on plain http have no clipboard API.
    const area = document.createElement("textarea");
    area.value = text;
    area.className = "pf-v6-screen-reader";
    document.body.append(area);
    area.select();
    done = document.execCommand("copy");
    area.remove();
    button.focus();
  }
  say(done ? "Copied" : "Copying is not allowed");
  if (done) {
    showIcon(button, "check");
    setTimeout(showIcon, 2000, button, "copy");
  }
}

function say(text) {
  const status = document.getElementById("announce");
  if (status) status.textContent = text;
}

function closeMenus(except) {
  for (const menu of document.querySelectorAll("details.olm-menu[open]")) {
    if (except && menu.contains(except)) continue;
    if (!except && menu.contains(document.activeElement)) menu.querySelector("summary").focus();
    menu.open = false;
  }
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-theme-toggle],[data-nav-toggle],[data-copy],[data-copy-from],[data-print],[data-dismiss]");
  closeMenus(event.target);
  if (!button) return;
  if ("themeToggle" in button.dataset) setTheme(!root.classList.contains("pf-v6-theme-dark"));
  else if ("navToggle" in button.dataset) {
    event.preventDefault();
    toggleNav(button);
  } else if ("print" in button.dataset) window.print();
  else if ("dismiss" in button.dataset) button.closest("[data-toast]").remove();
  else copy(button);
});

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") {
    closeMenus();
    const sidebar = document.getElementById("nav");
    const toggle = document.querySelector("[data-nav-toggle]");
    if (sidebar?.classList.contains("pf-m-expanded") && toggle) {
      toggleNav(toggle);
      toggle.focus();
    }
    return;
  }
  const typing = event.target.closest("input,textarea,select,[contenteditable]");
  const everything = document.getElementById("global-search");
  const wide = event.key === "k" && (event.ctrlKey || event.metaKey) && !event.altKey;
  const plain = event.key === "/" && !(typing || event.ctrlKey || event.metaKey || event.altKey);
  if (!wide && !plain) return;
  const search = wide ? everything : (document.querySelector("[data-search]") ?? everything);
  if (search) {
    event.preventDefault();
    search.focus();
    search.select();
  }
});

// A select marked so submits its form at once; the form has a button for when there is no script.
document.addEventListener("change", (event) => {
  if (event.target.matches("[data-submit]") && !event.target.closest("[hx-get]")) {
    event.target.form.requestSubmit();
  }
});

// Relative times keep counting; the server's words are the same: see olmweb.templatetags.olmweb.
const STEPS = [
  [60, 1, "s"],
  [3600, 60, "min"],
  [172800, 3600, "h"],
  [Infinity, 86400, "d"],
];

function ago(seconds) {
  const past = Math.max(0, Math.round(seconds));
  if (past < 1) return "now";
  const [, unit, word] = STEPS.find(([limit]) => past < limit);
  return `${Math.floor(past / unit)} ${word} ago`;
}

function tick() {
  for (const time of document.querySelectorAll("time[data-ago]")) {
    const past = ago((Date.now() - Date.parse(time.dateTime)) / 1000);
    const lasting = past === "now" ? "a moment" : past.replace(" ago", "");
    const text = time.dataset.ago === "lasting" ? lasting : past;
    if (time.textContent !== text) time.textContent = text;
  }
}
setInterval(tick, 1000);

// Polls and events tell when each cluster was last heard from, also when nothing else changed.
document.addEventListener("olm:seen", (event) => {
  for (const [name, at] of Object.entries(event.detail)) {
    for (const time of document.querySelectorAll("time[data-cluster]")) {
      if (time.dataset.cluster === name) time.dateTime = at;
    }
  }
});

// Details marked so begin folded on a phone; without a script, and on paper, they are open. The one
// that the address points into stays open.
const phone = matchMedia("(max-width: 47.99rem)");

function foldOnPhone(within) {
  if (!phone.matches) return;
  for (const fold of within.querySelectorAll("details[data-phone-fold]")) {
    if (!fold.matches(":target, :has(:target)")) fold.open = false;
  }
}
foldOnPhone(document);

// A cause that the address points to is open, and so are those below it: folded they would not fill
// the page, which then ends before the cause comes to its top.
function openPointedCause() {
  const pointed = document.querySelector(".olm-cause-block:target");
  for (let cause = pointed; cause; cause = cause.nextElementSibling) {
    for (const fold of cause.querySelectorAll(".olm-cause-fold")) fold.open = true;
  }
  pointed?.scrollIntoView();
}
window.addEventListener("load", openPointedCause);
window.addEventListener("hashchange", openPointedCause);

window.addEventListener("beforeprint", () => {
  for (const fold of document.querySelectorAll("details[data-phone-fold]")) fold.open = true;
});

// What replaced the target: the old element is gone by then. Restored history has no target.
function swapped(event) {
  const target = event.detail.target;
  return target && (document.getElementById(target.id) ?? target);
}

const kept = { rows: new Map(), open: new Set(), closed: new Set(), focus: null };

const words = (link) => link.firstElementChild.textContent;

// Returns a function that gets the focused link of the target after the swap. The URL of a filter
// changes when it is chosen, its words stay. Of elements with an id htmx keeps the focus itself.
function focusedLink(target) {
  const link = document.activeElement;
  if (!target.contains(link) || link.id || !link.matches("a[href]")) return null;
  if (link.matches(".olm-facet li a")) {
    const label = link.closest(".olm-facet").getAttribute("aria-labelledby");
    const text = words(link);
    return (swap) => [...swap.querySelectorAll(`[aria-labelledby="${label}"] li a`)].find((row) => words(row) === text);
  }
  const selector = `a[href="${CSS.escape(link.getAttribute("href"))}"]`;
  return (swap) => swap.querySelector(selector);
}

document.addEventListener("htmx:beforeSwap", (event) => {
  const target = event.detail.target;
  if (!target) return;
  kept.focus = focusedLink(target);
  kept.rows = new Map();
  for (const row of target.querySelectorAll("[data-key]")) kept.rows.set(row.dataset.key, row.dataset.rev);
  const folds = [...target.querySelectorAll("details[id]")];
  kept.open = new Set(folds.filter((fold) => fold.open).map((fold) => fold.id));
  kept.closed = new Set(folds.filter((fold) => !fold.open).map((fold) => fold.id));
});

document.addEventListener("htmx:afterSwap", (event) => {
  const target = swapped(event);
  if (!target) return;
  kept.focus?.(target)?.focus({ preventScroll: true });
  foldOnPhone(target);
  for (const fold of target.querySelectorAll("details[id]")) {
    if (kept.open.has(fold.id)) fold.open = true;
    else if (kept.closed.has(fold.id)) fold.open = false;
  }
  tick();
  if (calm.matches || !target.matches("[data-live]")) return;
  for (const row of target.querySelectorAll("[data-key]")) {
    if (kept.rows.size && kept.rows.get(row.dataset.key) !== row.dataset.rev) {
      row.classList.add("olm-flash");
    }
  }
});

// The next page no longer has the messages, such as the one on remembered filters.
document.addEventListener("htmx:beforeHistoryUpdate", () =>
  document.getElementById("messages").replaceChildren(),
);

// Errors say the server's own sentence; a poll that fails is told once, not at every poll.
let told = "";

function toast(title, text) {
  if (told === title + text) return;
  told = title + text;
  const template = document.getElementById("toast");
  const node = template.content.firstElementChild.cloneNode(true);
  node.querySelector("[data-title]").textContent = title;
  node.querySelector("[data-text]").textContent = text;
  document.getElementById("toasts").replaceChildren(node);
}

document.addEventListener("htmx:responseError", (event) => {
  const xhr = event.detail.xhr;
  if (xhr.status === 422) return;
  const page = new DOMParser().parseFromString(xhr.responseText, "text/html");
  const sentence = page.querySelector("[data-error]")?.textContent.trim();
  toast("The server refused this", sentence || `It answered ${xhr.status} ${xhr.statusText}.`);
});
document.addEventListener("htmx:sendError", () =>
  toast("No connection to OLM Web", "This page shows what was last received and keeps trying."),
);
document.addEventListener("htmx:afterRequest", (event) => {
  if (event.detail.successful && told) {
    document.getElementById("toasts").replaceChildren();
    told = "";
  }
});
document.addEventListener("htmx:afterSettle", (event) => {
  swapped(event)?.querySelector("[data-focus]")?.focus();
});
document.querySelector("[data-focus]")?.focus();
