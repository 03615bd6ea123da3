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

# Costs too fine to decide by start times: Z3 is left out, and that is said.
expect_exit 5 synthesize "${job[@]}" --activation-limit 3 --unit F=5.001,I=6.013,W=4.007 --timeout 2 -o fine.json
expect_out "start times to choose from"
expect_out "Costs with a larger common divisor, or fewer microbatches"

# Several stages on a rank: never longer than the published schedules of the placement within the limit.
v=(--ranks 4 --microbatches 8 --placement v --steps 3000)
costs=(--unit F=5,I=7,W=4,c=1)
for limit in 4 6 8; do
  expect_exit 5 synthesize "${v[@]}" --activation-limit $limit "${costs[@]}" -o v.json --certificate v-proof.json --json
  expect_json "d['stages'] == 8 and d['peak_live_activations'] <= $limit == d['activation_limit'] and d['steps'] <= 3000"
  expect_json "d['lower_bound_ns'] <= d['value_ns'] and d['queries'] == 0"
  value=$(python3 -c 'import json; print(json.load(open("stdout"))["value_ns"])')
  for rival in v-min v-half zb-v v-adaptive:memory_limit=$limit; do
    expect_exit 0 simulate $rival --ranks 4 --microbatches 8 "${costs[@]}" --json
    expect_json "d['makespan_ns'] >= $value or max(r['peak_live_activations'] for r in d['per_rank']) > $limit"
  done
  expect_exit 0 simulate v.json "${costs[@]}" --json
  expect_json "d['makespan_ns'] == $value"
  expect_exit 0 lower v.json "${costs[@]}" -o v-program.json
  expect_exit 0 check-certificate v-program.json v-proof.json --unit A=1
done
expect_exit 0 run v.json --steps 1
expect_exit 5 synthesize "${v[@]}" --activation-limit 6 "${costs[@]}" -o once.json
expect_out "live activations of a stage on a rank, found by"
expect_out "More --steps, or another --seed, may find a shorter one than once.json"
expect_exit 5 synthesize "${v[@]}" --activation-limit 6 "${costs[@]}" -o twice.json
cmp once.json twice.json || fail "the same steps, another schedule"
expect_exit 0 synthesize --ranks 4 --microbatches 8 --placement v --activation-limit 8 --unit F=1 -o zb-v.json
expect_out "optimal: no schedule within the limit is shorter (relaxation)"
expect_exit 0 synthesize --ranks 2 --microbatches 4 --placement 0,1,1,0 --activation-limit 4 --unit F=1 -o listed.json --json
expect_json 'd["stages"] == 4'
expect_exit 5 synthesize --ranks 2 --microbatches 4 --chunks 3 --activation-limit 6 --unit F=2,I=3,W=1 --steps 0 -o loop.json --json
expect_json 'd["stages"] == 6 and d["reason"] == "no steps of the search are left"'
expect_error 2 "cannot place the stages" "w" synthesize "${v[@]:0:4}" --placement w --activation-limit 6 --unit F=1 -o x.json
expect_error 2 "rank of stage 1: found 4, expected 0 to 3" "" synthesize "${v[@]:0:4}" --placement 0,4,1,2,3 --activation-limit 6 --unit F=1 -o x.json
expect_error 2 "an order can be kept" "" synthesize "${v[@]}" --activation-limit 6 --unit F=1 --order-of 1f1b -o x.json
expect_exit 3 synthesize "${v[@]}" --activation-limit 1 --unit F=1 -o none.json
expect_err "at least 2 is needed, the limit is 1"

# A placement that is looked for: no longer than the V's, and shorter than every V's where F takes longest.
uneven=(--ranks 4 --microbatches 8 --unit F=9,I=2,W=2 --steps 20000)
free=("${uneven[@]}" --placement free --activation-limit 6)
expect_exit 5 synthesize "${free[@]}" -o free.json --certificate free-proof.json --json
expect_json 'd["placements"] == 105 and sorted(d["placement"]) == [0, 0, 1, 1, 2, 2, 3, 3] and d["steps"] <= 20000'
value=$(python3 -c 'import json; print(json.load(open("stdout"))["value_ns"])')
expect_exit 5 synthesize "${uneven[@]}" --placement v --activation-limit 6 -o folded.json --json
expect_json "d['value_ns'] > $value and 'placements' not in d"
expect_exit 0 simulate free.json --unit F=9,I=2,W=2 --json
expect_json "d['makespan_ns'] == $value"
expect_exit 0 lower free.json --unit F=9,I=2,W=2 -o free-program.json
expect_exit 0 check-certificate free-program.json free-proof.json --unit A=1
expect_exit 0 run free.json --steps 1
expect_exit 5 synthesize "${free[@]}" -o free-text.json
expect_out ", of 105 placements that were looked at"
expect_exit 0 synthesize --ranks 2 --microbatches 3 --placement free --activation-limit 4 --unit F=5,I=6,W=4 -o decided.json --smt2 queries
expect_out "optimal: no schedule within the limit is shorter (time-indexed)"
grep -q "4 stages on ranks 0 1 " queries/*.smt2 || fail "queries do not name their placement"
expect_error 2 "an order can be kept" "a free placement" synthesize "${free[@]}" --order-of 1f1b -o x.json
echo '{"gpus_per_node":4,"node_gbytes_per_s":20,"gpu":"h100-sxm-80gb"}' >cluster.json
expect_error 2 "counts all ranks as alike" "share a node" synthesize --model llama3-8b --cluster cluster.json --nodes 2 --tp 2 --pp 4 --dp 1 \
  --global-batch-size 2 --microbatch-size 1 --activation-limit 8 --placement free -o x.json
expect_error 2 "cannot place the stages" "400 stages each" synthesize "${free[@]}" --chunks 400 -o x.json
expect_exit 3 synthesize "${uneven[@]}" --placement free --activation-limit 1 -o none.json
expect_err "at least 2 is needed, the limit is 1"

# A limit in bytes, of every timing.
expect_exit 5 synthesize "${v[@]}" --memory-limit 60 --unit F=5,I=7,W=4,c=1,A=10 -o bytes.json --json
expect_json 'd["peak_live_activations"] <= 6 and d["worst_case_bytes"] <= d["memory_limit_bytes"] == 60'
expect_exit 0 verify bytes.json --unit F=5,I=7,W=4,c=1,A=10 --memory-limit 60 --properties memory
expect_exit 3 synthesize "${v[@]}" --memory-limit 19 --unit F=1,A=10 -o none.json
expect_err "rank 0 needs 20 bytes for its parameters and one microbatch, the limit is 19"
expect_error 2 "a limit in bytes needs sizes" "none" synthesize "${v[@]}" --memory-limit 60 --unit F=1 -o x.json
expect_error 2 "limited in activations or in bytes" "both" synthesize "${v[@]}" --activation-limit 6 --memory-limit 60 --unit F=1,A=1 -o x.json
expect_error 2 "nothing limits the memory" "" synthesize "${v[@]}" --unit F=1,A=1 -o x.json
llama=(--model llama3-70b --cluster dgx-h100 --nodes 4 --tp 8 --pp 4 --global-batch-size 8)
expect_exit 0 synthesize "${llama[@]}" --placement v --steps 1000 -o llama.json --certificate llama-proof.json --json
expect_json 'd["memory_limit_bytes"] == 80 * 10**9 and 0 < d["worst_case_bytes"] <= d["memory_limit_bytes"] and d["optimal"]'
expect_exit 0 lower llama.json "${llama[@]}" -o llama-program.json
expect_exit 0 check-certificate llama-program.json llama-proof.json "${llama[@]}"
expect_exit 5 synthesize "${llama[@]}" --placement v --steps 1000 --memory-limit 60GB -o less.json
expect_out "in any timing, the limit is 60.00 GB"
expect_exit 0 verify less.json "${llama[@]}" --memory-limit 60GB --properties memory
expect_exit 3 synthesize "${llama[@]}" --placement v --memory-limit 30GB -o none.json
expect_err "bytes for its parameters and one microbatch, the limit is 30000000000"

# In a pipe nothing says what is known so far; on a terminal a line does, see help.sh.
expect_exit 5 synthesize --ranks 8 --microbatches 16 --placement v --activation-limit 8 --unit F=5,I=6,W=4 --timeout 3 -o piped.json
[ ! -s stderr ] || fail "progress in a pipe"
