#!/usr/bin/env bash
# Slices of a sequence with their lengths, inference, and stage graphs that are no chain.
source "$(dirname "$0")/support/lib.sh"

tokens=length=2048,fixed=0.05,linear=0.001,quadratic=0.000002

# The number of slices and their lengths follow from the costs of tokens; both are told.
expect_exit 0 generate terapipe --ranks 8 --microbatches 1 --unit F=1,B=2,A=1e6 --token-costs $tokens \
  -o slices.json --costs-out slices-costs.json --json
expect_json 'sum(d["slice_lengths"]) == 2048 and len(d["slice_lengths"]) == d["slices"] > 8'
expect_json 'd["slice_lengths"] == sorted(d["slice_lengths"], reverse=True)'

# The table says the same as the options.
expect_exit 0 simulate slices.json --costs slices-costs.json --json
mv stdout by-table
expect_exit 0 simulate slices.json --unit F=1,B=2,A=1e6 --token-costs $tokens --json
python3 -c '
import json
a, b = json.load(open("by-table")), json.load(open("stdout"))
assert a["makespan_ns"] == b["makespan_ns"] and a["per_rank"] == b["per_rank"]
assert sum(b["slice_lengths"]) == 2048
' || fail "by table and by options"

# The time of slices that pass equal ranks: their sum and p - 1 times the longest, forward and back.
expect_exit 0 simulate terapipe:slices=2 --ranks 4 --microbatches 3 --unit F=1,B=2 --token-costs linear=1,lengths=6+4 --json
expect_json 'd["makespan_ns"] == (3 * 10 + 3 * 6) * 3 * 1e6'
expect_exit 0 simulate seq-1f1b --slices 4 --ranks 4 --microbatches 8 --unit F=1,B=2
grep -q "4 slices" stdout || fail "slices are shown"

expect_error 2 "multiples of --unit" "" simulate terapipe --ranks 2 --microbatches 2 --token-costs $tokens
expect_error 2 "every slice needs its length" "" \
  simulate terapipe:slices=3 --ranks 2 --microbatches 2 --unit F=1 --token-costs linear=1,lengths=3+4
expect_error 2 "found 0" "" simulate terapipe --slices 0 --ranks 2 --microbatches 2 --unit F=1

# A run computes in slices what it computes without, and has the lengths that are told.
exact=(--ranks 2 --microbatches 3 --steps 1 --transformer sequence=8 --arithmetic integer --compare)
expect_exit 0 run seq-1f1b --slices 3 "${exact[@]}" --json
expect_json 'd["gradients_equal"] and d["verified"]'
expect_exit 0 run terapipe --unit F=1 --token-costs linear=1,lengths=1+5+2 "${exact[@]}" --json
expect_json 'd["gradients_equal"] and d["verified"]'
expect_error 2 "found 2 slices with 7 tokens, expected 2 slices with 8 tokens" "" \
  run terapipe --unit F=1 --token-costs linear=1,lengths=3+4 "${exact[@]}"
expect_error 2 "keys and values of earlier slices" "" run terapipe --slices 2 --recompute full "${exact[@]}"

# Inference: no backward, nothing kept, no gradients to compare.
for name in forward-only forward-only:chunks=2,order=depth-first; do
  expect_exit 0 verify $name --ranks 4 --microbatches 8 --unit F=1,A=1000 --json
  expect_json 'all(p["verdict"] == "proved" for p in d["properties"].values())'
  expect_exit 0 simulate $name --ranks 4 --microbatches 8 --unit F=1,A=1000 --json
  expect_json '[r["peak_live_activations"] for r in d["per_rank"]] == [1] * 4'
  expect_exit 0 run $name --ranks 4 --microbatches 8 --backend cpu --json
done
expect_error 2 "no backward" "" run forward-only --ranks 2 --microbatches 2 --backend cpu --compare

# Encoder-decoder, skip connections and an edge without gradient: safe under every policy, and beyond PyTorch's files.
for graph in encoder-decoder skip index; do
  for name in gpipe 1f1b eager-1f1b interleaved-1f1b kimi-k2 looped-bfs; do
    for policy in per-rank per-pair per-edge per-stage-edge; do
      expect_exit 0 verify $name:graph=$graph --ranks 4 --microbatches 6 --communicators $policy --json
      expect_json 'd["properties"]["deadlock_free"]["verdict"] == "proved"'
    done
    expect_exit 0 simulate $name:graph=$graph --ranks 4 --microbatches 6 --unit F=1,B=2,c=0.1 --json
    expect_error 2 "CSV" "" generate $name:graph=$graph --ranks 4 --microbatches 6 -o graph.csv
  done
done
expect_exit 0 generate 1f1b:graph=encoder-decoder,encoder=3 --ranks 4 --microbatches 2 -o graph.json
expect_exit 0 lower graph.json -o graph-program.json
expect_exit 0 verify graph-program.json --json
expect_json 'd["properties"]["matched"]["verdict"] == "proved"'
