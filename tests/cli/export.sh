#!/usr/bin/env bash
# export writes what makes other frameworks run a schedule, and says what does not go together.
source "$(dirname "$0")/support/lib.sh"

expect_exit 0 export torchtitan zb-v --ranks 2 --microbatches 4 --layers 3,4,4,3 -o titan
expect_out "Leave compile off"
expect_out "in a V"
grep -q 'pipeline_parallel_schedule = "ZBVZeroBubble"' titan/torchtitan.toml || fail "the class of the placement"
expect_exit 0 verify titan/schedule.csv --for torch-2.15
python3 - <<'PYTHON' || fail "the configuration as Python"
import sys, types
sys.path.insert(0, "titan")
import torchtitan_parallelism
parallelism = torchtitan_parallelism.configure(types.SimpleNamespace(parallelism=types.SimpleNamespace())).parallelism
assert parallelism.pipeline_parallel_degree == 2
assert parallelism.pipeline_parallel_schedule_csv.endswith("titan/schedule.csv")
parts = parallelism.module_fqns_per_model_part
assert [len(part) for part in parts] == [4, 4, 4, 5] and parts[3][-1] == "lm_head" and parts[1][0] == "layers.3"
PYTHON

expect_exit 0 export megatron 1f1b --ranks 4 --microbatches 8 -o megatron --json
expect_json 'd["framework"] == "megatron" and d["files"] == ["megatron/megatron.args"] and "8" in d["notes"][0]'
expect_exit 0 export maxtext gpipe --ranks 4 --microbatches 8 -o maxtext
grep -q num_pipeline_microbatches=8 maxtext/maxtext.args || fail "microbatches"
expect_out "ici_pipeline_parallelism x dcn_pipeline_parallelism has to be 4"

expect_error 4 "Megatron-LM has no such schedule" "1f1b" export megatron zb-h1 --ranks 4 --microbatches 8 -o x
expect_error 4 "every stage needs a backward" "0 B" export torchtitan forward-only --ranks 2 --microbatches 2 -o x
expect_error 4 "no placement of stages like this" "in a V" export torchtitan hanayo --ranks 2 --microbatches 4 --chunks 4 -o x
expect_error 2 "one number for each stage" "2 numbers" export torchtitan 1f1b --ranks 4 --microbatches 8 --layers 3,3 -o x
expect_error 2 "unknown framework" "did you mean" export torchtitn 1f1b --ranks 4 --microbatches 8 -o x
[ ! -e x ] || fail "a folder of nothing"

# ASTRA-sim gets the Program with its costs, a trace a rank.
costs=(--model llama3-8b --cluster dgx-h100 --pp 8 --global-batch-size 8)
expect_exit 0 export chakra 1f1b "${costs[@]}" -o traces
expect_out "--workload-configuration=traces/trace"
[ "$(echo traces/trace.*.et | wc -w)" -eq 8 ] || fail "a trace a rank"
grep -q '{}' traces/comm_groups.json || fail "no collective"
strings traces/trace.0.et | grep -q 0SEND_F0 || fail "names of actions"
cat >small.json <<'JSON'
{"format": "ppsim-tables", "version": 1,
 "costs": [{"kind": "F", "ns": 1000}, {"kind": "I", "ns": 1000}, {"kind": "W", "ns": 1000},
           {"kind": "SEND_F", "ns": 1}, {"kind": "SEND_B", "ns": 1}],
 "sizes": [{"tensor": "boundary_output", "bytes": 8}, {"tensor": "incoming_gradient", "bytes": 8}]}
JSON
expect_exit 0 export chakra zb-v --ranks 2 --microbatches 4 --costs small.json --communicators per-rank -o small --json
expect_json 'd["files"] == ["small/trace.0.et", "small/trace.1.et", "small/comm_groups.json"]'
expect_error 2 "bytes of every message" "no size of 0SEND_F0" export chakra 1f1b --ranks 2 --microbatches 2 --unit F=1 -o x
expect_error 2 "chakra needs costs" "--model" export chakra 1f1b --ranks 2 --microbatches 2 -o x
expect_error 2 "--layers is for frameworks" "chakra" export chakra 1f1b --layers 1,1 --ranks 2 --microbatches 2 --unit F=1 -o x
expect_error 2 "takes neither costs" "chakra" export megatron 1f1b --ranks 2 --microbatches 2 --unit F=1 -o x
expect_error 2 "unknown framework" "torchtitan, megatron, maxtext, chakra" export bogus 1f1b --ranks 2 --microbatches 2 -o x
expect_error 2 'did you mean "chakra"' "chakr" export chakr 1f1b --ranks 2 --microbatches 2 --unit F=1 -o x
