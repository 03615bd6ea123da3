// The timeline: which rows there are, and one frame of it.
const LEFT = 62, RIGHT = 10, AXIS = 26, HEADING = 20, MIN_ROW = 8, MAX_ROW = 26;
const FONT = "11px system-ui, Helvetica, Arial, sans-serif";
let run = data.runs[0], overlay = null, view = { from: 0, to: 1 };
let marked = null, selected = null, range = null, rowScale = 1, lanes = [], contentHeight = 0, theme = {};

const style = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
function readTheme() {
  theme = Object.fromEntries(["ink", "soft", "panel", "grid", "bad", "focus", "strong", "busy", "line"].map(n => [n, style("--" + n)]));
  theme.back = channels(theme.panel);
}
const shownRuns = () => $("aligned").checked ? data.runs : [run];
const lastTime = () => Math.max(1, ...shownRuns().map(r => r.end), overlay ? overlay.end : 0);

// Rows as high as the window has room for all of them.
function layOut() {
  const rows = sum(shownRuns().map(r => r.ranks.length)), room = Math.max(220, 0.62 * window.innerHeight) - AXIS;
  const least = overlay ? 16 : MIN_ROW, height = Math.round(rowScale * Math.min(MAX_ROW, Math.max(least, Math.floor(room / rows))));
  const headed = shownRuns().length > 1;
  lanes = []; contentHeight = 0;
  for (const shown of shownRuns()) {
    if (headed) { lanes.push({ heading: shown.name, top: contentHeight, height: HEADING }); contentHeight += HEADING; }
    for (let rank = 0; rank < shown.ranks.length; ++rank, contentHeight += height) {
      const above = overlay && !headed ? Math.round(0.6 * height) : height;
      lanes.push({ run: shown, rank, top: contentHeight, height: above, row: height });
      if (above < height) lanes.push({ run: overlay, rank, top: contentHeight + above, height: height - above, below: true });
    }
  }
  $("spacer").style.height = contentHeight + AXIS + "px";
  $("scroll").style.height = Math.min(contentHeight + AXIS, Math.max(220, Math.round(0.62 * window.innerHeight))) + 2 + "px";
  minimapImage = null;
}

const frames = new Map();
// A canvas of the size it is shown with, at the resolution of the screen, and its pixels.
function frameOf(canvas, width, height) {
  width = Math.max(width, LEFT + RIGHT + 40);  // a page that is not shown yet has none
  const ratio = window.devicePixelRatio || 1, w = Math.round(width * ratio), h = Math.round(height * ratio);
  let frame = frames.get(canvas);
  if (!frame || frame.w !== w || frame.h !== h) {
    canvas.width = w; canvas.height = h; canvas.style.width = width + "px"; canvas.style.height = height + "px";
    const g = canvas.getContext("2d", { alpha: false, willReadFrequently: true }), image = g.createImageData(w, h);
    frames.set(canvas, frame = { g, image, pixels: new Uint32Array(image.data.buffer), w, h, width, height, ratio });
  }
  frame.g.setTransform(ratio, 0, 0, ratio, 0, 0);
  frame.g.font = FONT;
  frame.pixels.fill(pixelOf(theme.back));
  return frame;
}
function show(frame) { frame.g.putImageData(frame.image, 0, 0); }
const plotWidth = width => width - LEFT - RIGHT;
const xOf = (time, width) => LEFT + (time - view.from) / (view.to - view.from) * plotWidth(width);
const timeAt = (x, width) => view.from + (x - LEFT) / plotWidth(width) * (view.to - view.from);

function ticks(width) {
  const about = (view.to - view.from) / Math.max(2, Math.floor(plotWidth(width) / 110)), power = Math.pow(10, Math.floor(Math.log10(about)));
  const step = Math.max(1, [1, 2, 5, 10].map(f => f * power).find(s => s >= about) || about), list = [];
  for (let t = Math.ceil(view.from / step) * step; t <= view.to; t += step) list.push(t);
  return list;
}
// Exact enough that two ticks never read the same.
function tickText(time, step) {
  const [size, unit] = [[1e9, " s"], [1e6, " ms"], [1e3, " us"], [1, " ns"]].find(u => view.to >= u[0]) || [1, " ns"];
  const digits = Math.max(0, Math.ceil(-Math.log10(step / size) - 1e-9));
  return time === 0 ? "0" : (time / size).toFixed(Math.min(9, digits)) + unit;
}
function gridLines(frame, top, bottom) {
  const grid = pixelOf(channels(theme.grid));
  for (const t of ticks(frame.width)) {
    const x = Math.round(xOf(t, frame.width) * frame.ratio);
    for (let y = Math.round(top * frame.ratio); y < Math.round(bottom * frame.ratio); ++y) frame.pixels[y * frame.w + x] = grid;
  }
}
function axis(frame, y) {
  const g = frame.g, list = ticks(frame.width), step = list.length > 1 ? list[1] - list[0] : view.to - view.from;
  g.textAlign = "center"; g.fillStyle = theme.soft;
  for (const t of list) {
    const text = tickText(t, step), half = g.measureText(text).width / 2;
    g.fillText(text, Math.min(frame.width - half - 2, xOf(t, frame.width)), y);
  }
}
function clip(g, width, top, bottom) { g.save(); g.beginPath(); g.rect(LEFT, top, plotWidth(width) + 1, bottom - top); g.clip(); }

let rowPixels = new Uint32Array(0);
function paintLane(frame, lane, y, top) {
  const left = Math.round(LEFT * frame.ratio), width = Math.round(plotWidth(frame.width) * frame.ratio);
  if (rowPixels.length !== width) rowPixels = new Uint32Array(width);
  const gap = lane.height > 5 && !lane.below ? 1 : 0, levels = lane.run.levels;
  for (let level = 0; level < levels; ++level) {
    mixRow(rowPixels, width, lane.run, lane.rank, level, view, theme.back);
    if (marked !== null) markRow(rowPixels, width, lane.run, lane.rank, level, view, theme.back, marked);
    separateRow(rowPixels, width, lane.run, lane.rank, view, theme.back, 5 * frame.ratio);
    const part = (lane.height - gap) / levels;
    const from = Math.max(Math.round(top * frame.ratio), Math.round((y + gap + level * part) * frame.ratio)), to = Math.min(frame.h, Math.round((y + gap + (level + 1) * part) * frame.ratio));
    for (let py = from; py < to; ++py) frame.pixels.set(rowPixels, py * frame.w + left);
  }
}
function labelLane(frame, lane, y) {
  const { run: shown, rank, height } = lane, cells = shown.cells[rank], g = frame.g, scale = plotWidth(frame.width) / (view.to - view.from);
  const first = firstAfter(cells.end, view.from), last = firstAfter(cells.start, view.to), part = height / shown.levels;
  if (part < 10 || last - first > plotWidth(frame.width)) return;
  g.textAlign = "center";
  for (let i = first; i < last; ++i) {
    const w = (cells.end[i] - cells.start[i]) * scale, x = (Math.max(cells.start[i], view.from) + Math.min(cells.end[i], view.to)) / 2;
    if (w < 9) continue;
    const parts = shown.texts[cells.shape[i]].parts;
    parts.forEach((p, k) => {
      if (p[3]) return;
      const mb = p[2] < 0 ? -1 : cells.mb[i * shown.slots + p[2]], label = p[2] < 0 ? data.kinds[p[0]].text : String(mb);
      if (w < 6.6 * label.length + 4) return;
      g.globalAlpha = marked !== null && mb !== marked ? 0.35 : 1;
      g.fillStyle = marked !== null && mb !== marked ? theme.ink : isLight(partColour(shown, p)) ? "#000000" : "#ffffff";
      g.fillText(label, xOf(x, frame.width), y + (k + 0.5) * height / parts.length + 4);
    });
  }
  g.globalAlpha = 1;
}
const laneOf = (shown, rank) => lanes.find(l => l.run === shown && l.rank === rank && !l.below);
const yOfLane = lane => AXIS + lane.top - $("scroll").scrollTop;

// Runs as lines through the middle of their rows.
function drawLine(frame, steps, shown, colour) {
  const g = frame.g;
  g.beginPath(); g.lineWidth = 3.6; g.lineJoin = "round";
  steps.forEach(([begin, end, rank], i) => {
    const lane = laneOf(shown, rank), y = yOfLane(lane) + lane.height / 2;
    if (i === 0) g.moveTo(xOf(begin, frame.width), y); else g.lineTo(xOf(begin, frame.width), y);
    g.lineTo(xOf(end, frame.width), y);
  });
  g.strokeStyle = theme.panel; g.stroke(); g.lineWidth = 1.8; g.strokeStyle = colour; g.stroke(); g.lineWidth = 1;
}
const MOST_ARROWS = 6000;
function drawTransfers(frame, shown) {
  const { count, begin, end, from, to } = shown.transfers, g = frame.g, chosen = [];
  for (let i = 0; i < count; ++i) if (end[i] >= view.from && begin[i] <= view.to) chosen.push(i);
  if (chosen.length > MOST_ARROWS) return chosen.length;
  const middles = shown.ranks.map((_, r) => { const lane = laneOf(shown, r); return yOfLane(lane) + lane.height / 2; });
  g.strokeStyle = theme.ink; g.globalAlpha = 0.6; g.beginPath();
  for (const i of chosen) { g.moveTo(xOf(begin[i], frame.width), middles[from[i]]); g.lineTo(xOf(end[i], frame.width), middles[to[i]]); }
  g.stroke(); g.globalAlpha = 1;
  return 0;
}
function drawOverlays(frame) {
  const g = frame.g;
  let hidden = 0;
  clip(g, frame.width, AXIS, frame.height);
  for (const shown of shownRuns()) {
    if ($("transfers").checked) hidden += drawTransfers(frame, shown);
    if ($("critical").checked && shown.critical.length) drawLine(frame, shown.critical, shown, theme.strong);
  }
  if (selected && laneOf(selected.run, selected.rank)) {
    if (chain.length > 1) drawLine(frame, chain, selected.run, theme.focus);
    const lane = laneOf(selected.run, selected.rank), cells = selected.run.cells[selected.rank], x = xOf(cells.start[selected.i], frame.width);
    g.strokeStyle = theme.strong; g.lineWidth = 2;
    g.strokeRect(x, yOfLane(lane) + 1, Math.max(2, xOf(cells.end[selected.i], frame.width) - x), lane.height - 2);
    g.lineWidth = 1;
  }
  if (range) {
    const a = xOf(Math.min(range.from, range.to), frame.width), b = xOf(Math.max(range.from, range.to), frame.width);
    g.fillStyle = theme.focus; g.globalAlpha = 0.14; g.fillRect(a, AXIS, b - a, frame.height); g.globalAlpha = 1;
    g.fillRect(a, AXIS, 1, frame.height); g.fillRect(b, AXIS, 1, frame.height);
  }
  g.restore();
  if (hidden) note(frame, hidden.toLocaleString("en") + " transfers in view: zoom in to see them");
}
function note(frame, text) {
  const g = frame.g, width = g.measureText(text).width + 16;
  g.fillStyle = theme.panel; g.fillRect(LEFT + 6, frame.height - 26, width, 20);
  g.strokeStyle = theme.line; g.strokeRect(LEFT + 6.5, frame.height - 25.5, width, 20);
  g.fillStyle = theme.ink; g.textAlign = "left"; g.fillText(text, LEFT + 14, frame.height - 12);
}
function drawTimeline() {
  const scroll = $("scroll"), frame = frameOf($("timeline"), scroll.clientWidth, scroll.clientHeight), g = frame.g;
  gridLines(frame, AXIS - 4, frame.height);
  const seen = lanes.filter(l => yOfLane(l) + l.height > AXIS && yOfLane(l) < frame.height);
  for (const lane of seen) if (!lane.heading) paintLane(frame, lane, yOfLane(lane), AXIS);
  show(frame);
  clip(g, frame.width, AXIS, frame.height);
  for (const lane of seen) if (!lane.heading) labelLane(frame, lane, yOfLane(lane));
  g.restore();
  drawOverlays(frame);
  g.save(); g.beginPath(); g.rect(0, AXIS, frame.width, frame.height); g.clip();
  const every = Math.max(1, Math.ceil(13 / (lanes.find(l => l.row) || { row: 13 }).row));
  for (const lane of seen) {
    g.fillStyle = lane.heading ? theme.ink : theme.soft; g.textAlign = lane.heading ? "left" : "right";
    if (lane.heading) { g.font = "600 " + FONT; g.fillText(lane.heading, 8, yOfLane(lane) + 14); g.font = FONT; }
    else if (!lane.below && lane.rank % every === 0) g.fillText("rank " + lane.rank, LEFT - 8, yOfLane(lane) + Math.min(lane.row, 13) / 2 + (lane.row > 13 ? (lane.row - 13) / 2 : 0) + 4);
  }
  g.restore();
  axis(frame, AXIS - 9);
  drawMinimap();
}

// The whole step, a pixel high for several rows, with what the timeline shows of it.
let minimapImage = null;
function drawMinimap() {
  const rows = lanes.filter(l => !l.heading && !l.below), height = Math.min(60, Math.max(24, 3 * rows.length));
  const frame = frameOf($("minimap"), $("scroll").clientWidth, height), left = Math.round(LEFT * frame.ratio), width = Math.round(plotWidth(frame.width) * frame.ratio);
  const whole = { from: 0, to: lastTime() };
  if (!minimapImage || minimapImage.w !== width || minimapImage.h !== frame.h) {
    minimapImage = { w: width, h: frame.h, pixels: minimapPixels(rows, width, frame.h, whole) };
  }
  for (let y = 0; y < frame.h; ++y) frame.pixels.set(minimapImage.pixels.subarray(y * width, (y + 1) * width), y * frame.w + left);
  show(frame);
  const g = frame.g, x = t => LEFT + t / whole.to * plotWidth(frame.width), a = x(view.from), b = x(view.to);
  g.fillStyle = theme.panel; g.globalAlpha = 0.65; g.fillRect(LEFT, 0, a - LEFT, height); g.fillRect(b, 0, frame.width - b, height); g.globalAlpha = 1;
  g.strokeStyle = theme.strong; g.strokeRect(a + 0.5, 0.5, Math.max(2, b - a - 1), height - 1);
}
function minimapPixels(rows, width, height, whole) {
  const sums = new Float32Array(3 * width * height), counts = new Float32Array(height), row = new Uint32Array(width);
  rows.forEach((lane, n) => {
    mixRow(row, width, lane.run, lane.rank, 0, whole, theme.back);
    const first = Math.floor(n * height / rows.length), last = Math.max(first + 1, Math.floor((n + 1) * height / rows.length));
    for (let y = first; y < last && y < height; ++y) {
      ++counts[y];
      for (let x = 0, at = 3 * y * width; x < width; ++x, at += 3) { sums[at] += row[x] & 255; sums[at + 1] += row[x] >> 8 & 255; sums[at + 2] += row[x] >> 16 & 255; }
    }
  });
  const pixels = new Uint32Array(width * height);
  for (let y = 0; y < height; ++y) for (let x = 0; x < width; ++x) {
    const at = 3 * (y * width + x), n = counts[y] || 1;
    pixels[y * width + x] = pixelOf([0, 1, 2].map(c => Math.round(sums[at + c] / n)));
  }
  return pixels;
}
