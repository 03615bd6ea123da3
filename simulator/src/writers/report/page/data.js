"use strict";
// What the page shows, unpacked: times in nanoseconds, sizes in bytes.
const data = JSON.parse(document.getElementById("data").textContent);
const $ = id => document.getElementById(id);

// A reader of zigzag varints, of which what repeats was written once.
function column(text) {
  const packed = Uint8Array.from(atob(text), c => c.charCodeAt(0));
  let at = 0;
  const varint = () => {
    let value = 0, scale = 1, byte;
    do { byte = packed[at++]; value += (byte & 127) * scale; scale *= 128; } while (byte > 127);
    return value;
  };
  const bytes = new Uint8Array(varint());
  for (let to = 0; ;) {
    const literals = varint();
    bytes.set(packed.subarray(at, at + literals), to);
    at += literals; to += literals;
    const length = varint();
    if (length === 0) break;
    const distance = varint();
    for (let i = 0; i < length; ++i, ++to) bytes[to] = bytes[to - distance];
  }
  let next = 0;
  return () => {
    let value = 0, scale = 1, byte;
    do { byte = bytes[next++]; value += (byte & 127) * scale; scale *= 128; } while (byte > 127);
    return value % 2 === 0 ? value / 2 : -(value + 1) / 2;
  };
}

// Reads instructions: which text, and its microbatches, which go on from those that it had last.
function whatReader(what, holes) {
  const text = column(what.text), microbatch = column(what.microbatch), last = new Map();
  return numbers => {
    const shape = text() - 1;
    if (shape < 0) return -1;
    let before = last.get(shape);
    if (!before) last.set(shape, before = new Int32Array(holes[shape]).fill(-1));
    for (let i = 0; i < before.length; ++i) { before[i] += microbatch(); numbers[i] = before[i]; }
    return shape;
  };
}

const total = counts => counts.reduce((a, b) => a + b, 0);

// Times and bytes of the points of every rank, with the least and the most of each block of them.
const BLOCK = 32;
function unpackProfile(packed) {
  const time = column(packed.time), bytes = column(packed.bytes);
  return packed.counts.map(count => {
    const points = { time: new Float64Array(count), bytes: new Float64Array(count), least: new Float64Array(Math.ceil(count / BLOCK)).fill(Infinity), most: new Float64Array(Math.ceil(count / BLOCK)) };
    for (let i = 0, t = 0, b = 0, block; i < count; ++i) {
      points.time[i] = t += time(); points.bytes[i] = b += bytes(); block = Math.floor(i / BLOCK);
      points.least[block] = Math.min(points.least[block], b); points.most[block] = Math.max(points.most[block], b);
    }
    return points;
  });
}

// A rank's cells: when each starts and ends, which text it has, and which microbatches, `slots` of them a cell.
function unpackCells(run, holes) {
  const what = whatReader(run.cells.what, holes), gap = column(run.cells.gap), duration = column(run.cells.duration);
  const slots = run.slots, numbers = new Int32Array(Math.max(1, ...holes));
  return run.cells.counts.map(count => {
    const cells = { count, start: new Float64Array(count), end: new Float64Array(count), shape: new Int32Array(count), mb: new Int32Array(count * slots).fill(-1) };
    for (let i = 0, t = 0; i < count; ++i) {
      const shape = cells.shape[i] = what(numbers);
      for (let s = 0; s < holes[shape]; ++s) cells.mb[i * slots + s] = numbers[s];
      t += gap(); cells.start[i] = t;
      t += duration(); cells.end[i] = t;
    }
    return cells;
  });
}

function unpackWaits(run, holes) {
  const what = whatReader(run.waits.what, holes), rank = column(run.waits.rank), place = column(run.waits.place);
  const numbers = new Int32Array(Math.max(1, ...holes));
  run.cells.forEach((cells, r) => {
    cells.waitShape = new Int32Array(cells.count); cells.waitText = new Map();
    cells.fromRank = new Int32Array(cells.count); cells.fromPlace = new Int32Array(cells.count);
    cells.waitMb = new Array(cells.count);
    for (let i = 0; i < cells.count; ++i) {
      const shape = cells.waitShape[i] = what(numbers);
      if (shape >= 0) cells.waitMb[i] = holes[shape] === 1 ? numbers[0] : Array.from(numbers.subarray(0, holes[shape]));
      const dr = rank(), dp = place();
      cells.fromRank[i] = dr === 0 && dp === 0 ? -1 : r + dr;
      cells.fromPlace[i] = i + dp;
    }
  });
}

function unpackTransfers(packed, holes) {
  const what = whatReader(packed.what, holes), to = column(packed.to), begin = column(packed.begin), duration = column(packed.duration);
  const numbers = new Int32Array(Math.max(1, ...holes)), n = total(packed.counts);
  const list = { count: n, from: new Int32Array(n), to: new Int32Array(n), begin: new Float64Array(n), end: new Float64Array(n) };
  let at = 0;
  packed.counts.forEach((count, rank) => {
    for (let i = 0, t = 0; i < count; ++i, ++at) {
      what(numbers);
      list.from[at] = rank; list.to[at] = rank + to();
      list.begin[at] = t += begin(); list.end[at] = t + duration();
    }
  });
  return list;
}

function unpackCritical(packed) {
  const rank = column(packed.rank), duration = column(packed.duration), steps = [];
  for (let i = 0, t = packed.start; i < packed.count; ++i) {
    const end = t + duration();
    steps.push([t, end, rank()]);
    t = end;
  }
  return steps;
}

for (const run of data.runs) {
  const holes = run.texts.map(t => t.text.split("#").length - 1);
  run.slots = Math.max(1, ...run.texts.map(t => t.parts.filter(p => p[2] >= 0).length));
  run.chunks = 1 + Math.max(0, ...run.texts.flatMap(t => t.parts.map(p => p[1])));
  run.cells = unpackCells(run, holes);
  unpackWaits(run, holes);
  run.transfers = unpackTransfers(run.transfers, holes);
  run.critical = unpackCritical(run.critical);
  run.memory = unpackProfile(run.memory);
  run.end = Math.max(run.makespan, ...run.cells.map(c => c.count ? c.end[c.count - 1] : 0));
}

const filled = (text, numbers) => { let i = 0; return text.replace(/#/g, () => numbers[i++]); };
function cellText(run, rank, i) {
  const cells = run.cells[rank];
  return filled(run.texts[cells.shape[i]].text, cells.mb.subarray(i * run.slots, (i + 1) * run.slots));
}
function waitText(run, rank, i) {
  const cells = run.cells[rank], shape = cells.waitShape[i];
  return shape < 0 ? "" : filled(run.texts[shape].text, [].concat(cells.waitMb[i]));
}

const trim = x => String(+x.toPrecision(4));
function timeText(ns) {
  const a = Math.abs(ns);
  if (a >= 1e9) return trim(ns / 1e9) + " s";
  if (a >= 1e6) return trim(ns / 1e6) + " ms";
  if (a >= 1e3) return trim(ns / 1e3) + " us";
  return Math.round(ns) + (ns === 0 ? "" : " ns");
}
function bytesText(bytes) {
  for (const [size, unit] of [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"]]) if (bytes >= size) return trim(bytes / size) + " " + unit;
  return bytes + " B";
}
const UNKNOWN = "unknown";
const sizeText = (bytes, run) => run.sizesKnown ? bytesText(bytes) : UNKNOWN;
const percent = x => (100 * x).toFixed(2) + " %";
const most = list => list.reduce((a, b) => Math.max(a, b), 0);
const sum = list => list.reduce((a, b) => a + b, 0);
