#!/usr/bin/env bash
# plan: rows are what their commands simulate, what does not fit is exit code 3, and the best in words of frameworks.
source "$(dirname "$0")/support/lib.sh"
job=(--model llama3-8b:layers=8,sequence=2048 --cluster dgx-h100 --nodes 1 --global-batch-size 16)

expect_exit 0 plan "${job[@]}" --top 3 --front 1.2 --against pp=4,schedule=zb-v --json
expect_json 'len(d["plans"]) == 3 and [r["step_ns"] for r in d["plans"]] == sorted(r["step_ns"] for r in d["plans"])'
expect_json 'all(r["layers_ns"] + r["bubble_ns"] + r["communication_ns"] + r["step_end_ns"] == r["step_ns"] for r in d["plans"])'
expect_json 'd["against"][0]["step_ns"] >= d["plans"][0]["step_ns"] and "zb-v" in d["against"][0]["plan"]'
expect_json 'd["verified"]["deadlock_free"] == "proved" and d["tightest_miss"] is None'
expect_json 'd["front"][0] == {k: v for k, v in d["plans"][0].items()}'

# The command of each row simulates it.
python3 -c 'import json
for row in json.load(open("stdout"))["plans"]: print(row["step_ns"], row["peak_bytes"], row["command"].removeprefix("ppsim "))' >rows
while read -r step peak command; do
  eval "expect_exit 0 $command --json"
  expect_json "d['step_ns'] == $step and d['peak_bytes'] == $peak"
done <rows

expect_exit 0 plan "${job[@]}" --fix pp=2 --fix schedule=1f1b+zb-h1 --fix recompute=none
expect_out "The runner-up takes"
expect_out "Verified: "
expect_out "Not modelled: "
expect_out "1  ppsim simulate"

expect_exit 0 plan "${job[@]}" --fix pp=2 --fix schedule=interleaved-1f1b --emit megatron
expect_out "--pipeline-model-parallel-size 2"
expect_exit 0 plan "${job[@]}" --fix pp=2 --fix schedule=zb-v --emit torchtitan
expect_out 'pipeline_parallel_schedule = "ZBVZeroBubble"'
expect_exit 0 plan "${job[@]}" --fix pp=2 --emit json
cp stdout emitted
expect_exit 2 plan "${job[@]}" --emit megatron --json
expect_err "--emit and --json both print the best plan (found --emit megatron --json, expected one of the two)"
cp emitted stdout
expect_json 'd["pp"] == 2 and d["command"].startswith("ppsim simulate ")'

expect_exit 3 plan "${job[@]}" --min-spare-memory 100TB
expect_err "no plan leaves 100000.00 GB of a GPU that has 80.00 GB"
expect_exit 3 plan "${job[@]}" --min-spare-memory 79.9GB
expect_err "no plan fits into 100.00 MB of a GPU"
expect_err "the least is"
expect_exit 2 plan "${job[@]}" --fix pq=2
expect_err "nothing to fix"
expect_exit 2 plan "${job[@]}" --fix pp=2 --fix pp=4
expect_err "pp is fixed twice"
expect_exit 2 plan "${job[@]}" --nodes 0

# Fixed values are searched as they are, and what stands against all of them is told.
two=(--model llama3-8b:layers=8,sequence=2048 --cluster dgx-h100 --nodes 2 --global-batch-size 48)
expect_exit 0 plan "${two[@]}" --fix microbatch-size=3 --fix tp=2 --fix pp=2 --fix dp=4 --fix schedule=1f1b --top 1 --json
expect_json '"TP2 PP2 DP4, microbatch 3" in d["plans"][0]["plan"] and "--microbatch-size 3" in d["plans"][0]["command"]'
expect_exit 0 plan "${two[@]}" --fix microbatch-size=2+3 --fix tp=2 --fix pp=2 --fix schedule=1f1b --fix recompute=none --json
expect_json 'sorted({p["plan"].split("microbatch ")[1][0] for p in d["plans"]}) == ["2", "3"]'
expect_exit 0 plan "${two[@]}" --fix pp=1 --fix schedule=1f1b --top 1 --against microbatch-size=3,tp=2,pp=2,dp=4,schedule=1f1b --json
expect_json '"microbatch 3" in d["against"][0]["plan"]'
# So are numbers that no plan can have, beside those that one can.
expect_exit 0 plan "${two[@]}" --fix tp=3+4 --fix pp=1+32 --fix chunks=1+2 --fix schedule=1f1b --top 1
expect_out "No plan can have chunks=2, pp=32, tp=3."
one_gpu=(--fix cp=1 --fix microbatch-size=1)
expect_exit 0 plan "${two[@]}" "${one_gpu[@]}" --fix tp=1 --fix pp=4+8 --fix chunks=2 --fix schedule=interleaved-1f1b --top 1
expect_out "No plan can have pp=8."
expect_exit 3 plan "${two[@]}" "${one_gpu[@]}" --fix tp=1+64 --fix pp=1 --fix schedule=1f1b --min-spare-memory 79GB
expect_err "no plan can have tp=64"
expect_exit 0 plan "${two[@]}" --fix tp=2+4 --fix pp=1 --fix schedule=1f1b --top 1
! grep -q "No plan can have" stdout || fail "both numbers are possible"
expect_error 2 "the number of heads must be a multiple of tp" "found 32, expected a multiple of 3" plan --model llama3-8b --cluster dgx-h100 \
  --nodes 3 --global-batch-size 48 --fix tp=3
expect_error 2 "tp x pp x cp must divide the number of GPUs" "found tp=3, expected a divisor of 16" plan "${two[@]}" --fix tp=3
expect_error 2 "tp x pp x cp must divide the number of GPUs" "found tp=8, pp=4, expected a divisor of 16" plan "${two[@]}" --fix tp=8 --fix pp=4
expect_error 2 "a pipeline has at most as many ranks as layers" "found pp=7, expected at most 6" plan --model llama3-8b:layers=6 --cluster dgx-h100 \
  --nodes 7 --global-batch-size 56 --fix pp=7
expect_error 2 "the global batch must be a multiple of dp x microbatch size" "found 48, expected a multiple of 20" plan "${two[@]}" \
  --fix microbatch-size=5 --fix tp=2 --fix pp=2 --fix dp=4
expect_error 2 "tp x pp x dp x cp must be the number of GPUs" "found tp=4, pp=2, dp=4, expected dp=2 on 16 GPUs" plan "${two[@]}" --fix tp=4 \
  --fix pp=2 --fix dp=4
expect_error 2 "a multiple or a divisor of tp" "found 3" plan --model llama3-8b:heads=24,kv_heads=3 --cluster dgx-h100 --nodes 1 \
  --global-batch-size 48 --fix tp=2
expect_error 2 "has tp=2,pp=2,dp=2" "expected dp=4 on 16 GPUs" plan "${two[@]}" --fix pp=2 --against tp=2,pp=2,dp=2
expect_error 2 "unknown transport" foo plan "${job[@]}" --transport foo
expect_error 2 "no value of schedule" pipedream plan "${job[@]}" --fix schedule=pipedream
expect_exit 0 plan "${job[@]}" --fix pp=2 --fix schedule=gpipe --emit maxtext
! grep -q "has no schedule" stdout || fail "MaxText has GPipe"
grep -qx "remat_policy: minimal_with_context" stdout || fail "MaxText checkpoints every layer"
expect_exit 0 plan "${job[@]}" --fix pp=2 --fix schedule=gpipe --fix recompute=none --emit maxtext
expect_out "# not written: recompute none; this policy keeps all products"
expect_exit 0 plan "${job[@]}" --fix pp=2 --fix schedule=gpipe --fix recompute=full --emit maxtext
grep -qx "remat_policy: full" stdout || fail "full is MaxText's too"

# torchtitan would make two stages a rank: it is told the modules of each.
for schedule in interleaved-zb looped-bfs; do
  expect_exit 0 plan "${job[@]}" --fix pp=2 --fix schedule=$schedule --fix chunks=4 --fix layout=even --emit torchtitan
  python3 -c 'import sys, tomllib
parallelism = tomllib.load(open("stdout", "rb"))["parallelism"]
stages = parallelism["module_fqns_per_model_part"]
assert parallelism["pipeline_parallel_degree"] == 2 and len(stages) == 8, stages
assert [m for stage in stages for m in stage] == ["tok_embeddings", *(f"layers.{i}" for i in range(8)), "norm", "lm_head"], stages
assert all(len([m for m in stage if m.startswith("layers.")]) == 1 for stage in stages), stages' || fail "the stages of $schedule"
done
