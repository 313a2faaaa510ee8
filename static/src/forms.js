// A form that shows the plan of its values (it has a button [data-edit]) follows what is entered:
// what was reviewed can no longer be confirmed, and after a pause the server shows the new plan.

const PAUSE = 400; // ms without input

let timer = 0;
let edited = false; // since the form's last request was sent

function disableConfirm(form) {
  for (const button of form.querySelectorAll("button[value=confirm]")) button.disabled = true;
}

function update(button) {
  if (!button.isConnected) return;
  if (button.form.classList.contains("htmx-request")) schedule(button, PAUSE);
  else button.click(); // htmx sends the name and value of clicked buttons only
}

function schedule(button, pause) {
  clearTimeout(timer);
  timer = setTimeout(update, pause, button);
}

document.addEventListener("input", (event) => {
  const button = event.target.form?.querySelector("[data-edit]");
  if (!button) return;
  edited = true;
  disableConfirm(button.form);
  schedule(button, PAUSE);
});

// A form that is replaced between the press and the release of a button loses the click.
document.addEventListener("pointerdown", (event) => {
  const pressed = event.target.closest("button[type=submit]");
  const button = pressed?.form?.querySelector("[data-edit]");
  if (edited && button && !pressed.disabled) schedule(button, 3 * PAUSE);
});

document.addEventListener("htmx:beforeRequest", (event) => {
  if (!event.detail.elt.querySelector("[data-edit]")) return;
  clearTimeout(timer);
  edited = false;
});

// An answer to what was entered before would overwrite what is being entered.
document.addEventListener("htmx:beforeSwap", (event) => {
  if (edited && event.detail.target?.querySelector("[data-edit]")) event.detail.shouldSwap = false;
});
document.addEventListener("htmx:afterRequest", (event) => {
  const form = event.detail.elt;
  if (edited && form.isConnected && form.querySelector("[data-edit]")) disableConfirm(form);
});

// The buttons of a form [data-ticks] act on ticked rows, whose boxes have that name and may be
// anywhere on the page. A row lists the values of the buttons with a description that it allows;
// one that no ticked row allows shows its description.
function rowsOf(form) {
  const boxes = [...form.elements].filter((field) => field.name === form.dataset.ticks);
  return boxes.filter((box) => !box.disabled);
}

function followTicks() {
  for (const form of document.querySelectorAll("form[data-ticks]")) {
    const rows = rowsOf(form);
    const ticked = rows.filter((field) => field.checked);
    for (const button of [...form.elements].filter((field) => field.type === "submit")) {
      const reason = document.getElementById(`${form.id}-${button.value}`);
      const allowed = reason
        ? ticked.some((box) => (box.dataset.for ?? "").split(" ").includes(button.value))
        : ticked.length > 0;
      button.disabled = !allowed;
      if (!reason) continue;
      reason.hidden = allowed || !ticked.length;
      button.setAttribute("aria-describedby", reason.id);
    }
    const all = document.querySelector(`[data-tick-all="${form.id}"]`);
    if (!all) continue;
    all.checked = ticked.length === rows.length;
    all.indeterminate = ticked.length > 0 && !all.checked;
  }
}

document.addEventListener("change", ({ target }) => {
  const form = document.getElementById(target.dataset.tickAll);
  if (form) for (const field of rowsOf(form)) field.checked = target.checked;
});

for (const event of ["change", "htmx:afterSettle", "htmx:historyRestore"]) {
  document.addEventListener(event, followTicks);
}
window.addEventListener("pageshow", followTicks);
followTicks();
