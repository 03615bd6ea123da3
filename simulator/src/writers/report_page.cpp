#include "report_page.hpp"

namespace ppsim::simulator {
namespace {

constexpr std::string_view kPage = R"page(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{title}}</title>
<style>
:root { --ink: #1b1f24; --soft: #5c6670; --line: #d9dee3; --panel: #ffffff; --page: #f4f6f8; --good: #1a7f4b; --bad: #b3261e; --focus: #0b57d0; }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 14px/1.45 system-ui, "Segoe UI", Helvetica, Arial, sans-serif; }
main { max-width: 1500px; margin: 0 auto; padding: 20px 24px 48px; }
h1 { font-size: 21px; margin: 0 0 4px; }
h2 { font-size: 15px; margin: 0 0 10px; }
section { background: var(--panel); border: 1px solid var(--line); border-radius: 8px; padding: 14px 16px; margin-top: 14px; }
.figures { display: flex; flex-wrap: wrap; gap: 10px 28px; }
.figure b { display: block; font-size: 19px; font-weight: 600; font-variant-numeric: tabular-nums; }
.figure span, .hint { color: var(--soft); font-size: 12px; }
.badges { display: flex; flex-wrap: wrap; gap: 6px; margin-top: 12px; }
.badge { border: 1px solid var(--line); border-radius: 12px; padding: 1px 10px; font-size: 12px; overflow-wrap: anywhere; }
.badge.good { color: var(--good); border-color: var(--good); }
.badge.bad { color: var(--bad); border-color: var(--bad); }
.tools { display: flex; flex-wrap: wrap; gap: 8px 14px; align-items: center; margin-bottom: 8px; }
button, select { font: inherit; font-size: 13px; padding: 3px 10px; border: 1px solid var(--line); border-radius: 6px; background: #fff; cursor: pointer; }
button:hover, select:hover { border-color: var(--soft); }
:focus-visible { outline: 2px solid var(--focus); outline-offset: 1px; }
canvas { display: block; width: 100%; touch-action: none; cursor: grab; }
canvas:active { cursor: grabbing; }
.scroll { overflow: auto; max-height: 70vh; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: 5px 10px; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
th { color: var(--soft); font-weight: 600; font-size: 12px; }
tr.chosen td { background: #eef3fb; }
td.over { color: var(--bad); font-weight: 600; }
td.best { color: var(--good); font-weight: 600; }
.bar { display: flex; height: 15px; border-radius: 3px; overflow: hidden; background: #fff; border: 1px solid var(--line); min-width: 220px; }
.bar i { display: block; height: 100%; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 16px; font-size: 12px; color: var(--soft); margin-top: 8px; }
.legend i { display: inline-block; width: 12px; height: 12px; border-radius: 2px; margin-right: 5px; vertical-align: -2px; border: 1px solid rgba(0,0,0,.15); }
#card { position: fixed; display: none; pointer-events: none; z-index: 9; background: #1b1f24; color: #fff; font-size: 12px; padding: 7px 10px; border-radius: 6px; max-width: 340px; box-shadow: 0 4px 14px rgba(0,0,0,.25); }
#card b { font-size: 13px; }
#chosen { min-height: 20px; font-size: 13px; color: var(--soft); margin-top: 6px; }
</style>
</head>
<body>
<main>
<h1>{{title}}</h1>
<div class="hint">{{hint}} Bubble: time in which the compute queue of a rank stands idle.</div>
<section id="comparison" hidden><h2>Comparison</h2><div class="scroll"><table id="table"></table></div>
  <div class="hint" id="works" hidden>Not all do the same work, as the last column says of forwards, which these costs take to be equally long, and of backwards. The best figures are of those that do the work of the first.</div></section>
<section>
  <div class="tools"><h2 id="name" style="margin:0"></h2><select id="run" aria-label="run" hidden></select></div>
  <div class="figures" id="figures"></div><div class="badges" id="facts"></div>
</section>
<section>
  <h2>Timeline</h2>
  <div class="tools">
    <button id="in">Zoom in</button><button id="out">Zoom out</button><button id="all">Whole step</button>
    <label><input type="checkbox" id="critical"> critical path</label>
    <label><input type="checkbox" id="transfers"> transfers</label>
    <label id="overlayTool" hidden>below it <select id="overlay"></select></label>
    <span class="hint">Wheel zooms, dragging pans, a click marks a microbatch and says what its action waited for.</span>
  </div>
  <div class="scroll"><canvas id="timeline" tabindex="0" aria-label="timeline"></canvas></div>
  <div id="chosen"></div>
  <div class="legend" id="kinds"></div>
</section>
<section id="memorySection">
  <h2>Memory over time</h2>
  <div class="tools"><label>show <select id="rank"></select></label></div>
  <canvas id="memory" aria-label="memory over time"></canvas>
  <div class="legend" id="memoryLegend"></div>
</section>
<section>
  <h2>Ranks</h2>
  <div class="scroll"><table id="ranks"></table></div>
  <div class="legend" id="bubbleLegend"></div>
</section>
</main>
<div id="card"></div>
<script type="application/json" id="data">{{data}}</script>
<script>
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const $ = id => document.getElementById(id);
const BUBBLE = [["warm-up", "#9ecae1"], ["steady", "#fdae6b"], ["cool-down", "#bcbddc"], ["exposed communication", "#d6616b"], ["imbalance", "#c7c7c7"]];
const LINES = ["#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#8c6d31", "#5b5b5b",
  "#6a51a3", "#41ab5d", "#fb6a4a", "#9e9ac8", "#238b8d", "#bdb76b"];
const LEFT = 62, ROW = 24, AXIS = 26;
let run = data.runs[0], overlay = null, view = null, marked = null, drag = null;

function element(tag, text, className) {
  const e = document.createElement(tag);
  if (text !== undefined) e.textContent = text;
  if (className) e.className = className;
  return e;
}
function timeText(ns) {
  const a = Math.abs(ns);
  if (a >= 1e9) return trim(ns / 1e9) + " s";
  if (a >= 1e6) return trim(ns / 1e6) + " ms";
  if (a >= 1e3) return trim(ns / 1e3) + " us";
  return Math.round(ns) + " ns";
}
function bytesText(bytes) {
  for (const [size, unit] of [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"]]) if (bytes >= size) return trim(bytes / size) + " " + unit;
  return bytes + " B";
}
const sizeText = (bytes, r) => r.sizesKnown ? bytesText(bytes) : "-";
const trim = x => String(+x.toPrecision(4));
const percent = x => (100 * x).toFixed(2) + " %";
const most = list => list.reduce((a, b) => Math.max(a, b), 0);
const sum = list => list.reduce((a, b) => a + b, 0);
function shade(hex, share) {
  const c = [1, 3, 5].map(i => parseInt(hex.slice(i, i + 2), 16));
  return "rgb(" + c.map(v => Math.round(v + (255 - v) * share)).join(",") + ")";
}
function inkOn(hex, share) {
  const c = [1, 3, 5].map(i => { const v = parseInt(hex.slice(i, i + 2), 16); return v + (255 - v) * share; });
  return 0.299 * c[0] + 0.587 * c[1] + 0.114 * c[2] > 140 ? "#000" : "#fff";
}

// A canvas of the size it is shown with, at the resolution of the screen.
function sized(canvas, height) {
  const ratio = window.devicePixelRatio || 1, width = canvas.parentElement.clientWidth;
  canvas.style.height = height + "px";
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const g = canvas.getContext("2d");
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  g.clearRect(0, 0, width, height);
  g.font = "11px system-ui, Helvetica, Arial, sans-serif";
  return [g, width];
}
const xOf = (time, width) => LEFT + (time - view.from) / (view.to - view.from) * (width - LEFT - 10);
const timeAt = (x, width) => view.from + (x - LEFT) / (width - LEFT - 10) * (view.to - view.from);
function axis(g, width, height) {
  const about = (view.to - view.from) / 9, power = Math.pow(10, Math.floor(Math.log10(about)));
  const step = [1, 2, 5, 10].map(f => f * power).find(s => s >= about) || about;
  g.textAlign = "center";
  for (let t = Math.ceil(view.from / step) * step; t <= view.to; t += step) {
    const x = xOf(t, width);
    g.strokeStyle = "#e3e7eb"; g.beginPath(); g.moveTo(x, 0); g.lineTo(x, height - AXIS + 4); g.stroke();
    g.fillStyle = "#5c6670"; g.fillText(timeText(t), x, height - AXIS + 17);
  }
}
function clip(g, width, height) {
  g.save(); g.beginPath(); g.rect(LEFT, 0, width - LEFT - 8, height); g.clip();
}
// The first cell that ends after a time: cells of a rank are in order.
function firstAfter(cells, time) {
  let low = 0, high = cells.length;
  while (low < high) { const mid = (low + high) >> 1; if (cells[mid][1] > time) high = mid; else low = mid + 1; }
  return low;
}
function drawTimeline() {
  const height = run.ranks.length * ROW + AXIS, [g, width] = sized($("timeline"), height);
  axis(g, width, height);
  g.fillStyle = "#1b1f24"; g.textAlign = "right";
  run.ranks.forEach((_, r) => g.fillText("rank " + r, LEFT - 8, r * ROW + 16));
  clip(g, width, height);
  const share = overlay ? 0.6 : 1;
  run.ranks.forEach((rank, r) => drawRow(g, rank, { top: r * ROW, height: share * ROW }, width));
  if (overlay) overlay.ranks.forEach((rank, r) => drawRow(g, rank, { top: (r + share) * ROW, height: (1 - share) * ROW }, width));
  if ($("transfers").checked) drawTransfers(g, width);
  if ($("critical").checked) drawCritical(g, width);
  g.restore();
}
function drawRow(g, rank, row, width) {
  const chunks = 1 + most(rank.cells.map(c => c[5] || 0));
  let drawnTo = -1;
  for (let i = firstAfter(rank.cells, view.from); i < rank.cells.length && rank.cells[i][0] < view.to; ++i) {
    const cell = rank.cells[i], x = xOf(cell[0], width), w = xOf(cell[1], width) - x;
    if (w <= 0 || x + w < drawnTo + 0.4) continue;  // narrower than anyone can see
    drawnTo = x + w;
    const parts = (cell.length - 4) / 3;
    for (let p = 0; p < parts; ++p) {
      const [kind, chunk, mb] = cell.slice(4 + 3 * p, 7 + 3 * p), share = chunks > 1 ? 0.55 * chunk / (chunks - 1) : 0;
      const colour = data.kinds[kind].colour, h = (row.height - (overlay ? 1 : 3)) / parts, y = row.top + 1 + p * h;
      g.globalAlpha = marked !== null && mb !== marked ? 0.22 : 1;
      g.fillStyle = shade(colour, share);
      g.fillRect(x, y, Math.max(w - (w > 3 ? 0.8 : 0), 0.4), h);
      const label = mb < 0 ? data.kinds[kind].text : String(mb);
      if (w > 7 * label.length + 3 && h > 9) {
        g.fillStyle = inkOn(colour, share); g.textAlign = "center"; g.fillText(label, x + w / 2, y + h / 2 + 4);
      }
    }
    g.globalAlpha = 1;
  }
}
function drawTransfers(g, width) {
  g.strokeStyle = "rgba(60,60,60,.55)"; g.lineWidth = 1; g.beginPath();
  for (const [begin, end, from, to] of run.transfers) {
    if (end < view.from || begin > view.to) continue;
    g.moveTo(xOf(begin, width), from * ROW + ROW / 2); g.lineTo(xOf(end, width), to * ROW + ROW / 2);
  }
  g.stroke();
}
function drawCritical(g, width) {
  g.strokeStyle = "#000"; g.lineWidth = 2.2; g.beginPath();
  let last = null;
  for (const [begin, end, rank] of run.critical) {
    const y = rank * ROW + ROW - 3;
    if (last !== null) g.lineTo(xOf(begin, width), y); else g.moveTo(xOf(begin, width), y);
    g.lineTo(xOf(end, width), y); last = rank;
  }
  g.stroke(); g.lineWidth = 1;
}
function cellAt(event) {
  const box = $("timeline").getBoundingClientRect(), r = Math.floor((event.clientY - box.top) / ROW), x = event.clientX - box.left;
  if (r < 0 || r >= run.ranks.length || x < LEFT) return null;
  const time = timeAt(x, box.width), cells = run.ranks[r].cells, i = firstAfter(cells, time);
  return i < cells.length && cells[i][0] <= time ? [r, cells[i]] : null;
}

// Values of a step function at sorted times.
function stepPath(g, points, width, yOf, close) {
  let y = yOf(points.length ? points[0][1] : 0);
  g.beginPath(); g.moveTo(xOf(0, width), y);
  for (const [time, bytes] of points) { const x = xOf(time, width); g.lineTo(x, y); y = yOf(bytes); g.lineTo(x, y); }
  g.lineTo(xOf(run.makespan, width), y);
  if (close !== undefined) { g.lineTo(xOf(run.makespan, width), close); g.lineTo(xOf(0, width), close); g.closePath(); }
}
function stacked(rank) {
  const layers = [], totals = new Map();
  let below = [[0, 0]];
  for (const kind of run.memoryKinds) {
    const points = kind.ranks[rank];
    if (!points.some(p => p[1] > 0)) continue;
    const times = [...new Set([...below, ...points].map(p => p[0]))].sort((a, b) => a - b), added = [];
    let i = 0, j = 0, a = 0, b = 0;
    for (const t of times) {
      while (i < below.length && below[i][0] <= t) a = below[i++][1];
      while (j < points.length && points[j][0] <= t) b = points[j++][1];
      added.push([t, a + b]);
    }
    layers.push([kind.name, added]); below = added;
  }
  return layers;
}
function niceAbove(value) {
  const power = Math.pow(10, Math.floor(Math.log10(value)));
  return [1, 1.2, 1.6, 2, 2.4, 3.2, 4, 5, 6, 8, 10].map(f => f * power).find(v => v >= value);
}
function drawMemory() {
  $("memorySection").hidden = !run.sizesKnown;
  if (!run.sizesKnown) return;
  const height = 230, [g, width] = sized($("memory"), height), bottom = height - AXIS;
  const legend = $("memoryLegend"), choice = $("rank").value;
  legend.replaceChildren();
  const chosen = choice === "all" ? run.ranks : [run.ranks[+choice]];
  const top = niceAbove(1.02 * Math.max(most(chosen.map(r => r.peak)), run.limit || 0, 4));
  const yOf = bytes => bottom - bytes / top * (bottom - 6);
  axis(g, width, height);
  g.textAlign = "right"; g.fillStyle = "#5c6670";
  for (let i = 0; i <= 4; ++i) g.fillText(bytesText(Math.round(top * i / 4)), LEFT - 6, yOf(top * i / 4) + 4);
  clip(g, width, bottom + 2);
  if (choice === "all") {
    run.ranks.forEach((rank, r) => {
      g.strokeStyle = LINES[r % LINES.length]; g.lineWidth = 1.4; stepPath(g, rank.memory, width, yOf); g.stroke();
      addLegend(legend, LINES[r % LINES.length], "rank " + r);
    });
  } else {
    const layers = stacked(+choice);
    for (let i = layers.length - 1; i >= 0; --i) {
      g.fillStyle = shade(LINES[i % LINES.length], 0.25); stepPath(g, layers[i][1], width, yOf, bottom); g.fill();
    }
    layers.forEach((layer, i) => addLegend(legend, shade(LINES[i % LINES.length], 0.25), layer[0].replace(/_/g, " ")));
  }
  if (run.limit) {
    g.strokeStyle = "#b3261e"; g.setLineDash([6, 4]); g.beginPath(); g.moveTo(LEFT, yOf(run.limit)); g.lineTo(width, yOf(run.limit)); g.stroke(); g.setLineDash([]);
    addLegend(legend, "#b3261e", "limit " + bytesText(run.limit));
  }
  g.restore();
}
function addLegend(where, colour, text) {
  const item = element("span"), box = element("i");
  box.style.background = colour;
  item.append(box, text);
  where.append(item);
}
function fillFigures() {
  $("name").textContent = run.name;
  const figures = [["step time", timeText(run.makespan)], ["longest rank's span", timeText(run.span)], ["bubble of step", percent(run.bubble)],
    ["bubble of span", percent(run.bubbleSpan)], ["largest peak memory", sizeText(most(run.ranks.map(r => r.peak)), run)],
    ["live activations at most", most(run.ranks.map(r => r.live))], ["sent between ranks", sizeText(sum(run.ranks.map(r => r.sent)), run)]];
  $("figures").replaceChildren(...figures.map(([label, value]) => {
    const e = element("div", undefined, "figure"); e.append(element("b", value), element("span", label)); return e;
  }));
  $("facts").replaceChildren(...run.facts.map(f => element("span", f.label + ": " + f.value, "badge " + ["", "good", "bad"][f.tone])));
}
function fillRanks() {
  const table = $("ranks"), head = element("tr");
  ["rank", "busy", "idle in the step", "peak memory", "live activations", "sent", "the step: busy, then the parts of the bubble"].forEach(t => head.append(element("th", t)));
  head.lastChild.style.textAlign = "left";
  const rows = run.ranks.map((rank, r) => {
    const row = element("tr");
    const over = run.limit && rank.peak > run.limit ? "over" : "";
    row.append(element("td", "rank " + r), element("td", timeText(rank.busy)), element("td", percent(run.makespan ? 1 - rank.busy / run.makespan : 0)),
      element("td", run.sizesKnown ? bytesText(rank.peak) + " at " + timeText(rank.peakAt) : "-", over), element("td", rank.live),
      element("td", sizeText(rank.sent, run)));
    const bar = element("div", undefined, "bar"), cell = element("td");
    [["busy", "#4a5560", rank.busy], ...BUBBLE.map(([n, c], i) => [n, c, rank.bubble[i]])].forEach(([name, colour, time]) => {
      const part = element("i"); part.style.width = 100 * time / (run.makespan || 1) + "%"; part.style.background = colour; part.title = name + ": " + timeText(time); bar.append(part);
    });
    cell.append(bar); row.append(cell); return row;
  });
  table.replaceChildren(head, ...rows);
  $("bubbleLegend").replaceChildren();
  [["busy", "#4a5560"], ...BUBBLE].forEach(([name, colour]) => addLegend($("bubbleLegend"), colour, name));
}
function fillComparison() {
  if (data.runs.length < 2) return;
  $("comparison").hidden = false; $("run").hidden = false;
  const columns = [["step time", r => r.makespan, timeText], ["bubble of step", r => r.bubble, percent], ["bubble of span", r => r.bubbleSpan, percent],
    ["exposed communication", r => sum(r.ranks.map(k => k.bubble[3])) / r.ranks.length, timeText], ["peak memory", r => most(r.ranks.map(k => k.peak)), sizeText],
    ["live activations", r => most(r.ranks.map(k => k.live)), String], ["sent between ranks", r => sum(r.ranks.map(k => k.sent)), sizeText]];
  const head = element("tr"); head.append(element("th", "schedule"), element("th", "ranks"), ...columns.map(c => element("th", c[0])));
  const works = data.runs.some(r => r.work), peers = data.runs.filter(r => r.sameWork);
  if (works) head.append(element("th", "work"));
  $("works").hidden = !works;
  const rows = data.runs.map((r, i) => {
    const row = element("tr"); row.append(element("td", r.name), element("td", r.ranks.length));
    for (const [label, value, text] of columns) {
      const shown = text(value(r), r), best = shown !== "-" && r.sameWork && value(r) === Math.min(...peers.map(value));
      const over = label === "peak memory" && r.limit && value(r) > r.limit;
      row.append(element("td", shown + (over ? " (over the limit)" : ""), over ? "over" : best ? "best" : ""));
    }
    if (works) row.append(element("td", r.work));
    row.style.cursor = "pointer"; row.onclick = () => choose(i); return row;
  });
  $("table").replaceChildren(head, ...rows);
  $("run").replaceChildren(...data.runs.map((r, i) => { const o = element("option", r.name); o.value = i; return o; }));
  $("run").onchange = () => choose(+$("run").value);
  $("overlay").onchange = () => { overlay = data.runs[+$("overlay").value] || null; place(0, lastTime()); };
}
// Only runs of as many ranks can be laid over each other.
function offerOverlays(index) {
  const others = data.runs.map((r, i) => [r, i]).filter(([r, i]) => i !== index && r.ranks.length === run.ranks.length);
  $("overlayTool").hidden = others.length === 0;
  const none = element("option", "nothing"); none.value = -1;
  $("overlay").replaceChildren(none, ...others.map(([r, i]) => { const o = element("option", r.name); o.value = i; return o; }));
  overlay = data.overlay && others.length ? others[0][0] : null;
  if (overlay) $("overlay").value = others[0][1];
}
const lastTime = () => Math.max(run.makespan, overlay ? overlay.makespan : 0) || 1;
function choose(index) {
  run = data.runs[index]; marked = null; $("chosen").textContent = "";
  offerOverlays(index);
  view = { from: 0, to: lastTime() };
  $("run").value = index;
  [...$("table").rows].forEach((row, i) => row.classList.toggle("chosen", i === index + 1));
  const all = element("option", "all ranks"); all.value = "all";
  $("rank").replaceChildren(all, ...run.ranks.map((_, r) => { const o = element("option", "rank " + r + ", by kind of tensor"); o.value = r; return o; }));
  $("kinds").replaceChildren();
  const used = new Set(run.ranks.flatMap(r => r.cells.flatMap(c => c.length > 7 ? [c[4], c[7]] : [c[4]])));
  [...used].sort((a, b) => a - b).forEach(k => addLegend($("kinds"), data.kinds[k].colour, data.kinds[k].text));
  addLegend($("kinds"), "#fff", "idle; lighter colours are later chunks of a rank");
  fillFigures(); fillRanks(); draw();
}
let pending = false;
function draw() {
  if (pending) return;
  pending = true;
  requestAnimationFrame(() => { pending = false; drawTimeline(); drawMemory(); });
}
function zoom(factor, centre) {
  const end = lastTime(), size = Math.min(end, Math.max((view.to - view.from) * factor, Math.min(100, end)));
  const share = (centre - view.from) / (view.to - view.from);
  place(centre - share * size, size);
}
function place(from, size) {
  from = Math.max(0, Math.min(from, lastTime() - size));
  view = { from: from, to: from + size };
  draw();
}
const middle = () => (view.from + view.to) / 2;
$("in").onclick = () => zoom(0.5, middle());
$("out").onclick = () => zoom(2, middle());
$("all").onclick = () => place(0, lastTime());
$("critical").onchange = $("transfers").onchange = $("rank").onchange = draw;
for (const id of ["timeline", "memory"]) {
  const canvas = $(id);
  canvas.addEventListener("wheel", e => { e.preventDefault(); const b = canvas.getBoundingClientRect(); zoom(Math.exp(e.deltaY * 0.0015), timeAt(e.clientX - b.left, b.width)); }, { passive: false });
  canvas.addEventListener("pointerdown", e => { drag = { x: e.clientX, from: view.from, moved: false }; canvas.setPointerCapture(e.pointerId); });
  canvas.addEventListener("pointerup", e => { if (id === "timeline" && drag && !drag.moved) mark(cellAt(e)); drag = null; });
  canvas.addEventListener("pointermove", e => {
    if (drag) {
      const size = view.to - view.from, dx = e.clientX - drag.x;
      if (Math.abs(dx) > 3) drag.moved = true;
      if (drag.moved) place(drag.from - dx / (canvas.getBoundingClientRect().width - LEFT - 10) * size, size);
      return;
    }
    if (id === "timeline") hover(e);
  });
  canvas.addEventListener("pointerleave", () => { $("card").style.display = "none"; });
}
$("timeline").addEventListener("keydown", e => {
  const size = view.to - view.from;
  if (e.key === "ArrowLeft") place(view.from - size / 8, size);
  else if (e.key === "ArrowRight") place(view.from + size / 8, size);
  else if (e.key === "+") zoom(0.7, middle());
  else if (e.key === "-") zoom(1 / 0.7, middle());
  else if (e.key === "Escape") mark(null);
  else return;
  e.preventDefault();
});
function hover(event) {
  const found = cellAt(event), card = $("card");
  if (!found) { card.style.display = "none"; return; }
  const [rank, cell] = found;
  card.replaceChildren(element("b", cell[2]), element("div", "rank " + rank + ", " + timeText(cell[0]) + " to " + timeText(cell[1]) + " (" + timeText(cell[1] - cell[0]) + ")"));
  if (cell[3]) card.append(element("div", "waited for " + cell[3]));
  card.style.display = "block";
  card.style.left = Math.min(event.clientX + 14, window.innerWidth - card.offsetWidth - 8) + "px";
  card.style.top = Math.min(event.clientY + 16, window.innerHeight - card.offsetHeight - 8) + "px";
}
function mark(found) {
  marked = found && found[1][6] >= 0 ? found[1][6] : null;
  $("chosen").textContent = !found ? "" : found[1][2] + " on rank " + found[0] + (found[1][3] ? " started when " + found[1][3] + " was complete." : " waited for nothing.") +
    (marked === null ? "" : " Microbatch " + marked + " is marked; click on idle time to unmark it.");
  draw();
}
new ResizeObserver(draw).observe(document.querySelector("main"));
fillComparison();
choose(0);
</script>
</body>
</html>
)page";

}  // namespace

std::string_view report_page() { return kPage; }

}  // namespace ppsim::simulator
