#!/usr/bin/env bash
# Recompute and offload: what fits, what it costs, what is refused.
source "$(dirname "$0")/support/lib.sh"
job=(--model llama3-70b --cluster dgx-h100 --nodes 4 --tp 4 --pp 8 --dp 1 --global-batch-size 32)

# Rank 0 of 1F1B holds eight activations and does not fit; recompute of its norms and activation functions suffices.
expect_exit 3 simulate 1f1b "${job[@]}"
expect_out "--recompute adaptive"
expect_exit 0 simulate 1f1b "${job[@]}" --recompute adaptive --json
expect_json 'd["fits"] and d["recompute"] == "stages=0:selective"'
expect_json 'all(r["peak_bytes"] <= r["allocated_bytes"] <= r["reserved_bytes"] for r in d["per_rank"])'
chosen=$(python3 -c 'import json; print(json.load(open("stdout"))["makespan_ns"])')
expect_exit 0 simulate 1f1b "${job[@]}" --recompute stages=0:selective --json
expect_json "d['makespan_ns'] == $chosen"
expect_exit 0 simulate 1f1b "${job[@]}" --recompute full --json
expect_json "d['fits'] and d['makespan_ns'] > $chosen"
expect_error 3 "no recomputation fits on rank" "bytes" simulate 1f1b "${job[@]}" --recompute adaptive --microbatch-size 32
expect_exit 0 verify 1f1b "${job[@]}" --recompute adaptive

# Without a model there is nothing that selective and adaptive could change or choose by.
units=(--ranks 4 --microbatches 8 --unit F=1,B=2,A=1e9)
expect_error 2 "selective" "no --model" simulate 1f1b "${units[@]}" --recompute selective
expect_error 2 "adaptive" "no --model" lower 1f1b --ranks 4 --microbatches 8 --recompute adaptive -o x.json
expect_error 2 "stages of the schedule" "9" simulate 1f1b "${units[@]}" --recompute stages=9
expect_exit 0 simulate 1f1b "${units[@]}" --recompute stages=0 --json
expect_json '[r["peak_bytes"] for r in d["per_rank"]] == [10**9, 3 * 10**9, 2 * 10**9, 10**9]'

# A Program recomputes what it recomputes.
expect_exit 0 lower 1f1b "${units[@]}" -o plain.json
expect_exit 0 lower 1f1b "${units[@]}" --recompute full -o full.json
expect_error 2 "lower its schedule with --recompute" "a Program" simulate plain.json --unit F=1 --recompute full
expect_exit 0 simulate full.json --unit F=1 --recompute full

# Copies beside computation leave one activation of four; half of them three.
for offload in all:1 half:3 stages=0:3; do
  expect_exit 0 lower 1f1b "${units[@]}" --offload "${offload%:*}" -o "$PWD/offloaded.json"
  expect_exit 0 simulate offloaded.json --unit F=1,B=2,A=1e9 --json
  expect_json "d['makespan_ns'] == 33000000 and max(r['peak_bytes'] for r in d['per_rank']) == ${offload#*:} * 10**9"
  expect_exit 0 verify offloaded.json --unit F=1,B=2,A=1e9 --memory-limit "${offload#*:}GB"
done
# The same where the schedule is lowered on the way.
expect_exit 0 simulate 1f1b "${units[@]}" --offload all --json
expect_json 'd["makespan_ns"] == 33000000 and max(r["peak_bytes"] for r in d["per_rank"]) == 10**9'
expect_exit 0 verify 1f1b "${units[@]}" --offload all --memory-limit 1GB
expect_exit 3 verify 1f1b "${units[@]}" --memory-limit 1GB
expect_exit 0 compare 1f1b gpipe "${units[@]}" --offload half --json
expect_json '[s["peak_bytes"] for s in d["schedules"]][0] == 3 * 10**9'
expect_exit 0 run 1f1b --ranks 2 --microbatches 4 --offload all --compare --arithmetic integer --json
expect_json 'd["gradients_equal"]'
expect_exit 0 show 1f1b "${units[@]}" --offload stages=0
expect_error 2 "chooses without --offload" "--offload all" simulate 1f1b "${job[@]}" --recompute adaptive --offload all
expect_error 2 "unknown offload" "most" lower 1f1b "${units[@]}" --offload most -o x.json

# BPipe: five activations on each of eight ranks, in every timing.
expect_exit 0 verify bpipe --ranks 8 --microbatches 16 --unit F=1,B=2,c=0.5,A=1e9 --memory-limit 5GB
expect_exit 3 verify 1f1b --ranks 8 --microbatches 16 --unit F=1,B=2,c=0.5,A=1e9 --memory-limit 5GB
