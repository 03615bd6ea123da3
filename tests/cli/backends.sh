#!/usr/bin/env bash
# Runs on each backend: emulated devices, profiles, training, and measured against simulated.
source "$(dirname "$0")/support/lib.sh"

# An emulated step has at least the time of the simulated one, and computes nothing.
expect_exit 0 run 1f1b --ranks 4 --microbatches 4 --backend emulated --unit F=1,B=2,c=0.5,A=1000 --time-scale 2 \
  --steps 3 --compare --trace both.json --report both.html --json
expect_json 'd["backend"] == "emulated"'
expect_json 'd["simulated_step_ns"] == 2 * 26000000'
expect_json 'd["measured_step_ns"] >= d["simulated_step_ns"] and d["repeated_step_ns"] >= d["simulated_step_ns"]'
expect_json '{k["kind"]: k["count"] for k in d["kinds"]} == {"F": 16, "B": 16, "SEND_F": 12, "SEND_B": 12}'
expect_json 'd["simulated_compute_ns"]["busy"] == 2 * 48000000 and d["simulated_compute_ns"]["launch"] == 0'
expect_json 'sum(d["simulated_compute_ns"].values()) == 4 * d["simulated_step_ns"]'
expect_json 'd["losses"] == [] and "gradients_equal" not in d'
expect_json 'd["high_water_bytes"] == 4000'
python3 - <<'EOF' || fail "a trace without both runs"
import json
names = {e["args"]["name"] for e in json.load(open("both.json"))["traceEvents"] if e["name"] == "process_name"}
assert names == {f"rank {r} {run}" for r in range(4) for run in ("measured", "simulated")}, names
EOF
grep -q '"overlay":true' both.html || fail "no overlay"
expect_exit 0 run 1f1b --ranks 2 --microbatches 2 --backend emulated --unit F=1 --compare
expect_out "idle, nothing in flight"
expect_out "memory: unknown, the costs have no sizes"
expect_exit 0 run 1f1b --ranks 2 --microbatches 2 --backend emulated --unit F=1 --json
for key in high_water_bytes pool_bytes proved_bytes; do
  expect_json "d['$key'] is None and all(rank['$key'] is None for rank in d['per_rank'])"
done

# A run leaves the arithmetic of padding out, and says so; an emulated one takes its time.
expect_exit 0 run spmd-gpipe --ranks 2 --microbatches 2
expect_out "(the simulated step has 4 computations for padding, which the measured one leaves out)"
expect_exit 0 run spmd-gpipe --ranks 2 --microbatches 2 --json
expect_json 'd["padding_left_out"] == 4'
expect_exit 0 run spmd-gpipe --ranks 2 --microbatches 2 --backend emulated --unit F=1 --json
expect_json '"padding_left_out" not in d'
expect_exit 0 simulate spmd-gpipe --ranks 4 --microbatches 4 --unit F=1 --json
expect_json 'd["bubble_fraction"] > 0.3'
idle=$(python3 -c 'import json; print(json.load(open("stdout"))["bubble_fraction"])')
expect_exit 0 run spmd-gpipe --ranks 4 --microbatches 4 --backend emulated --unit F=1 --compare --json
expect_json "abs(d['simulated_bubble'] - $idle) < 1e-9"

# A profile is a cost table that predicts a run.
model=layers=2,hidden=16,heads=2,ffn=16,vocab=16,sequence=8
expect_exit 0 profile --ranks 2 --microbatches 4 --transformer $model --steps 3 -o costs.json --json
expect_json 'd["classes"] > 10'
python3 - <<'EOF' || fail "a profile without its spread"
import json
costs = json.load(open("costs.json"))["costs"]
assert {c["kind"] for c in costs} == {"F", "B", "I", "W", "R", "SEND_F", "SEND_B", "OPT"}, costs
# A mean, as the cost is, may lie outside of the quartiles.
assert all(c["samples"] > 0 and 0 < c["lower_quartile_ns"] <= c["median_ns"] <= c["upper_quartile_ns"] for c in costs), costs
assert all(c["ns"] > 0 for c in costs), costs
EOF
expect_exit 0 profile 1f1b --ranks 2 --microbatches 4 --transformer $model --steps 3 -o -
expect_out '"ppsim-tables"'
expect_exit 0 simulate 1f1b --ranks 2 --microbatches 4 --costs costs.json --json
simulated=$(python3 -c 'import json; print(json.load(open("stdout"))["makespan_ns"])')
expect_exit 0 run 1f1b --ranks 2 --microbatches 4 --transformer $model --costs costs.json --compare --json
expect_json "d['simulated_step_ns'] == $simulated and d['gradients_equal']"

# Costs measured once predict other runs; actions without a measured cost are named, and the other runs are done.
expect_exit 0 predict gpipe:microbatches=2 1f1b:microbatches=8 zb-h1 --ranks 2 --microbatches 4 --transformer $model --steps 3 \
  --points points.jsonl --costs-out predicted.json --json
expect_json '[(p["schedule"], p["microbatches"]) for p in d["points"]] == [("gpipe:microbatches=2", 2), ("1f1b:microbatches=8", 8), ("zb-h1", 4)]'
expect_json 'all(len(p["steps_ns"]) == 3 and p["measured_step_ns"] == sorted(p["steps_ns"])[1] for p in d["points"])'
expect_json 'all(abs(p["step_error"] - (p["simulated_step_ns"] / p["measured_step_ns"] - 1)) < 1e-9 for p in d["points"])'
expect_json 'd["step_error"]["largest"] == max(abs(p["step_error"]) for p in d["points"]) and d["left_out"] == 0'
python3 -c '
import json
points = [json.loads(line) for line in open("points.jsonl")]
assert points == json.load(open("stdout"))["points"]
' || fail "other points in the file"
expect_exit 0 simulate gpipe --ranks 2 --microbatches 2 --costs predicted.json
expect_exit 0 predict spmd-gpipe --calibrate gpipe --ranks 2 --microbatches 2 --transformer $model --steps 2 --json
expect_json '[p["microbatches"] for p in d["points"]] == [2]'
expect_exit 2 predict gpipe zb-h1 --calibrate gpipe --ranks 2 --microbatches 4 --transformer $model
expect_out "the table lacks the costs of actions (found no cost of I of stage 0"
expect_out "error of the step: median"
expect_exit 5 predict gpipe 1f1b --ranks 2 --microbatches 4 --transformer $model --time-limit 1e-9
expect_out "2 schedules were left out"
# More ranks than cores slow each other down: predictions with and without it.
many=$(($(python3 -c 'import os; print(os.cpu_count())') + 1))
crowd=(predict gpipe zb-h1 --ranks $many --microbatches 4 --transformer "${model/layers=2/layers=$many}" --steps 3)
if ((many <= 33)); then
  expect_exit 0 "${crowd[@]}" --json
  expect_json "d['slowdowns']['ranks_per_device'] == $many and 0 <= d['slowdowns']['undisturbed_ranks'] < $many - 1"
  expect_json 'all(k["slowdown"] >= 0 and k["actions"] > 0 for k in d["slowdowns"]["kinds"])'
  expect_json 'all(p["undisturbed"]["simulated_step_ns"] > 0 for p in d["points"])'
  expect_exit 0 "${crowd[@]}" gpipe:ranks=1 gpipe:ranks=$((many - 1)) --json
  expect_json "[p['ranks_per_device'] for p in d['points']] == [$many, $many, 1, 1]"
  expect_json 'all("note" not in p for p in d["points"])'
  expect_exit 0 "${crowd[@]}"
  expect_out "slowdown by each"
  expect_out "error undisturbed: median"
fi
# A calibration whose ranks have a core each has no slowdowns: a point that needs them says so.
cores=$((many - 1)) stages=$((2 * cores))
if ((cores > 1 && cores <= 16)); then
  spread=interleaved-1f1b:ranks=$cores,chunks=2
  sparse=(predict gpipe:ranks=$stages "$spread" --calibrate "$spread" --ranks $stages --microbatches $cores
    --transformer "${model/layers=2/layers=$stages}" --steps 3)
  expect_exit 0 "${sparse[@]}" --json
  expect_json "[('note' in p, p.get('ranks_per_device')) for p in d['points']] == [(True, $stages), (False, None)]"
  expect_json '"slowdowns" not in d and "those of the calibration do not" in d["points"][0]["note"]'
  expect_exit 0 "${sparse[@]}"
  expect_out "gpipe:ranks=$stages: its ranks share a device, and those of the calibration do not"
  expect_exit 0 "${sparse[@]}" --undisturbed --json
  expect_json 'all("note" not in p for p in d["points"])'
fi
expect_exit 0 "${crowd[@]}" --undisturbed --json
expect_json '"slowdowns" not in d and all("undisturbed" not in p for p in d["points"])'
expect_error 2 "nothing is measured" emulated predict gpipe --ranks 2 --microbatches 4 --backend emulated
# The points of an interrupted run stay; what cannot be written is said before the calibration, or beside the result.
cp points.jsonl earlier.jsonl
expect_exit 0 predict gpipe --ranks 2 --microbatches 4 --transformer $model --steps 2 --points points.jsonl
[ "$(wc -l <points.jsonl)" -eq 4 ] && head -n 3 points.jsonl | cmp - earlier.jsonl || fail "earlier points are gone"
for option in --points --costs-out; do
  expect_error 1 "cannot write" gone/x.json predict gpipe --ranks 2 --microbatches 4 --steps 100000 $option gone/x.json
  expect_exit 1 predict gpipe --ranks 2 --microbatches 4 --transformer $model --steps 2 $option /dev/full
  expect_err "/dev/full: cannot write: No space left on device"
  expect_out "error of the step"
  expect_exit 1 predict gpipe --ranks 2 --microbatches 4 --transformer $model --steps 2 $option /dev/full --json
  expect_json 'len(d["points"]) == 1 and d["error"]["code"] == "io" and d["error"]["file"] == "/dev/full"'
done
for command in predict "profile -o costs.json"; do
  expect_error 2 "within one process" mpi $command gpipe --ranks 2 --microbatches 4 --transport mpi
  expect_out "run --costs-out"  # which measures several
done
expect_error 2 "events per action are of CUDA" graphs run 1f1b --ranks 2 --microbatches 2 --graphs
expect_error 2 "what computes attention is a choice on GPUs only (found --attention cudnn" attention \
  run 1f1b --ranks 2 --microbatches 2 --attention cudnn
expect_error 2 "expected one of auto, cudnn, gemm" attention profile -o - --attention flash
# Nothing said of its ranks, the calibration has those of the first schedule.
expect_exit 0 generate gpipe --ranks 3 --microbatches 5 -o three.json
for input in three.json gpipe:ranks=3,microbatches=5; do
  expect_exit 0 predict $input --steps 2 --transformer $model --json
  expect_json 'd["points"][0]["ranks"] == 3 and d["points"][0]["simulated_step_ns"] > 0'
done
# The exit code does not depend on the order of the inputs.
printf '{"deadlock' >broken.json
printf '0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0\n' >dead.csv
expect_exit 4 predict dead.csv 1f1b --ranks 2 --microbatches 2 --transformer $model --steps 2
expect_exit 2 predict dead.csv broken.json 1f1b --ranks 2 --microbatches 2 --transformer $model --steps 2
expect_exit 2 predict 1f1b broken.json dead.csv --ranks 2 --microbatches 2 --transformer $model --steps 2
# A prediction without a measurement has no error.
expect_exit 2 predict no-such-schedule --ranks 2 --microbatches 2 --json
expect_json 'd["step_error"] is None and "error" in d["points"][0]'
expect_exit 2 predict no-such-schedule --ranks 2 --microbatches 2
expect_out "no-such-schedule: "
! grep -q "median" stdout || fail "an error of nothing"

# Without optimizer steps there is nothing for an optimizer to do.
for option in "--optimizer momentum" "--learning-rate 0.5"; do
  expect_error 2 "no OPT action" "found ${option% *}, expected --with opt" run 1f1b --ranks 2 --microbatches 2 $option
done
expect_error 2 "scaled costs are above 10^18 ns (found F of " "ns, scaled by 1e+12, expected at most 10^18 ns" \
  run 1f1b --ranks 2 --microbatches 2 --backend emulated --unit F=1e9 --time-scale 1e12

# Training: the loss of a microbatch goes down, the same in two schedules.
train=(--with opt --steps 30 --optimizer adamw --learning-rate 0.01)
expect_exit 0 run 1f1b --ranks 2 --microbatches 4 --transformer $model "${train[@]}" --json
expect_json 'len(d["losses"]) == 30 and d["losses"][-1] < 0.9 * d["losses"][0]'
losses=$(python3 -c 'import json; print(json.load(open("stdout"))["losses"])')
expect_exit 0 run zb-h1 --ranks 2 --microbatches 4 --transformer $model "${train[@]}" --json
expect_json "d['losses'] == $losses"
expect_exit 0 run zb-h1 --ranks 2 --microbatches 4 --transformer $model "${train[@]}"
expect_out "after 29 steps"
# A run that does not train reports no change of the loss.
expect_exit 0 run 1f1b --ranks 2 --microbatches 4 --transformer $model --steps 3
grep -qE '^loss of a microbatch [0-9.]+; --with opt trains$' stdout || fail "a loss after steps that train nothing"
expect_exit 0 run forward-only --ranks 2 --microbatches 4 --transformer $model --steps 3
! grep -qE 'after|--with opt' stdout || fail "inference that trains"
! "$ppsim" run --help | grep -q "training steps" || fail "--steps of what may train nothing"

# NaNs are alike, whatever made them.
expect_exit 0 run zb-h1 --ranks 2 --microbatches 4 --transformer $model --with opt --learning-rate 1e30 --steps 8 --compare --json
expect_json 'd["gradients"] == "unjudged" and not d["gradients_equal"]'
expect_exit 0 run zb-h1 --ranks 2 --microbatches 4 --transformer $model --with opt --learning-rate 1e30 --steps 8 --compare
expect_out "training has diverged"

# Bit by bit in integers. Floats add up in the order of the schedule, and the text says so; float64 is finer than float32.
bidirectional=(run chimera --ranks 4 --microbatches 8 --steps 2 --compare --arithmetic)
expect_exit 0 "${bidirectional[@]}" float32
expect_out ": sums in another order are rounded otherwise, and --arithmetic integer, which rounds nothing, tells that from a mistake"
expect_exit 0 "${bidirectional[@]}" float32 --json
expect_json '1e-12 < d["max_abs_difference"] < 1e-5'
expect_exit 0 "${bidirectional[@]}" float64 --json
expect_json '0 < d["max_abs_difference"] < 1e-12'
expect_exit 0 "${bidirectional[@]}" integer
expect_out "gradients equal the unpipelined reference bit by bit"
! grep -q "loss of" stdout || fail "integers modulo 2^64 have no loss to speak of"

# More threads than there is room for: the cause alone. (A sanitizer takes more than this limit from the start.)
if (ulimit -v 4000000 && "$ppsim" --version >/dev/null 2>&1); then
  (ulimit -v 4000000 && expect_exit 1 run 1f1b --ranks 400 --microbatches 1 --steps 1 --unverified)
  expect_err "threads, one for each queue of a rank: the system allows fewer"
  [ "$(wc -l <stderr)" -eq 1 ] || fail "waits of what never ran"
fi
