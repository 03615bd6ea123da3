// What the reader does.
let chain = [], drag = null, found = [], foundAt = -1, pending = false, later = 0;

function draw() {
  if (pending) return;
  pending = true;
  requestAnimationFrame(() => { pending = false; drawNow(); });
}
function drawNow() {
  $("memorySection").hidden = !run.sizesKnown;
  drawTimeline();
  const box = $("memory").getBoundingClientRect(), seen = box.top < window.innerHeight && box.bottom > 0;
  if (seen) drawMemory();
  clearTimeout(later);
  later = setTimeout(() => { fillActions(); if (!seen) drawMemory(); }, 200);  // what nobody sees can wait
}
function place(from, size) {
  size = Math.min(size, lastTime());
  from = Math.max(0, Math.min(from, lastTime() - size));
  view = { from, to: from + size };
  draw();
}
function zoom(factor, centre) {
  const size = Math.min(lastTime(), Math.max((view.to - view.from) * factor, Math.min(100, lastTime())));
  place(centre - (centre - view.from) / (view.to - view.from) * size, size);
}
const middle = () => (view.from + view.to) / 2;

// The actions that one waited for, back to the step's start, as pieces of a line.
function chainOf({ run: shown, rank, i }) {
  const steps = [], MOST = 100000;
  while (i >= 0 && steps.length < MOST) {
    const cells = shown.cells[rank];
    steps.push([cells.start[i], cells.end[i], rank]);
    [rank, i] = cells.fromRank[i] < 0 ? [rank, -1] : [cells.fromRank[i], cells.fromPlace[i]];
  }
  return steps.reverse();
}
function sourceOf({ run: shown, rank, i }) {
  const cells = shown.cells[rank];
  return cells.fromRank[i] < 0 ? null : { run: shown, rank: cells.fromRank[i], i: cells.fromPlace[i] };
}
function microbatchOf(at) { return at ? at.run.cells[at.rank].mb[at.i * at.run.slots] : -1; }
function select(at, keepView) {
  selected = at;
  chain = at ? chainOf(at) : [];
  if (at && !keepView) reveal(at);
  describe();
  draw();
}
function reveal({ run: shown, rank, i }) {
  const cells = shown.cells[rank], lane = laneOf(shown, rank), scroll = $("scroll"), size = view.to - view.from;
  const wide = Math.min(size, Math.max(40 * (cells.end[i] - cells.start[i]), 100));
  if ((cells.end[i] - cells.start[i]) / size < 0.005) place((cells.start[i] + cells.end[i] - wide) / 2, wide);
  else if (cells.start[i] < view.from || cells.end[i] > view.to) place((cells.start[i] + cells.end[i] - size) / 2, size);
  if (lane && lane.top < scroll.scrollTop) scroll.scrollTop = lane.top;
  if (lane && lane.top + lane.height > scroll.scrollTop + scroll.clientHeight - AXIS) scroll.scrollTop = lane.top + lane.height - scroll.clientHeight + AXIS;
}
function describe() {
  const box = $("chosen");
  box.replaceChildren();
  if (range) box.append(element("div", rangeText()));
  if (!selected) return;
  const { run: shown, rank, i } = selected, cells = shown.cells[rank], wait = waitText(shown, rank, i), line = element("div");
  line.append(element("b", cellText(shown, rank, i)), " on rank " + rank + ", " + timeText(cells.start[i]) + " to " + timeText(cells.end[i]) + " (" + timeText(cells.end[i] - cells.start[i]) + ")" +
    (wait ? "; it started when " + wait + " was complete" : "; it waited for nothing") + (chain.length > 1 ? ", at the end of a chain of " + chain.length + " actions." : "."));
  const source = sourceOf(selected);
  if (source) {
    const go = element("button", "Go to " + cellText(shown, source.rank, source.i));
    go.onclick = () => select(source);
    line.append(go);
  }
  const mb = microbatchOf(selected), mark = element("button", marked === mb ? "Unmark" : "Mark microbatch " + mb);
  mark.onclick = toggleMark;
  if (mb >= 0) line.append(mark);
  box.append(line);
}
function toggleMark() {
  const mb = microbatchOf(selected);
  marked = mb < 0 || marked === mb ? null : mb;
  describe(); draw();
}
// How long a range is, and what the ranks do in it.
function rangeText() {
  const from = Math.min(range.from, range.to), to = Math.max(range.from, range.to), times = new Map();
  for (const cells of run.cells) {
    for (let i = firstAfter(cells.end, from); i < cells.count && cells.start[i] < to; ++i) {
      const parts = run.texts[cells.shape[i]].parts, time = Math.min(to, cells.end[i]) - Math.max(from, cells.start[i]);
      for (const part of parts) times.set(part[0], (times.get(part[0]) || 0) + time / parts.length);
    }
  }
  const all = (to - from) * run.ranks.length || 1, shares = [...times].sort((a, b) => a[0] - b[0]).map(([kind, time]) => data.kinds[kind].text + " " + percent(time / all));
  return "Range of " + timeText(to - from) + ", from " + timeText(from) + " to " + timeText(to) + ": " + [...shares, "idle " + percent(Math.max(0, 1 - sum([...times.values()]) / all))].join(", ") + " of all ranks.";
}

// "rank 3 mb 17", "stage 2 B", "3F17": every word that is there must fit.
function search(text) {
  const number = name => { const m = text.match(new RegExp("\\b(?:" + name + ")\\s*(\\d+)", "i")); return m ? +m[1] : null; };
  const rank = number("rank|r"), mb = number("microbatch|mb"), stage = number("stage|s"), action = text.match(/\b\d+[A-Z_]+\d*(?:\.\d+)?\b/);
  const kind = text.match(/(?:^|\s)([A-Z][A-Z_]*)(?=\s|$)/), result = [];
  if (rank === null && mb === null && stage === null && !action && !kind) return result;
  run.cells.forEach((cells, r) => {
    if (rank !== null && r !== rank) return;
    for (let i = 0; i < cells.count; ++i) {
      const entry = run.texts[cells.shape[i]];
      if (mb !== null && !cells.mb.subarray(i * run.slots, (i + 1) * run.slots).includes(mb)) continue;
      if (stage !== null && !new RegExp("(?:^|[^\\d])" + stage + "[A-Z]").test(entry.text)) continue;
      if (kind && !entry.parts.some(p => data.kinds[p[0]].text === kind[1])) continue;
      if (action && !cellText(run, r, i).split(/[();]/).includes(action[0])) continue;
      result.push({ run, rank: r, i });
    }
  });
  return result;
}
function nextFound(step) {
  foundAt = found.length ? (foundAt + step + found.length) % found.length : -1;
  $("found").textContent = $("search").value.trim() === "" ? "" : found.length ? foundAt + 1 + " of " + found.length : "nothing found";
  if (foundAt >= 0) select(found[foundAt]);
}
$("search").addEventListener("input", () => { found = search($("search").value); foundAt = -1; nextFound(1); });
$("search").addEventListener("keydown", e => {
  if (e.key === "Enter") { e.preventDefault(); nextFound(e.shiftKey ? -1 : 1); }
  if (e.key === "Escape") $("timeline").focus();
});

function laneAt(event) {
  const box = $("timeline").getBoundingClientRect(), y = event.clientY - box.top - AXIS + $("scroll").scrollTop;
  return event.clientY - box.top < AXIS ? null : lanes.find(l => !l.heading && y >= l.top && y < l.top + l.height);
}
const eventTime = (event, canvas) => timeAt(event.clientX - canvas.getBoundingClientRect().left, canvas.clientWidth);
function cellAt(event) {
  const lane = laneAt(event), time = eventTime(event, $("timeline"));
  if (!lane || time < view.from) return null;
  const cells = lane.run.cells[lane.rank], i = firstAfter(cells.end, time);
  return i < cells.count && cells.start[i] <= time ? { run: lane.run, rank: lane.rank, i } : null;
}
function hover(event) {
  const at = cellAt(event), card = $("card");
  if (!at) { card.style.display = "none"; return; }
  const { run: shown, rank, i } = at, cells = shown.cells[rank], wait = waitText(shown, rank, i);
  card.replaceChildren(element("b", cellText(shown, rank, i)), element("div", "rank " + rank + ", " + timeText(cells.start[i]) + " to " + timeText(cells.end[i]) + " (" + timeText(cells.end[i] - cells.start[i]) + ")"));
  if (wait) card.append(element("div", "waited for " + wait));
  card.style.display = "block";
  card.style.left = Math.min(event.clientX + 14, window.innerWidth - card.offsetWidth - 8) + "px";
  card.style.top = Math.min(event.clientY + 16, window.innerHeight - card.offsetHeight - 8) + "px";
}
function dragTo(event, canvas) {
  const size = view.to - view.from, dx = event.clientX - drag.x, dy = event.clientY - drag.y;
  if (Math.abs(dx) + Math.abs(dy) > 3) drag.moved = true;
  if (!drag.moved) return;
  if (drag.measures) { range = { from: drag.time, to: Math.max(0, Math.min(lastTime(), eventTime(event, canvas))) }; describe(); draw(); return; }
  place(drag.from - dx / plotWidth(canvas.clientWidth) * size, size);
  if (canvas.id === "timeline") $("scroll").scrollTop = drag.scroll - dy;
}
for (const id of ["timeline", "memory"]) {
  const canvas = $(id);
  canvas.addEventListener("wheel", e => { e.preventDefault(); zoom(Math.exp(e.deltaY * 0.0015), eventTime(e, canvas)); }, { passive: false });
  canvas.addEventListener("pointerdown", e => {
    drag = { x: e.clientX, y: e.clientY, from: view.from, scroll: $("scroll").scrollTop, time: eventTime(e, canvas), measures: e.shiftKey, moved: false };
    canvas.setPointerCapture(e.pointerId);
  });
  canvas.addEventListener("pointerup", e => {
    if (drag && !drag.moved && id === "timeline") { range = null; const at = cellAt(e); if (!at) marked = null; select(at, true); }
    drag = null;
  });
  canvas.addEventListener("pointermove", e => { if (drag) dragTo(e, canvas); else if (id === "timeline") hover(e); });
  canvas.addEventListener("pointerleave", () => { $("card").style.display = "none"; });
}
const mapped = e => { const box = $("minimap").getBoundingClientRect(), size = view.to - view.from; place((e.clientX - box.left - LEFT) / plotWidth(box.width) * lastTime() - size / 2, size); };
$("minimap").addEventListener("pointerdown", e => { $("minimap").setPointerCapture(e.pointerId); mapped(e); });
$("minimap").addEventListener("pointermove", e => { if (e.buttons) mapped(e); });
$("scroll").addEventListener("scroll", draw);

function walk(across, down) {
  if (!selected) {
    const cells = run.cells[0], i = Math.min(cells.count - 1, firstAfter(cells.end, view.from));
    return i < 0 ? undefined : select({ run, rank: 0, i });
  }
  const { run: shown, rank, i } = selected, cells = shown.cells[rank];
  if (across) return select({ run: shown, rank, i: Math.max(0, Math.min(cells.count - 1, i + across)) });
  const next = Math.max(0, Math.min(shown.ranks.length - 1, rank + down)), other = shown.cells[next];
  if (other.count) select({ run: shown, rank: next, i: Math.min(other.count - 1, firstAfter(other.end, cells.start[i])) });
}
function rangeKey() {
  if (!selected) return;
  const cells = selected.run.cells[selected.rank];
  range = range && range.open ? { from: range.from, to: cells.end[selected.i] } : { from: cells.start[selected.i], to: cells.end[selected.i], open: true };
  describe(); draw();
}
const toggled = id => { $(id).checked = !$(id).checked; draw(); };
const KEYS = {
  ArrowLeft: e => e.shiftKey ? place(view.from - (view.to - view.from) / 8, view.to - view.from) : walk(-1, 0),
  ArrowRight: e => e.shiftKey ? place(view.from + (view.to - view.from) / 8, view.to - view.from) : walk(1, 0),
  ArrowUp: () => walk(0, -1), ArrowDown: () => walk(0, 1),
  "+": () => zoom(0.7, middle()), "=": () => zoom(0.7, middle()), "-": () => zoom(1 / 0.7, middle()), 0: () => place(0, lastTime()),
  Enter: () => { const source = selected && sourceOf(selected); if (source) select(source); },
  m: () => { if (selected) toggleMark(); }, r: rangeKey, c: () => toggled("critical"), t: () => toggled("transfers"),
  "/": () => $("search").focus(),
  Escape: () => { range = null; marked = null; select(null); },
};
$("timeline").addEventListener("keydown", e => {
  const act = e.ctrlKey || e.metaKey || e.altKey ? null : KEYS[e.key.length === 1 ? e.key.toLowerCase() : e.key];
  if (!act) return;
  act(e);
  e.preventDefault();
});
$("in").onclick = () => zoom(0.5, middle());
$("out").onclick = () => zoom(2, middle());
$("all").onclick = () => place(0, lastTime());
const scaled = factor => { rowScale = Math.min(8, Math.max(0.5, rowScale * factor)); layOut(); draw(); };
$("taller").onclick = () => scaled(1.5);
$("lower").onclick = () => scaled(1 / 1.5);
$("critical").onchange = $("transfers").onchange = $("rank").onchange = draw;
$("tableRank").onchange = $("actionsDetails").ontoggle = fillActions;
$("run").onchange = () => choose(+$("run").value);
$("aligned").onchange = () => { select(null); renew(); };
$("overlay").onchange = () => { overlay = data.runs[+$("overlay").value] || null; renew(); };

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  $("theme").textContent = name === "dark" ? "Light" : "Dark";
  readTheme();
  minimapImage = null;
}
const preferred = window.matchMedia("(prefers-color-scheme: dark)");
$("theme").onclick = () => { setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"); draw(); };
preferred.addEventListener("change", () => { setTheme(preferred.matches ? "dark" : "light"); draw(); });
let themeBeforePrint = "light";
window.addEventListener("beforeprint", () => { themeBeforePrint = document.documentElement.dataset.theme; setTheme("light"); drawTimeline(); drawMemory(); });
window.addEventListener("afterprint", () => { setTheme(themeBeforePrint); draw(); });

// Only runs of as many ranks can be laid over each other.
function offerOverlays(index) {
  const others = data.runs.map((r, i) => [i, r.name]).filter(([i]) => i !== index && data.runs[i].ranks.length === run.ranks.length);
  $("overlayTool").hidden = others.length === 0;
  choices($("overlay"), [[-1, "nothing"], ...others]);
  overlay = data.overlay && others.length ? data.runs[others[0][0]] : null;
  if (overlay) $("overlay").value = others[0][0];
}
function renew() {
  layOut();
  fillLegend();
  place(0, lastTime());
}
function choose(index) {
  run = data.runs[index]; selected = null; chain = []; marked = null; range = null; found = [];
  $("search").value = $("found").textContent = "";
  offerOverlays(index);
  $("run").value = index;
  [...$("table").rows].forEach((row, i) => row.classList.toggle("chosen", i === index + 1));
  const kinds = run.ranks.map((_, r) => [r, "rank " + r + ", by kind of tensor"]);
  choices($("rank"), [["all", "all ranks"], ...kinds]);
  choices($("tableRank"), run.ranks.map((_, r) => [r, "rank " + r]));
  fillFigures(); fillRanks(); describe(); renew();
}
$("commandSection").hidden = !data.command;
// A line may end between words, not behind the dash of an option.
$("command").append(...(data.command || "").split(" ").flatMap(word => [element("span", word), " "]));
setTheme(preferred.matches ? "dark" : "light");
fillComparison();
$("aligned").checked = data.runs.length > 1 && !data.overlay;
choose(0);
new ResizeObserver(() => { layOut(); draw(); }).observe(document.querySelector("main"));
window.addEventListener("resize", () => { layOut(); draw(); });
