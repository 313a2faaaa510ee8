// Results below the search box of every page while one types: a combobox whose list htmx fills.
// Without this script the box is a form that leads to the page of results.

const input = document.getElementById("global-search");
const list = document.getElementById("search-results");

const options = () => [...list.querySelectorAll("[role=option]")];
const selected = () => list.querySelector("[aria-selected=true]");

function select(option) {
  selected()?.setAttribute("aria-selected", "false");
  option?.setAttribute("aria-selected", "true");
  option?.scrollIntoView({ block: "nearest" });
  if (option) input.setAttribute("aria-activedescendant", option.id);
  else input.removeAttribute("aria-activedescendant");
}

function show(open) {
  list.hidden = !open;
  input.setAttribute("aria-expanded", String(open));
  if (!open) select(null);
}

function move(step) {
  const all = options();
  if (!all.length) return;
  show(true);
  const at = all.indexOf(selected());
  select(all[at < 0 && step < 0 ? all.length - 1 : (at + step + all.length) % all.length]);
}

function pressed(event) {
  const option = selected();
  if (event.isComposing) return;
  if (event.key === "ArrowDown" || event.key === "ArrowUp") move(event.key === "ArrowDown" ? 1 : -1);
  else if (event.key === "Enter" && option) option.click();
  else if (event.key === "Escape" && !list.hidden) show(false);
  else return;
  event.preventDefault();
  event.stopPropagation();
}

if (input && list) {
  input.setAttribute("role", "combobox");
  input.setAttribute("aria-autocomplete", "list");
  input.setAttribute("aria-controls", list.id);
  show(false);
  input.addEventListener("keydown", pressed);
  input.form.addEventListener("focusout", (event) => {
    if (!input.form.contains(event.relatedTarget)) show(false);
  });
  // An answer to what was typed before the box was left, or changed, is of no use.
  list.addEventListener("htmx:beforeSwap", (event) => {
    const query = new URL(event.detail.xhr.responseURL).searchParams.get("q");
    if (document.activeElement !== input || query !== input.value) event.detail.shouldSwap = false;
  });
  list.addEventListener("htmx:afterSwap", () => {
    show(options().length > 0);
    const status = document.getElementById("announce");
    if (status) status.textContent = list.firstElementChild?.dataset.announce ?? "";
  });
}
