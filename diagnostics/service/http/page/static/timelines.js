// Charts of a model's signals over hours, one below the other with one axis of time, drawn by uPlot.
const root = document.documentElement;
const colour = (name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim();
const family = () => getComputedStyle(document.body).fontFamily;
const faint = (hex) => `${hex}24`;
const kinds = { time: "output", failed: "critical", rate: "engine", queue: "queue", compute: "compute" };
const HEIGHT = 88;
const AXIS = 26;

// --- words
const minute = (at) => {
  const [, day, month, , time] = new Date(at * 1000).toUTCString().split(" ");
  return `${month} ${day} ${time.slice(0, 5)}Z`;
};
const tick = (at) => {
  const [month, day, time] = minute(at).split(" ");
  return time === "00:00Z" ? `${month} ${day}` : time.slice(0, 5);
};
const short = (value) => String(Number(value.toPrecision(3)));
function seconds(value) {
  if (value >= 1 || value === 0) return `${short(value)} s`;
  return value >= 0.001 ? `${short(value * 1e3)} ms` : `${short(value * 1e6)} µs`;
}
const formats = { seconds, ratio: (value) => `${short(value * 100)} %`, per_second: (value) => `${short(value)}/s` };

// --- one chart
const isKnown = (value) => value !== null && value !== undefined;
// What is known between two gaps is no line: a point.
const alone = (values) => values.flatMap((value, index) => (
  isKnown(value) && !isKnown(values[index - 1]) && !isKnown(values[index + 1]) ? [index] : []
));
const data = (chart, answer) => (chart.at.length ? [chart.at, chart.values] : [[answer.from, answer.to], [null, null]]);

function shade(plot, answer) {
  const { ctx, bbox } = plot;
  const place = (at) => plot.valToPos(Math.min(Math.max(at, answer.from), answer.to), "x", true);
  ctx.save();
  ctx.globalAlpha = 0.14;
  for (const one of answer.incidents) {
    const [left, right] = [place(one.from), place(one.to ?? answer.to)];
    ctx.fillStyle = colour(one.severity);
    ctx.fillRect(left, bbox.top, Math.max(right - left, devicePixelRatio), bbox.height);
  }
  ctx.restore();
}

// A deploy is a line, planned work a stretch between two; the first chart says which.
function mark(plot, answer, first) {
  const { ctx, bbox } = plot;
  const place = (at) => Math.round(plot.valToPos(Math.min(Math.max(at, answer.from), answer.to), "x", true));
  ctx.save();
  ctx.strokeStyle = ctx.fillStyle = colour("quiet");
  ctx.lineWidth = devicePixelRatio;
  ctx.font = `${11 * devicePixelRatio}px ${family()}`;
  ctx.textBaseline = "top";
  ctx.setLineDash([2 * devicePixelRatio, 3 * devicePixelRatio]);
  for (const one of answer.marks) {
    const [left, right] = [place(one.from), place(one.to ?? one.from)];
    ctx.globalAlpha = 0.12;
    if (right > left) ctx.fillRect(left, bbox.top, right - left, bbox.height);
    ctx.globalAlpha = 1;
    ctx.beginPath();
    for (const x of right > left ? [left, right] : [left]) {
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
    }
    ctx.stroke();
    ctx.textAlign = left > bbox.left + 0.8 * bbox.width ? "right" : "left";
    if (first) ctx.fillText(one.kind, left + (ctx.textAlign === "left" ? 4 : -4), bbox.top + 2);
  }
  ctx.restore();
}

function aim(plot, objective) {
  if (!objective) return;
  const { ctx, bbox } = plot;
  const y = Math.round(plot.valToPos(objective.value, "y", true));
  ctx.save();
  ctx.strokeStyle = ctx.fillStyle = colour("ink");
  ctx.lineWidth = devicePixelRatio;
  ctx.setLineDash([5 * devicePixelRatio, 4 * devicePixelRatio]);
  ctx.beginPath();
  ctx.moveTo(bbox.left, y);
  ctx.lineTo(bbox.left + bbox.width, y);
  ctx.stroke();
  ctx.font = `${11 * devicePixelRatio}px ${family()}`;
  ctx.textAlign = "right";
  ctx.textBaseline = y - bbox.top > 16 * devicePixelRatio ? "bottom" : "top";
  ctx.fillText(objective.told, bbox.left + bbox.width - 4, y + (ctx.textBaseline === "top" ? 3 : -2));
  ctx.restore();
}

function options(held, number) {
  const chart = () => held.answer.charts[number];
  const last = number === held.answer.charts.length - 1;
  const tone = () => colour(kinds[chart().kind]);
  const axis = { stroke: () => colour("quiet"), font: `11px ${family()}`, ticks: { show: false } };
  return {
    width: held.width(), height: HEIGHT + (last ? AXIS : 0), padding: [8, 10, last ? 0 : 8, 0], legend: { show: false },
    tzDate: (at) => uPlot.tzDate(new Date(at * 1000), "Etc/UTC"),
    cursor: { y: false, drag: { x: false, y: false }, sync: { key: "timelines" } },
    scales: {
      x: { range: () => [held.answer.from, held.answer.to] },
      y: { range: (plot, least, most) => [0, 1.08 * Math.max(most, chart().objective?.value ?? 0) || 1] },
    },
    series: [{}, {
      stroke: tone, width: 1.75, fill: () => faint(tone()),
      points: { show: () => false, filter: () => alone(chart().values), size: 5, fill: tone, stroke: tone },
    }],
    axes: [
      { ...axis, show: last, size: AXIS, gap: 4, grid: { show: false }, values: (plot, splits) => splits.map(tick) },
      {
        ...axis, size: 58, gap: 6, space: 26, grid: { stroke: () => colour("rule"), width: 1 },
        values: (plot, splits) => splits.map(formats[chart().unit]),
      },
    ],
    hooks: {
      drawClear: [(plot) => shade(plot, held.answer)],
      draw: [(plot) => mark(plot, held.answer, number === 0), (plot) => aim(plot, chart().objective)],
      setCursor: [(plot) => { held.readings[number].textContent = reading(chart(), plot.cursor.idx); }],
    },
  };
}

function reading(chart, index) {
  if (isKnown(index) && chart.at.length) return `${chart.told[index] || "not known"} at ${minute(chart.at[index])}`;
  return chart.told.findLast((text) => text) ?? "not known";
}

// --- all charts of an answer
function build(held) {
  for (const plot of held.drawn) plot.destroy();
  held.readings = [];
  const figures = held.answer.charts.map((chart) => {
    const figure = document.createElement("figure");
    const title = figure.appendChild(document.createElement("figcaption"));
    title.append(`${chart.title} `, held.readings[held.readings.length] = document.createElement("b"));
    return figure;
  });
  held.plots.replaceChildren(...figures);
  held.drawn = held.answer.charts.map((chart, number) => new uPlot(options(held, number), data(chart, held.answer), figures[number]));
  held.titles = titles(held.answer);
}

const titles = (answer) => answer.charts.map((chart) => chart.title).join();
const known = (answer) => answer.charts.some((chart) => chart.values.some(isKnown));

function paint(held) {
  const { answer, plots } = held;
  plots.hidden = !known(answer);
  if (plots.hidden) return;
  if (held.titles === titles(answer)) held.drawn.forEach((plot, number) => plot.setData(data(answer.charts[number], answer)));
  else build(held);
  held.drawn.forEach((plot, number) => { held.readings[number].textContent = reading(answer.charts[number], plot.cursor.idx); });
  const summary = answer.charts.map((chart) => [chart.title, reading(chart, null), chart.objective?.told].filter(Boolean).join(" ")).join(", ");
  plots.setAttribute("aria-label", `over time, at last: ${summary}`);
}

function told(answer) {
  const since = answer.since === null ? "" : `Collecting since ${minute(answer.since)}.`;
  if (!known(answer)) return since || "Nothing is known of this time.";
  const marked = answer.marks.length ? "Dotted: deploys and planned work." : "";
  return [answer.incidents.length ? "Shaded: incidents." : "", marked, since].filter(Boolean).join(" ");
}

// The same for those who cannot see the picture, and for opening an incident from it.
function links(answer) {
  const list = document.createElement("ul");
  list.className = "plain marks";
  for (const one of answer.incidents) {
    const link = Object.assign(document.createElement("a"), { href: `${root.dataset.base}/incidents/${encodeURIComponent(one.id)}`, textContent: `${one.title}, ${one.about}` });
    const item = document.createElement("li");
    item.append(`${minute(one.from)} `, link);
    list.append(item);
  }
  for (const one of answer.marks) {
    const item = document.createElement("li");
    const until = one.to === null ? "" : ` to ${minute(one.to)}`;
    item.textContent = `${minute(one.from)}${until} ${one.kind}: ${one.text}`;
    list.append(item);
  }
  return list;
}

// The same time for good, and as data.
function sources(answer) {
  const line = document.createElement("p");
  line.className = "note data";
  const link = (href, textContent) => Object.assign(document.createElement("a"), { href, textContent });
  const asked = new URLSearchParams(location.search);
  asked.delete("since");
  asked.set("from", Math.round(answer.from));
  asked.set("to", Math.round(answer.to));
  if (document.querySelector("#timelines form")) line.append(link(`?${asked}#timelines`, "Link to this time"), ". ");
  line.append("As JSON: ");
  answer.charts.forEach((chart, number) => line.append(number ? ", " : "", link(root.dataset.base + chart.api, chart.title)));
  line.append(".");
  return line;
}

async function draw(held) {
  const { chart, plots } = held;
  const status = chart.querySelector("[role=status]");
  try {
    const answer = await fetch(chart.dataset.timeline);
    const read = await answer.json();
    if (!answer.ok) throw new Error(read.detail ?? "There is no answer");
    held.answer = read;
    paint(held);
    status.textContent = told(read);
    chart.querySelector("ul.marks")?.remove();
    if (read.incidents.length || read.marks.length) chart.append(links(read));
    chart.querySelector("p.data")?.remove();
    chart.append(sources(read));
    plots.dataset.drawn = String(Number(plots.dataset.drawn ?? 0) + 1);
  } catch (error) {
    status.textContent = `${error.message}.`;
  }
}

export function show(chart) {
  const plots = chart.querySelector(".plots");
  const held = { chart, plots, drawn: [], readings: [], titles: "", answer: null, width: () => plots.clientWidth };
  const model = chart.parentElement.querySelector("select[name=model]");
  model?.addEventListener("change", () => model.form.requestSubmit());
  new ResizeObserver(() => {
    for (const plot of held.drawn) if (plots.clientWidth) plot.setSize({ width: plots.clientWidth, height: plot.height });
  }).observe(plots);
  addEventListener("themechange", () => { for (const plot of held.drawn) plot.redraw(false, true); });
  // News are asked for when someone looks.
  let visible = true;
  new IntersectionObserver(([entry]) => {
    if (entry.isIntersecting && !visible) draw(held);
    visible = entry.isIntersecting;
  }, { rootMargin: "200px" }).observe(chart);
  document.addEventListener("news", () => { if (visible && chart.isConnected) draw(held); });
  draw(held);
}
