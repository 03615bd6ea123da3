#!/usr/bin/env bash
# The shortest schedule within a limit of activations: proved, simulated, certified; and when there is none.
source "$(dirname "$0")/support/lib.sh"
job=(--ranks 4 --microbatches 12)

expect_exit 0 synthesize "${job[@]}" --activation-limit 3 --unit F=5,I=6,W=4 -o best.json --certificate proof.json
expect_out "optimal: no schedule within the limit is shorter"

# next_step: runs the command that the last output ends with.
next_step() {
  local next
  next=$(sed -n 's/^Next: ppsim //p' stdout)
  eval "expect_exit 0 $next"
}
next_step
expect_out "synthesized: 4 ranks, 4 stages, 12 microbatches"
expect_exit 0 synthesize --activation-limit 4 --model llama3-70b --cluster dgx-h100 --nodes 4 --tp 8 --pp 4 \
  --global-batch-size 8 -o "my schedule.json"
next_step
expect_exit 0 simulate best.json --unit F=5,I=6,W=4,A=1 --json
expect_json 'max(r["peak_live_activations"] for r in d["per_rank"]) == 3'
makespan=$(python3 -c 'import json; print(json.load(open("stdout"))["makespan_ns"])')
expect_exit 0 synthesize "${job[@]}" --activation-limit 3 --unit F=5,I=6,W=4 -o best.csv --json
expect_json "d['value_ns'] == d['lower_bound_ns'] == $makespan and d['optimal'] and 'reason' not in d"
expect_json 'd["peak_live_activations"] == d["activation_limit"] == 3 and d["objective"] == "makespan"'

# The certificate is about the Program that the default lowering makes of it.
expect_exit 0 lower best.json --unit F=5,I=6,W=4 -o program.json
expect_exit 0 check-certificate program.json proof.json --unit F=1,A=1
expect_exit 0 run program.json --steps 1
expect_exit 0 verify best.csv --unit F=5,I=6,W=4,A=1 --memory-limit 3 --properties memory
expect_exit 3 verify best.csv --unit F=5,I=6,W=4,A=1 --memory-limit 2 --properties memory

# No registry schedule within the limit is shorter.
expect_exit 0 simulate zb-greedy "${job[@]}" --set memory_limit=3 --set weight_share=100 --unit F=5,I=6,W=4 --json
expect_json "d['makespan_ns'] >= $makespan"

expect_exit 0 synthesize --ranks 4 --microbatches 8 --activation-limit 8 --unit F=5,I=6,W=4 --objective span -o span.json --json
expect_json 'd["optimal"] and d["value_ns"] == 125 * 10**6'
expect_exit 0 synthesize --ranks 4 --microbatches 8 --activation-limit 4 --backward fused --unit F=1,B=2 -o fused.json --json
expect_json 'd["value_ns"] == 33 * 10**6'

# The W of a given order: never longer than with each W directly behind its I.
expect_exit 0 simulate 1f1b "${job[@]}" --unit F=1,B=2 --json
makespan=$(python3 -c 'import json; print(json.load(open("stdout"))["makespan_ns"])')
expect_exit 0 synthesize "${job[@]}" --activation-limit 4 --unit F=1 --order-of 1f1b -o filled.json --json
expect_json "d['optimal'] and d['value_ns'] < $makespan"
value=$(python3 -c 'import json; print(json.load(open("stdout"))["value_ns"])')
expect_exit 0 synthesize "${job[@]}" --activation-limit 4 --unit F=1 --order-of filled.json -o again.json --json
expect_json "d['value_ns'] == $value"
expect_exit 3 synthesize "${job[@]}" --activation-limit 3 --unit F=1 --order-of 1f1b -o none.json
expect_err "holds 4 microbatches on rank 0"
expect_error 2 "another chain" "" synthesize "${job[@]}" --activation-limit 4 --unit F=1 --order-of interleaved-1f1b -o x.json

# Time that ran out: the best so far, and how far from the best it can be.
expect_exit 5 synthesize --ranks 8 --microbatches 32 --activation-limit 5 --unit F=1 --timeout 0.001 -o soon.json --json
expect_json 'not d["optimal"] and d["lower_bound_ns"] < d["value_ns"] and d["reason"] == "time limit reached"'
expect_exit 0 verify soon.json

expect_exit 3 synthesize "${job[@]}" --activation-limit 0 --unit F=1 -o none.json
expect_err "at least 1 is needed"
[ ! -e none.json ] || fail "a file for no schedule"
expect_exit 3 synthesize "${job[@]}" --activation-limit 0 --unit F=1 -o none.json --json
expect_json 'd["feasible"] is False'
expect_error 2 "--objective" "latency" synthesize "${job[@]}" --activation-limit 3 --unit F=1 --objective latency -o x.json
expect_error 2 "--backward" "none" synthesize "${job[@]}" --activation-limit 3 --unit F=1 --backward none -o x.json
expect_error 2 "activation limit" "-1" synthesize "${job[@]}" --activation-limit -1 --unit F=1 -o x.json
expect_error 2 "cost of 0W" "0 ns" synthesize "${job[@]}" --activation-limit 3 --unit F=1,W=0 -o x.json
expect_error 2 "--ranks" "" synthesize --microbatches 3 --activation-limit 3 --unit F=1 -o x.json
expect_error 2 "--unit" "" synthesize "${job[@]}" --activation-limit 3 -o x.json

# Costs too fine to decide by start times: more time would not help, and is not advised.
expect_exit 5 synthesize "${job[@]}" --activation-limit 3 --unit F=5.001,I=6.013,W=4.007 --timeout 600 -o fine.json
expect_out "start times to choose from"
expect_out "Costs with a larger common divisor, or fewer microbatches"
