// Figures and tables.
const BUBBLE = [["warm-up", "#9ecae1"], ["steady", "#fdae6b"], ["cool-down", "#bcbddc"], ["exposed communication", "#d6616b"], ["imbalance", "#c7c7c7"]];

function element(tag, text, className) {
  const e = document.createElement(tag);
  if (text !== undefined) e.textContent = text;
  if (className) e.className = className;
  return e;
}
function addLegend(where, colour, text) {
  const item = element("span"), box = element("i");
  box.style.background = colour;
  item.append(box, text);
  where.append(item);
}
function choices(select, texts) {
  select.replaceChildren(...texts.map(([value, text]) => { const o = element("option", text); o.value = value; return o; }));
}
const rowOf = (cells, tag = "td") => { const row = element("tr"); row.append(...cells.map(c => c instanceof Node ? c : element(tag, c))); return row; };

// Messages without a size are not free: nothing says what they have.
const sent = r => sum(r.ranks.map(k => k.sent));
const sentText = (bytes, r) => sent(r) === 0 && r.transfers.count > 0 ? UNKNOWN : sizeText(bytes, r);
// The step may go on after the pipeline, with gradients and optimizer; bubbles are of the pipeline.
const goesOn = r => r.step > r.makespan;
const exposed = r => sum(r.ranks.map(k => k.bubble[3])) / r.ranks.length;
const FIGURES = [["step time", r => r.step, timeText], [data.runs.some(goesOn) ? "bubble of pipeline" : "bubble of step", r => r.bubble, percent], ["bubble of span", r => r.bubbleSpan, percent],
  ["exposed communication", exposed, timeText], ["peak memory", r => most(r.ranks.map(k => k.peak)), sizeText],
  ["live activations", r => most(r.ranks.map(k => k.live)), String], ["sent between ranks", sent, sentText]];

function fillFigures() {
  $("name").textContent = run.name;
  const figures = [["step time", timeText(run.step)], ...(goesOn(run) ? [["pipeline alone", timeText(run.makespan)]] : []),
    ["longest rank's span", timeText(run.span)], [goesOn(run) ? "bubble of pipeline" : "bubble of step", percent(run.bubble)],
    ["bubble of span", percent(run.bubbleSpan)], ["largest peak memory", sizeText(most(run.ranks.map(r => r.peak)), run)],
    ["live activations at most", most(run.ranks.map(r => r.live))], ["sent between ranks", sentText(sent(run), run)]];
  $("figures").replaceChildren(...figures.map(([label, value]) => {
    const e = element("div", undefined, "figure"); e.append(element("b", value), element("span", label)); return e;
  }));
  const lines = list => list.flatMap(f => [element("dt", f.label), element("dd", f.value, ["", "good", "bad"][f.tone])]);
  const folded = run.facts.filter(f => f.folded);
  $("facts").replaceChildren(...lines(run.facts.filter(f => !f.folded)));
  $("folded").replaceChildren(...lines(folded));
  $("foldedFacts").hidden = folded.length === 0;
}
function fillRanks() {
  const head = rowOf(["rank", "busy", goesOn(run) ? "idle in the pipeline" : "idle in the step", "peak memory", "live activations", "sent", (goesOn(run) ? "the pipeline" : "the step") + ": busy, then the parts of the bubble"], "th");
  head.lastChild.style.textAlign = "left";
  const rows = run.ranks.map((rank, r) => {
    const bar = element("div", undefined, "bar"), cell = element("td");
    const peak = run.sizesKnown ? bytesText(rank.peak) + " at " + timeText(rank.peakAt) : UNKNOWN;
    [["busy", "var(--busy)", rank.busy], ...BUBBLE.map(([n, c], i) => [n, c, rank.bubble[i]])].forEach(([name, colour, time]) => {
      const part = element("i"); part.style.width = 100 * time / (run.makespan || 1) + "%"; part.style.background = colour; part.title = name + ": " + timeText(time); bar.append(part);
    });
    cell.append(bar);
    return rowOf(["rank " + r, timeText(rank.busy), percent(run.makespan ? 1 - rank.busy / run.makespan : 0),
      element("td", peak, run.limit && rank.peak > run.limit ? "over" : ""), rank.live, sentText(rank.sent, run), cell]);
  });
  $("ranks").replaceChildren(head, ...rows);
  $("bubbleLegend").replaceChildren();
  [["busy", "var(--busy)"], ...BUBBLE].forEach(([name, colour]) => addLegend($("bubbleLegend"), colour, name));
}
function comparedRow(r, i, works, peers) {
  const name = element("button", r.name, "linklike"), first = element("td");
  name.onclick = () => choose(i);
  first.append(name);
  const cells = FIGURES.map(([label, value, text]) => {
    const shown = text(value(r), r), least = Math.min(...peers.map(value)), over = label === "peak memory" && r.limit && value(r) > r.limit;
    const best = !data.overlay && shown !== UNKNOWN && r.sameWork && value(r) === least && peers.some(p => value(p) !== least);
    return element("td", shown + (over ? " (over the limit)" : ""), over ? "over" : best ? "best" : "");
  });
  return rowOf([first, r.ranks.length, ...cells, ...(works ? [r.work] : [])]);
}
function fillComparison() {
  if (data.runs.length < 2) return;
  for (const id of ["comparison", "run", "alignedTool"]) $(id).hidden = false;
  const works = data.runs.some(r => r.work), peers = data.runs.filter(r => r.sameWork);
  $("works").hidden = !works;
  $("table").replaceChildren(rowOf(["schedule", "ranks", ...FIGURES.map(c => c[0]), ...(works ? ["work"] : [])], "th"),
    ...data.runs.map((r, i) => comparedRow(r, i, works, peers)));
  choices($("run"), data.runs.map((r, i) => [i, r.name]));
}
function fillLegend() {
  $("kinds").replaceChildren();
  const used = new Set(shownRuns().flatMap(r => [...r.kindsUsed]));
  [...used].sort((a, b) => a - b).forEach(k => addLegend($("kinds"), data.kinds[k].colour, data.kinds[k].text + ": " + data.kinds[k].meaning));
  addLegend($("kinds"), "var(--panel)", "idle");
  if (shownRuns().some(r => r.chunks > 1)) $("kinds").append(element("span", "lighter: later chunk of the rank"));
  if (shownRuns().some(r => r.texts.some(t => t.parts.some(p => p[3])))) $("kinds").append(element("span", "pale, no number: padding"));
  $("kinds").append(element("span", "3F17: forward of microbatch 17 on stage 3; the number in a cell is its microbatch; a pixel that covers several actions has their mixed colour"));
}
// What the canvas shows, for those who cannot see it.
const MOST_ROWS = 500;
function fillActions() {
  if (!$("actionsDetails").open) return;
  const rank = +$("tableRank").value, cells = run.cells[rank], rows = [];
  for (let i = firstAfter(cells.end, view.from); i < cells.count && cells.start[i] < view.to && rows.length < MOST_ROWS; ++i) {
    const go = element("button", cellText(run, rank, i), "linklike"), first = element("td");
    go.onclick = () => select({ run, rank, i });
    first.append(go);
    rows.push(rowOf([first, timeText(cells.start[i]), timeText(cells.end[i]), timeText(cells.end[i] - cells.start[i]), waitText(run, rank, i) || "nothing"]));
  }
  $("actions").replaceChildren(rowOf(["action", "start", "end", "takes", "waited for"], "th"), ...rows);
}
