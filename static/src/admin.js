// Theme of the admin pages, in <head> before the first paint, in place of Django's own script: the
// theme of the account, else the one chosen in this browser on any page, else the system's.
(() => {
  const root = document.documentElement;
  const ofAccount = document.currentScript.dataset.theme;
  let chosen = null;
  try {
    chosen = localStorage.getItem("olmweb-theme");
  } catch {
    // Storage may be forbidden; then the system's preference decides on every page.
  }
  const isDark = matchMedia("(prefers-color-scheme: dark)").matches;
  const isFixed = ofAccount === "light" || ofAccount === "dark";
  root.dataset.theme = isFixed ? ofAccount : (chosen ?? (isDark ? "dark" : "light"));
  document.addEventListener("DOMContentLoaded", () => {
    for (const button of document.querySelectorAll(".theme-toggle")) {
      button.hidden = isFixed;
      button.addEventListener("click", () => {
        root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
        try {
          localStorage.setItem("olmweb-theme", root.dataset.theme);
        } catch {
          // Chosen for this page only.
        }
      });
    }
  });
  // Django's script for choosing several makes these without a role, which makes their name void.
  window.addEventListener("load", () => setTimeout(() => {
    for (const icon of document.querySelectorAll(".help-tooltip[aria-label]")) icon.role = "img";
  }));
})();
