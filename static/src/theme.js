// Runs in <head> before the first paint: the theme that the server set for the account, else the one
// chosen in this browser, else the system's.
(() => {
  const root = document.documentElement;
  const saved = root.classList.contains("olm-theme-set");
  root.classList.add("olm-theme-set", "olm-js");
  if (saved) return;
  let chosen = null;
  try {
    chosen = localStorage.getItem("olmweb-theme");
  } catch {
    // Storage may be forbidden; then the system's preference decides on every page.
  }
  const dark = chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.classList.toggle("pf-v6-theme-dark", dark);
})();
