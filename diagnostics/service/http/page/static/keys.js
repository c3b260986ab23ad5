// Keys: they move the focus, and what has the focus does the rest by itself.
const typing = (target) => target.closest("input:not([type=hidden]), select, textarea, [contenteditable]");
const go = { h: "/", f: "/fleet", i: "/incidents", o: "/slos", r: "/runbooks" };
const { base } = document.documentElement.dataset;
const dialog = document.getElementById("keys");
let prefix = 0;

function move(step) {
  const items = [...document.querySelectorAll("[data-item]")].filter((one) => one.checkVisibility());
  if (!items.length) return;
  const now = items.indexOf(document.activeElement);
  const next = now < 0 ? (step > 0 ? 0 : items.length - 1) : Math.min(Math.max(now + step, 0), items.length - 1);
  items[next].focus();
  items[next].scrollIntoView({ block: "nearest" });
}

const actions = {
  "/": () => { const box = document.getElementById("search"); box.focus(); box.select(); },
  "?": () => dialog.showModal(),
  j: () => move(1),
  k: () => move(-1),
  g: () => { prefix = Date.now(); },
  t: () => theme.toggle(),
};

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || event.isComposing || dialog.open) return;
  if (typing(event.target)) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const follows = Date.now() - prefix < 1500;
  prefix = 0;
  if (follows && go[event.key]) location.href = base + go[event.key];
  else if (actions[event.key]) { event.preventDefault(); actions[event.key](); }
});

const help = document.getElementById("help");
help.hidden = false;
help.addEventListener("click", () => dialog.showModal());
const button = document.getElementById("theme");
const name = () => { button.textContent = theme.dark() ? "Light" : "Dark"; };
button.hidden = false;
button.addEventListener("click", () => theme.toggle());
addEventListener("themechange", name);
name();
