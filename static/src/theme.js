// Runs in <head> before the first paint: the chosen theme, else the system's.
(() => {
  const root = document.documentElement;
  let chosen = null;
  try {
    chosen = localStorage.getItem("olmweb-theme");
  } catch {
    // Storage may be forbidden; then the system's preference decides on every page.
  }
  const dark = chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.classList.add("olm-theme-set", "olm-js");
  root.classList.toggle("pf-v6-theme-dark", dark);
})();
