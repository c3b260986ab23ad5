"use strict";
// Runs before anything is drawn. The style sheets know the dark colours by the system's scheme alone: choosing another
// one switches those rules.
(() => {
  const rules = [];
  const collect = () => {
    for (const sheet of document.styleSheets) {
      for (const rule of sheet.cssRules) {
        if (rule instanceof CSSMediaRule && rule.conditionText.includes("prefers-color-scheme: dark")) rules.push(rule);
      }
    }
  };
  const system = matchMedia("(prefers-color-scheme: dark)");
  const stored = () => { try { return localStorage.getItem("theme"); } catch { return null; } };
  const dark = () => (stored() ?? (system.matches ? "dark" : "light")) === "dark";
  const apply = () => {
    const choice = stored();
    for (const rule of rules) {
      rule.media.mediaText = choice === null ? "(prefers-color-scheme: dark)" : choice === "dark" ? "all" : "not all";
    }
    document.documentElement.style.colorScheme = choice ?? "";
    dispatchEvent(new Event("themechange"));
  };
  const toggle = () => {
    const next = dark() ? "light" : "dark";
    try { localStorage.setItem("theme", next); } catch { return; }
    apply();
  };
  collect();
  if (stored() !== null) apply();
  system.addEventListener("change", apply);
  globalThis.theme = { dark, toggle };
})();
