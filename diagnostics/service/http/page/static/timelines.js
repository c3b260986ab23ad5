// Charts of a model's signals over hours, drawn by plotly, which is loaded when the first one comes into view.
let loading = null;
const plotly = () => loading ??= new Promise((done, failed) => {
  const script = document.createElement("script");
  script.src = document.body.dataset.plotly;
  script.addEventListener("load", () => done(globalThis.Plotly));
  script.addEventListener("error", () => { loading = null; failed(new Error("The charts cannot be loaded")); });
  document.head.append(script);
});

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const faint = (hex) => `${hex}24`;
const kinds = { queue: "queue", rate: "engine", compute: "compute" };
const tones = { critical: "critical", warning: "warning", info: "info" };
const formats = { seconds: ",.3~s", ratio: ",.0%", per_second: ",.3~r" };
const units = { seconds: "s", ratio: "", per_second: "/s" };
const escapes = { "&": "&amp;", "<": "&lt;", ">": "&gt;" };
// Plotly reads a little HTML in texts: names are not to be read so.
const plain = (text) => text.replace(/[&<>]/g, (sign) => escapes[sign]);
const date = (at) => new Date(at * 1000).toISOString();
const minute = (at) => {
  const [, day, month, , time] = new Date(at * 1000).toUTCString().split(" ");
  return `${month} ${day} ${time.slice(0, 5)}Z`;
};
const HEIGHT = 104;

// What is not known is a gap: plotly would fill the area under it.
function runs(chart) {
  const found = [[]];
  chart.values.forEach((value, index) => {
    if (value === null) found.push([]); else found.at(-1).push(index);
  });
  return found.filter((run) => run.length);
}

function trace(chart, number, run) {
  const pick = (values) => run.map((index) => values[index]);
  const tone = colour(kinds[chart.kind]);
  return {
    type: "scatter", mode: run.length > 1 ? "lines" : "markers", x: pick(chart.at).map(date), y: pick(chart.values),
    text: pick(chart.told), hovertemplate: "%{text}<extra></extra>", xaxis: "x", yaxis: `y${number ? number + 1 : ""}`,
    line: { color: tone, width: 1.75 }, marker: { color: tone, size: 4 }, fill: "tozeroy", fillcolor: faint(tone),
  };
}

const traces = (answer) => answer.charts.flatMap((chart, number) => runs(chart).map((run) => trace(chart, number, run)));

function shapes(answer) {
  return answer.incidents.map((one) => ({
    type: "rect", xref: "x", yref: "paper", y0: 0, y1: 1, layer: "below",
    x0: date(Math.max(one.from, answer.from)), x1: date(Math.min(one.to ?? answer.to, answer.to)),
    fillcolor: colour(tones[one.severity]), opacity: 0.12, line: { width: 0 },
  }));
}

function notes(answer) {
  const base = { xref: "paper", x: 0, xanchor: "left", yref: "paper", yanchor: "bottom", showarrow: false };
  return answer.charts.map((chart, index) => ({
    ...base, y: domain(index, answer.charts.length)[1], text: plain(chart.title), font: { size: 13, color: colour("quiet") },
  }));
}

function domain(index, count) {
  const gap = 0.26 / count;
  const room = 1 / count;
  const top = 1 - index * room;
  return [top - room + (index === count - 1 ? 0 : 0.02), top - gap];
}

function layout(answer) {
  const axis = { gridcolor: colour("rule"), zeroline: false, fixedrange: true, tickfont: { size: 11.5, color: colour("quiet") } };
  const made = {
    height: HEIGHT * answer.charts.length + 40, margin: { l: 58, r: 8, t: 4, b: 32 }, showlegend: false, hovermode: "x",
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { family: getComputedStyle(document.body).fontFamily },
    hoverlabel: { bgcolor: colour("raised"), bordercolor: colour("rule"), font: { color: colour("ink") } },
    shapes: shapes(answer), annotations: notes(answer),
    xaxis: { ...axis, type: "date", range: [date(answer.from), date(answer.to)], anchor: `y${answer.charts.length}`, showgrid: false },
  };
  answer.charts.forEach((chart, index) => {
    made[`yaxis${index ? index + 1 : ""}`] = {
      ...axis, rangemode: "tozero", nticks: 4, domain: domain(index, answer.charts.length),
      tickformat: formats[chart.unit], ticksuffix: units[chart.unit], range: chart.values.some((value) => value > 0) ? undefined : [0, 1],
    };
  });
  return made;
}

const known = (answer) => answer.charts.some((chart) => chart.values.some((value) => value !== null));

function told(answer) {
  const since = answer.since === null ? "" : `Collecting since ${minute(answer.since)}.`;
  if (!known(answer)) return since || "Nothing is known of this time.";
  return [answer.incidents.length ? "Shaded: incidents." : "", since].join(" ").trim();
}

// The same for those who cannot see the picture, and for opening an incident from it.
function links(answer) {
  const list = document.createElement("ul");
  list.className = "plain marks";
  for (const one of answer.incidents) {
    const link = Object.assign(document.createElement("a"), { href: `${document.documentElement.dataset.base}/incidents/${encodeURIComponent(one.id)}`, textContent: `${one.title}, ${one.about}` });
    const item = document.createElement("li");
    item.append(`${minute(one.from)} `, link);
    list.append(item);
  }
  return list;
}

function address(chart) {
  const [path, query] = chart.dataset.timeline.split("?");
  const asked = new URLSearchParams(query);
  const model = chart.querySelector("select[name=model]");
  const since = chart.querySelector("select[name=since]");
  if (model) {
    asked.set("model", decodeURIComponent(model.value));
    asked.set("server", decodeURIComponent(model.selectedOptions[0].dataset.server));
  }
  if (since) asked.set("since", since.value);
  return `${path}?${asked}`;
}

async function draw(chart) {
  const plots = chart.querySelector(".plots");
  const status = chart.querySelector("[role=status]");
  try {
    const [library, answer] = await Promise.all([plotly(), fetch(address(chart))]);
    const read = await answer.json();
    if (!answer.ok) throw new Error(read.detail ?? "There is no answer");
    plots.hidden = !known(read);
    if (!plots.hidden) await library.react(plots, traces(read), layout(read), { displayModeBar: false, responsive: true });
    const summary = read.charts.map((one) => `${one.title} ${one.told.findLast((text) => text) ?? "not known"}`).join(", ");
    plots.setAttribute("aria-label", `over time, at last: ${summary}`);
    status.textContent = told(read);
    chart.querySelector("ul.marks")?.remove();
    if (read.incidents.length) chart.append(links(read));
    plots.dataset.drawn = String(Number(plots.dataset.drawn ?? 0) + 1);
  } catch (error) {
    status.textContent = `${error.message}.`;
  }
}

export function show(chart) {
  const controls = chart.querySelector(".ask");
  if (controls) {
    controls.hidden = false;
    controls.addEventListener("change", () => draw(chart));
  }
  let visible = false;
  new IntersectionObserver(([entry]) => {
    if (entry.isIntersecting && !visible) draw(chart);
    visible = entry.isIntersecting;
  }, { rootMargin: "200px" }).observe(chart);
  document.addEventListener("news", () => { if (visible && chart.isConnected) draw(chart); });
  addEventListener("themechange", () => { if (chart.querySelector(".plots").dataset.drawn) draw(chart); });
}
