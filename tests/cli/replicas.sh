#!/usr/bin/env bash
# --replicas: data-parallel copies of a schedule as ranks of one program.
source "$(dirname "$0")/support/lib.sh"

# Gradients are those of the unpipelined model over the microbatches of all replicas, bit by bit.
for schedule in 1f1b interleaved-1f1b zb-v chimera; do
  expect_exit 0 run $schedule --ranks 2 --microbatches 4 --replicas 2 --compare --arithmetic integer --json
  expect_json 'd["gradients_equal"] and d["max_abs_difference"] == 0 and d["verified"] and d["replicas"] == 2'
  expect_json 'len(d["per_rank"]) == 4'
done

# The same Program by hand: lowered, proved, and run on its certificate.
expect_exit 0 lower 1f1b --ranks 2 --microbatches 4 --replicas 3 -o replicas.json
expect_exit 0 verify replicas.json
expect_exit 0 run replicas.json --compare --arithmetic integer --json
cp stdout by_hand
expect_exit 0 run 1f1b --ranks 2 --microbatches 4 --replicas 3 --compare --arithmetic integer --json
expect_json 'd["program_hash"] == json.load(open("by_hand"))["program_hash"] and d["gradients_equal"]'
expect_exit 0 run 1f1b --ranks 2 --microbatches 4 --replicas 3
expect_out "on 6 ranks, 3 replicas"

# Two replicas of four microbatches learn as one of eight: losses are averages over all of them.
expect_exit 0 run 1f1b --ranks 2 --microbatches 8 --steps 4 --with opt --json
cp stdout one
expect_exit 0 run 1f1b --ranks 2 --microbatches 4 --replicas 2 --steps 4 --with opt --json
expect_json 'len(d["losses"]) == 4 and d["losses"][3] < d["losses"][0]'
expect_json 'all(abs(a / b - 1) < 1e-4 for a, b in zip(d["losses"], json.load(open("one"))["losses"]))'

# Costs are those of each replica, and sums between them cost what the table says.
expect_exit 0 run 1f1b --ranks 2 --microbatches 4 --replicas 2 --backend emulated --unit F=10,B=20,c=1 --steps 1 --json
expect_json '0.9 < d["measured_step_ns"] / d["simulated_step_ns"] < 2 and d["simulated_step_ns"] == 154000000'

expect_error 2 "replicas out of range" "2000000000" run 1f1b --ranks 2 --microbatches 4 --replicas 2000000000
# Before so many copies are made.
for replicas in 9999999 99999999; do
  (ulimit -v 4000000 && expect_error 2 "ranks must be in [1, 65536], found ${replicas:0:1}" "" \
    lower 1f1b --ranks 1 --microbatches 1 --replicas $replicas -o -)
done
expect_error 2 "lower its schedule with --replicas" "a Program" run replicas.json --replicas 2
expect_error 2 "know replicas by --dp" "--replicas with --model" \
  lower 1f1b --replicas 2 --model gpt3-175b --cluster dgx-h100 --tp 4 --pp 2 --global-batch-size 4 -o -
expect_error 2 "--replicas" "found 0, expected a whole number from 1" run 1f1b --ranks 2 --microbatches 4 --replicas 0
expect_error 2 "stages of one replica" "stages" \
  lower 1f1b --ranks 2 --microbatches 4 --replicas 2 --offload stages=0 -o -
