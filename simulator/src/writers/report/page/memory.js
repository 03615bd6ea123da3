// Memory over time: every pixel reaches from the least to the most that its time has.
const LINES = ["#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#8c6d31", "#7f7f7f",
  "#6a51a3", "#41ab5d", "#fb6a4a", "#9e9ac8", "#238b8d", "#bdb76b"];
const RAMP = ["#2c4fb0", "#1f9e89", "#7fbf3f", "#f0a030", "#d0402b"], MEMORY_HEIGHT = 230;

// From the first rank to the last one, where there are too many for colours of their own.
function lineColour(i, count) {
  if (count <= 8) return channels(LINES[i]);
  const at = i / (count - 1) * (RAMP.length - 1), k = Math.min(RAMP.length - 2, Math.floor(at)), a = channels(RAMP[k]), b = channels(RAMP[k + 1]);
  return a.map((v, c) => Math.round(v + (b[c] - v) * (at - k)));
}

// Per pixel the least, the most, and when it was most.
function envelope(points, width, span) {
  const { time, bytes } = points, n = time.length, scale = (span.to - span.from) / width;
  const result = { least: new Float64Array(width), most: new Float64Array(width), when: new Float64Array(width) };
  let i = span.from > 0 ? firstAfter(time, span.from) : 0, value = n === 0 ? 0 : bytes[Math.max(0, i - 1)];
  for (let x = 0; x < width; ++x) {
    const until = x === width - 1 ? span.to * (1 + 1e-12) : span.from + (x + 1) * scale;
    let low = value, high = value, when = span.from + x * scale;
    while (i < n && time[i] < until) {
      const block = i / BLOCK;
      if (i % BLOCK === 0 && i + BLOCK <= n && time[i + BLOCK - 1] < until && points.most[block] <= high) {
        low = Math.min(low, points.least[block]);
        i += BLOCK;
      } else {
        if (bytes[i] > high) { high = bytes[i]; when = time[i]; }
        if (bytes[i] < low) low = bytes[i];
        ++i;
      }
      value = bytes[i - 1];
    }
    result.least[x] = low; result.most[x] = high; result.when[x] = when;
  }
  return result;
}
// What points say of ascending times.
function valuesAt(points, times) {
  let i = 0;
  return times.map(t => { while (i < points.time.length && points.time[i] <= t) ++i; return i === 0 ? 0 : points.bytes[i - 1]; });
}
function niceAbove(value) {
  const power = Math.pow(10, Math.floor(Math.log10(value)));
  return [1, 1.2, 1.6, 2, 2.4, 3.2, 4, 5, 6, 8, 10].map(f => f * power).find(v => v >= value);
}
function fillSpan(frame, x, from, to, pixel) {
  for (let y = Math.max(0, Math.round(from)); y < Math.min(frame.h, Math.max(Math.round(to), Math.round(from) + 1)); ++y) frame.pixels[y * frame.w + x] = pixel;
}
function drawRanks(frame, left, width, yOf) {
  run.memory.forEach((points, rank) => {
    const { least, most: top } = envelope(points, width, view), pixel = pixelOf(lineColour(rank, run.ranks.length));
    const y0 = yOf(0), slope = yOf(1) - y0, { pixels, w, h } = frame;
    for (let x = 0; x < width; ++x) {
      const last = Math.min(h, Math.round(y0 + slope * least[x]) + 1);
      for (let at = Math.max(0, Math.round(y0 + slope * top[x])), p = at * w + left + x; at < last; ++at, p += w) pixels[p] = pixel;
    }
  });
}
function drawKinds(frame, left, width, yOf, rank) {
  const all = envelope(run.memory[rank], width, view);
  run.kindProfiles = run.kindProfiles || run.memoryKinds.map(k => unpackProfile(k.points));
  const shares = run.kindProfiles.map(ranks => valuesAt(ranks[rank], all.when)), shown = [];
  for (let x = 0; x < width; ++x) {
    let below = 0;
    shares.forEach((values, k) => {
      if (values[x] <= 0) return;
      shown[k] = true;
      const colour = channels(LINES[k % LINES.length]);
      // What the pixel does not hold all the time is lighter.
      const floor = yOf(all.least[x]), bottom = yOf(below), top = yOf(below + values[x]);
      fillSpan(frame, left + x, top, bottom, pixelOf(colour));
      if (top < floor) fillSpan(frame, left + x, top, Math.min(floor, bottom), blend(pixelOf(colour), theme.back, 0.45));
      below += values[x];
    });
  }
  return run.memoryKinds.map((kind, k) => [kind.name.replace(/_/g, " "), LINES[k % LINES.length], shown[k]]).filter(k => k[2]);
}
function drawMemory() {
  if (!run.sizesKnown) return;
  const frame = frameOf($("memory"), $("memory").parentElement.clientWidth - 34, MEMORY_HEIGHT), bottom = MEMORY_HEIGHT - AXIS;
  const choice = $("rank").value, ranks = choice === "all" ? run.ranks : [run.ranks[+choice]], legend = $("memoryLegend");
  const top = niceAbove(1.02 * Math.max(most(ranks.map(r => r.peak)), run.limit || 0, 4));
  const yOf = bytes => (bottom - bytes / top * (bottom - 6)) * frame.ratio;
  const left = Math.round(LEFT * frame.ratio), width = Math.round(plotWidth(frame.width) * frame.ratio);
  gridLines(frame, 0, bottom + 4);
  legend.replaceChildren();
  if (choice === "all") {
    drawRanks(frame, left, width, yOf);
    const n = run.ranks.length, named = n <= 8 ? run.ranks.map((_, r) => r) : [0, 0.25, 0.5, 0.75, 1].map(s => Math.round(s * (n - 1)));
    for (const r of named) addLegend(legend, "rgb(" + lineColour(r, n) + ")", "rank " + r + (n > 8 && r !== n - 1 ? " …" : ""));
  } else {
    for (const [name, colour] of drawKinds(frame, left, width, yOf, +choice)) addLegend(legend, colour, name);
    addLegend(legend, theme.panel, "lighter: not all the time of the pixel");
  }
  show(frame);
  const g = frame.g;
  g.textAlign = "right"; g.fillStyle = theme.soft;
  for (let i = 0; i <= 4; ++i) g.fillText(bytesText(Math.round(top * i / 4)), LEFT - 6, Math.max(10, yOf(top * i / 4) / frame.ratio + 4));
  if (run.limit) {
    const y = yOf(run.limit) / frame.ratio;
    g.strokeStyle = theme.bad; g.setLineDash([6, 4]); g.beginPath(); g.moveTo(LEFT, y); g.lineTo(frame.width - RIGHT, y); g.stroke(); g.setLineDash([]);
    addLegend(legend, theme.bad, "limit " + bytesText(run.limit));
  }
  axis(frame, MEMORY_HEIGHT - 8);
}
