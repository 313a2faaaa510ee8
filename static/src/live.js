// Keeps open pages current. The server tells by one stream of events that rows behind the page
// changed; each live element then asks for itself. Where no events arrive, it asks every few seconds.

const RECONNECT = 30_000; // after the server refused the stream; a lost one the browser reopens
const SILENCE = 40_000; // longer than two heartbeats
const TURN = 250;

let source = null;
let address = "";
let opened = 0;
let heard = 0; // when the last event arrived; 0: none of this connection
const due = new Set(); // ids of the elements that have to ask
const asking = new Set();
const polls = new Map(); // id -> when to ask without events

function elements() {
  return [...document.querySelectorAll("[data-live]")];
}

// A fragment in use is not swapped away under the reader. A box without a name selects others.
function inUse(element) {
  const selection = document.getSelection();
  const selecting =
    selection && !selection.isCollapsed && element.contains(selection.anchorNode);
  const boxes = [...element.querySelectorAll("input[type=checkbox][name]")];
  return selecting || boxes.some((box) => box.checked !== box.defaultChecked);
}

function ask() {
  if (document.hidden) return;
  for (const element of elements()) {
    if (!due.has(element.id) || asking.has(element.id) || inUse(element)) continue;
    element.dispatchEvent(new CustomEvent("olm:changed"));
  }
}

function hear(event) {
  heard = Date.now();
  const { synced, of } = JSON.parse(event.data);
  document.dispatchEvent(new CustomEvent("olm:seen", { detail: synced }));
  return of;
}

function close() {
  source?.close();
  source = null;
  address = "";
  heard = 0;
}

// One stream for the topics of all live elements; none for a page in the background, as a browser
// opens few connections to one host.
function follow() {
  const topics = new Set(elements().flatMap((element) => element.dataset.live.split(" ")));
  const query = new URLSearchParams([...topics].sort().map((topic) => ["of", topic]));
  const wanted = topics.size && !document.hidden ? `${document.body.dataset.events}?${query}` : "";
  if (wanted === address) return;
  close();
  if (!wanted) return;
  address = wanted;
  opened = Date.now();
  source = new EventSource(wanted);
  source.addEventListener("changed", (event) => {
    const topics = hear(event);
    for (const element of elements()) {
      if (topics.some((topic) => element.dataset.live.split(" ").includes(topic))) due.add(element.id);
    }
    ask();
  });
  source.addEventListener("synced", hear);
  source.addEventListener("error", () => {
    heard = 0;
  });
}

function turn() {
  const now = Date.now();
  const refused = source?.readyState === EventSource.CLOSED && now - opened > RECONNECT;
  if (refused || (heard && now - heard > SILENCE)) close();
  follow();
  for (const element of elements()) {
    const wait = element.dataset.seconds * 1000 * (0.9 + Math.random() / 5); // not all pages at once
    if (heard || !polls.has(element.id)) polls.set(element.id, now + wait);
    else if (now > polls.get(element.id)) {
      polls.set(element.id, now + wait);
      due.add(element.id);
    }
  }
  ask();
}

document.addEventListener("htmx:beforeRequest", (event) => {
  const element = event.detail.elt;
  if (!element.matches("[data-live]")) return;
  due.delete(element.id);
  asking.add(element.id);
});
// What was ticked or selected while the answer was under way stays; the element asks again later.
document.addEventListener("htmx:beforeSwap", (event) => {
  const element = event.detail.requestConfig.elt;
  if (!element.matches("[data-live]") || !inUse(element)) return;
  event.detail.shouldSwap = false;
  due.add(element.id);
});
document.addEventListener("htmx:afterRequest", (event) => {
  const { id } = event.detail.requestConfig.elt; // detail.elt is its parent once it was replaced
  if (asking.delete(id) && !event.detail.successful) due.add(id);
});
document.addEventListener("visibilitychange", follow);
window.addEventListener("pagehide", close);
setInterval(turn, TURN);
turn();
