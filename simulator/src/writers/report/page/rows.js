// Rows of pixels. A pixel has the colours of what it covers, weighted by time: sums over all cells before a time make that
// as fast for a whole step as for a part of it.
const channels = hex => [1, 3, 5].map(i => parseInt(hex.slice(i, i + 2), 16));
const pixelOf = ([r, g, b]) => (255 << 24 | b << 16 | g << 8 | r) >>> 0;
const towardsWhite = (colour, share) => colour.map(v => Math.round(v + (255 - v) * share));
const linear = value => (value <= 10 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4);
// Black text has more contrast on it than white text.
const isLight = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b) > 0.179;

function partColour(run, part) {
  const colour = towardsWhite(channels(data.kinds[part[0]].colour), run.chunks > 1 ? 0.55 * part[1] / (run.chunks - 1) : 0);
  return part[3] ? towardsWhite(colour, 0.7) : colour; // padding
}
// The part of a cell that is drawn on a level: an overlapped pair has its forward above its backward.
const partOn = (parts, level, levels) => parts[Math.floor(level * parts.length / levels)];

// Levels that a row needs, and the colour of every text on each.
function prepareColours(run) {
  const used = new Set(run.cells.flatMap(c => [...new Set(c.shape)]));
  run.kindsUsed = new Set([...used].flatMap(s => run.texts[s].parts.map(p => p[0])));
  run.levels = most([...used].map(s => run.texts[s].parts.length)) || 1;
  run.colours = [];
  for (let level = 0; level < run.levels; ++level)
    run.colours.push(run.texts.map(t => partColour(run, partOn(t.parts, level, run.levels))));
  run.sums = [];
}
data.runs.forEach(prepareColours);

// Per level four sums over the cells before each: red, green and blue times duration, and duration.
function sumsOf(run, rank) {
  if (run.sums[rank]) return run.sums[rank];
  const cells = run.cells[rank];
  return run.sums[rank] = run.colours.map(colours => {
    const sums = new Float64Array(4 * (cells.count + 1));
    for (let i = 0, at = 0; i < cells.count; ++i, at += 4) {
      const colour = colours[cells.shape[i]], duration = cells.end[i] - cells.start[i];
      for (let c = 0; c < 3; ++c) sums[at + 4 + c] = sums[at + c] + colour[c] * duration;
      sums[at + 7] = sums[at + 3] + duration;
    }
    return sums;
  });
}

// The first of sorted times that is later.
function firstAfter(times, time) {
  let low = 0, high = times.length;
  while (low < high) { const mid = (low + high) >> 1; if (times[mid] > time) high = mid; else low = mid + 1; }
  return low;
}

function mixRow(out, width, run, rank, level, span, back) {
  const { start, end, shape, count } = run.cells[rank], sums = sumsOf(run, rank)[level], colours = run.colours[level];
  const scale = (span.to - span.from) / width;
  let i = firstAfter(end, span.from), r0 = 0, g0 = 0, b0 = 0, w0 = 0;
  for (let x = -1; x < width; ++x) {
    const time = span.from + (x + 1) * scale;
    while (i < count && end[i] <= time) ++i;
    let r = sums[4 * i], g = sums[4 * i + 1], b = sums[4 * i + 2], w = sums[4 * i + 3];
    if (i < count && start[i] < time) {
      const part = time - start[i], colour = colours[shape[i]];
      r += part * colour[0]; g += part * colour[1]; b += part * colour[2]; w += part;
    }
    if (x >= 0) {
      const idle = Math.max(0, 1 - (w - w0) / scale);
      out[x] = (255 << 24 | Math.min(255, (b - b0) / scale + idle * back[2] + 0.5) << 16 |
        Math.min(255, (g - g0) / scale + idle * back[1] + 0.5) << 8 | Math.min(255, (r - r0) / scale + idle * back[0] + 0.5)) >>> 0;
    }
    r0 = r; g0 = g; b0 = b; w0 = w;
  }
}

function blend(pixel, colour, share) {
  const r = pixel & 255, g = pixel >> 8 & 255, b = pixel >> 16 & 255;
  return (255 << 24 | Math.round(b + (colour[2] - b) * share) << 16 | Math.round(g + (colour[1] - g) * share) << 8 | Math.round(r + (colour[0] - r) * share)) >>> 0;
}

// The cells of one microbatch stand out of the others, a pixel wide at least.
function markRow(out, width, run, rank, level, span, back, marked) {
  for (let x = 0; x < width; ++x) out[x] = blend(out[x], back, 0.76);
  const cells = run.cells[rank], scale = width / (span.to - span.from);
  for (let i = firstAfter(cells.end, span.from); i < cells.count && cells.start[i] < span.to; ++i) {
    const part = partOn(run.texts[cells.shape[i]].parts, level, run.levels);
    if (part[2] < 0 || cells.mb[i * run.slots + part[2]] !== marked) continue;
    const first = Math.max(0, Math.floor((cells.start[i] - span.from) * scale));
    const last = Math.min(width, Math.max(first + 1, Math.round((cells.end[i] - span.from) * scale)));
    out.fill(pixelOf(run.colours[level][cells.shape[i]]), first, last);
  }
}

// A thin line at the end of every cell that is wide enough to spare it.
function separateRow(out, width, run, rank, span, back, narrowest) {
  const cells = run.cells[rank], scale = width / (span.to - span.from), first = firstAfter(cells.end, span.from);
  if (firstAfter(cells.start, span.to) - first > width) return;
  for (let i = first; i < cells.count && cells.end[i] < span.to; ++i) {
    if ((cells.end[i] - cells.start[i]) * scale < narrowest) continue;
    const x = Math.ceil((cells.end[i] - span.from) * scale) - 1;
    if (x >= 0 && x < width) out[x] = blend(out[x], back, 0.7);
  }
}
