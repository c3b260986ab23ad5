// Keeps the page as the service knows it: waits for news, then asks for the content again and swaps what changed.
const content = document.getElementById("content");
const stale = document.getElementById("stale");
const live = document.getElementById("live");
const { base } = document.documentElement.dataset;
const WAIT = 25;
const SHORTEST_PAUSE = 1000;
const LONGEST_PAUSE = 15000;
let ahead = Number(document.documentElement.dataset.now) * 1000 - Date.now();
let reached = Date.now();

// A laptop that wakes up, or finds its network again, does not wait.
const sleep = (milliseconds) => new Promise((done) => {
  setTimeout(done, milliseconds);
  addEventListener("online", done, { once: true });
});
const seen = () => new Promise((done) => {
  if (!document.hidden) { done(); return; }
  document.addEventListener("visibilitychange", () => done(), { once: true });
});

// --- times, as how long ago
function ago(seconds) {
  if (seconds < 90) return `${Math.max(0, Math.round(seconds))} s ago`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min ago`;
  if (seconds < 129600) return `${Math.round(seconds / 3600)} h ago`;
  return `${Math.round(seconds / 86400)} days ago`;
}

function tellTimes() {
  const now = Date.now() + ahead;
  for (const one of document.querySelectorAll("time[data-at]")) {
    one.dataset.ago = ago(now / 1000 - Number(one.dataset.at));
    one.title = new Date(Number(one.dataset.at) * 1000).toLocaleString();
  }
}

// --- swapping, without taking away what someone reads, types in or has unfolded
const busy = (section) => {
  const selection = getSelection();
  return section.querySelector("select:focus, input:focus, textarea:focus") !== null
    || (!selection.isCollapsed && section.contains(selection.anchorNode));
};

// Scripts change some attributes of what the service sent: what was sent is what is compared.
const sent = new WeakMap();
const keep = (section) => sent.set(section, section.outerHTML);
const unfolded = (section) => [...section.querySelectorAll("details")].map((one) => one.open);

function swap(old, fresh) {
  if (sent.get(old) === fresh.outerHTML || busy(old)) return;
  const text = fresh.outerHTML;
  const open = unfolded(old);
  [...fresh.querySelectorAll("details")].forEach((one, index) => { one.open = open[index] ?? one.open; });
  const scrolls = [...old.querySelectorAll(".scroll, .graph, pre")].map((one) => one.scrollLeft);
  const focus = old.contains(document.activeElement) ? document.activeElement : null;
  old.replaceWith(fresh);
  sent.set(fresh, text);
  [...fresh.querySelectorAll(".scroll, .graph, pre")].forEach((one, index) => { one.scrollLeft = scrolls[index] ?? 0; });
  prepare(fresh);
  if (focus) refocus(fresh, focus);
}

const reachable = "a, button, summary, [tabindex]";

function refocus(fresh, focus) {
  const same = [...fresh.querySelectorAll(reachable)].filter((one) => one.tagName === focus.tagName
    && one.getAttribute("href") === focus.getAttribute("href") && one.textContent === focus.textContent);
  const found = (focus.id && document.getElementById(focus.id)) || same[0] || fresh.querySelector(reachable);
  found?.focus({ preventScroll: true });
}

function update(text) {
  const fresh = new DOMParser().parseFromString(text, "text/html").body;
  const sections = [...fresh.children].map((one) => document.importNode(one, true));
  const wanted = new Set(sections.map((one) => one.id));
  for (const old of [...content.children]) if (!wanted.has(old.id) && !busy(old)) old.remove();
  let before = null;
  for (const section of sections) {
    const old = [...content.children].find((one) => one.id === section.id);
    if (old) swap(old, section);
    else { const text = section.outerHTML; before ? before.after(section) : content.prepend(section); sent.set(section, text); prepare(section); }
    before = document.getElementById(section.id) ?? before;
  }
  tellTimes();
}

// --- buttons and charts of a section
function prepare(section) {
  for (const button of section.querySelectorAll("button[data-copy]")) {
    button.hidden = false;
    button.addEventListener("click", () => copyText(button));
  }
  const chart = section.querySelector("[data-timeline]");
  if (chart) import(document.body.dataset.timelines).then((timelines) => timelines.show(chart));
}

// --- news
function lost(why) {
  live.textContent = "";
  stale.hidden = false;
  const since = new Date(reached).toLocaleTimeString();
  const text = `${why}. What is shown is of ${since}; trying again.`;
  if (stale.textContent !== text) stale.textContent = text;
}

function found(answer) {
  const date = Date.parse(answer.headers.get("date") ?? "");
  if (date) ahead = date - Date.now();
  reached = Date.now();
  stale.hidden = true;
  live.textContent = "Live";
}

async function ask(address) {
  const answer = await fetch(address, { signal: AbortSignal.timeout((WAIT + 10) * 1000), headers: { Accept: "*/*" } });
  if (answer.status === 401 || answer.status === 403) throw new Error("The service asks to sign in: reload this page");
  if (!answer.ok && answer.status !== 404) throw new Error(`The service answers with status ${answer.status}`);
  return answer;
}

async function follow(fragment) {
  let version = -1;
  let pause = SHORTEST_PAUSE;
  for (;;) {
    await seen();
    const begun = performance.now();
    try {
      const state = await ask(`${base}/api/v1/state?after=${version}&wait=${version < 0 ? 0 : WAIT}`);
      const next = (await state.json()).version;
      if (next !== version) {
        const asked = performance.now();
        const answer = await ask(fragment);
        update(await answer.text());
        document.title = decodeURIComponent(answer.headers.get("x-title") ?? "") || document.title;
        document.dispatchEvent(new Event("news"));
        // Whoever answers slowly is asked seldom.
        pause = Math.min(Math.max(SHORTEST_PAUSE, 10 * (performance.now() - asked)), LONGEST_PAUSE);
      }
      version = next;
      found(state);
    } catch (error) {
      lost(error instanceof TypeError || error.name === "TimeoutError" ? "The service cannot be reached" : error.message);
      version = -1;
      pause = Math.min(2 * pause, LONGEST_PAUSE);
    }
    await sleep(Math.max(pause - (performance.now() - begun), SHORTEST_PAUSE / 4));
  }
}

for (const section of content.children) { keep(section); prepare(section); }
tellTimes();
setInterval(tellTimes, 5000);
addEventListener("beforeprint", () => {
  for (const one of document.querySelectorAll("details:not([open])")) { one.open = true; one.dataset.closed = ""; }
});
addEventListener("afterprint", () => {
  for (const one of document.querySelectorAll("details[data-closed]")) { one.open = false; delete one.dataset.closed; }
});
if (document.body.dataset.fragment) follow(document.body.dataset.fragment);
