#!/usr/bin/env bash
# Figures by hand: closed forms of step time and bubble, peaks, and what has to add up.
source "$(dirname "$0")/support/lib.sh"

# simulated NAME UNITS EXPRESSION, with p ranks, m microbatches; ms() turns units into nanoseconds.
simulated() {
  expect_exit 0 simulate "$1" --ranks 4 --microbatches 8 --unit "$2" --json
  python3 -c '
import json, sys
d = json.load(open("stdout"))
p, m = 4, 8
ranks = d["per_rank"]
span, makespan = d["rank_span_ns"] / 1e6, d["makespan_ns"] / 1e6
live = [r["peak_live_activations"] for r in ranks]
near = lambda a, b: abs(a - b) < 1e-9
idle = sum(d["makespan_ns"] - r["busy_ns"] for r in ranks)
assert sum(d["bubble_ns"].values()) == idle, (d["bubble_ns"], idle)
assert near(d["bubble_fraction"], idle / p / d["makespan_ns"])
assert near(sum(d["bubble_fraction_per_rank"]) / p, d["bubble_fraction"])
assert d["exposed_communication_ns"] == d["bubble_ns"]["exposed_communication"]
assert all(r["span_ns"] == r["end_ns"] - r["start_ns"] == r["busy_ns"] + r["idle_ns"] for r in ranks)
assert d["rank_span_ns"] == max(r["span_ns"] for r in ranks) and d["ideal_ns"] == max(r["busy_ns"] for r in ranks)
path = d["critical_path"]
assert path[0]["start_ns"] == 0 and path[-1]["end_ns"] == d["makespan_ns"]
assert all(a["end_ns"] <= b["start_ns"] or a["end_ns"] <= b["end_ns"] for a, b in zip(path, path[1:]))
assert eval(sys.argv[1]), (sys.argv[1], makespan, span, live)
' "$3" || fail "$1 $2: $3"
}

# (m + p - 1)(F + B), and 2(p - 1) latencies.
simulated gpipe F=1,B=2 'near(makespan, 33) and near(d["bubble_fraction"], 3 / 11) and live == [8] * 4'
simulated gpipe F=2,B=3,c=0.25 'near(makespan, 55 + 6 * 0.25)'
# The same, and 2(p - 1)m/p + 2(p - 2) latencies where p divides m; min(p - r, m) microbatches live.
simulated 1f1b F=1,B=2 'near(makespan, 33) and near(d["bubble_fraction"], 3 / 11) and live == [4, 3, 2, 1]'
simulated 1f1b F=2,B=3,c=0.25 'near(makespan, 55 + 16 * 0.25)'
# Two chunks of F=1, B=2 are a rank of 2 and 4: m(F + B) + (p - 1)(F + B)/v, and 2(pv - 1) latencies.
simulated interleaved-1f1b:chunks=2 F=1,B=2 'near(makespan, 8 * 6 + 3 * 3) and live[0] == 3 * 4 - 1'
simulated interleaved-1f1b:chunks=2 F=1,B=2,c=0.1 'near(makespan, 57 + 14 * 0.1)'
# (p - 1)(F + I - W) and, in span, (p - 1)(F + I - 2W) of bubble.
simulated zb-h1 F=1,I=1,W=1 'near(makespan, 24 + 3) and live == [4] * 4'
simulated zb-h1 F=3,I=3,W=2 'near(makespan, 64 + 3 * 4)'
simulated zb-h2 F=1,I=1,W=1 'near(span, 24) and near(makespan, 27) and live == [7] * 4 and d["bubble_fraction_span"] == 0'
simulated zb-h2 F=3,I=3,W=2 'near(span, 64 + 3 * 2)'

# One microbatch, one rank, no time at all.
expect_exit 0 simulate 1f1b --ranks 1 --microbatches 1 --unit F=1,B=2 --json
expect_json 'd["makespan_ns"] == 3000000 and d["bubble_fraction"] == 0 and sum(d["bubble_ns"].values()) == 0'
expect_exit 0 simulate 1f1b --ranks 4 --microbatches 8 --unit F=0,B=0 --json
expect_json 'd["makespan_ns"] == 0 and d["bubble_fraction"] == 0'

# The worst case over all timings is at least the peak of one; both are 1F1B's p - r activations.
expect_exit 0 verify 1f1b --ranks 4 --microbatches 8 --unit F=1,B=2,A=1000 --json
expect_json '[w["bytes"] for w in d["worst_case_memory"]] == [4000, 3000, 2000, 1000]'
expect_exit 0 simulate 1f1b --ranks 4 --microbatches 8 --unit F=1,B=2,A=1000 --json
expect_json '[r["peak_bytes"] for r in d["per_rank"]] == [4000, 3000, 2000, 1000]'
expect_exit 3 verify 1f1b --ranks 4 --microbatches 8 --unit F=1,B=2,A=1000 --memory-limit 3999B --json
expect_json 'd["properties"]["memory"]["verdict"] == "refuted" and d["memory_limit_bytes"] == 3999'
memory='d["properties"]["memory"]["counterexample"]'
expect_json "$memory['rank'] == 0 and $memory['bytes'] == 4000 and $memory['limit'] == 3999"
expect_json "len($memory['live']) >= 4 and $memory['firing_order'][0]['event'] == 'start'"
expect_exit 0 verify 1f1b --ranks 4 --microbatches 8 --unit F=1,B=2,A=1000 --memory-limit 4kB

# A time limit that is reached is no verdict, and no hang.
expect_exit 5 verify 1f1b --ranks 6 --microbatches 32 --resident 3 --timeout 0.5
expect_out "unknown"

# Where no rank has a gap, no other schedule fills one.
expect_exit 0 simulate zb-v --ranks 4 --microbatches 8 --unit F=1
expect_out "only the stagger of the ranks is left"
expect_exit 0 simulate 1f1b --ranks 4 --microbatches 8 --unit F=1
expect_out "more microbatches, interleaving or a zero-bubble schedule would help"

# A picture of any width has times at its axis that do not run into each other.
for width in 300 400 800 1200; do
  expect_exit 0 show 1f1b --ranks 16 --microbatches 64 --format svg --width $width -o narrow.svg
  python3 - narrow.svg <<'END' || fail "times on top of each other at $width pixels"
import re, sys
labels = re.findall(r'<text x="([0-9.]+)" y="[0-9.]+" text-anchor="middle" fill="#444444">([^<]*)<', open(sys.argv[1]).read())
spans = [(float(x) - 3 * len(text), float(x) + 3 * len(text)) for x, text in labels]
assert len(spans) >= 3 and all(a[1] + 5 < b[0] for a, b in zip(spans, spans[1:])), labels
END
done
