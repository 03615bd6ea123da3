#!/usr/bin/env bash
# Runs with jitter: they take the very steps that `ppsim jitter` simulates.
source "$(dirname "$0")/support/lib.sh"

step=(1f1b --ranks 4 --microbatches 4 --unit F=1,B=2,c=0.2)
jitter=(--vary compute=lognormal:0.2 --vary transfers=gamma:0.5:0.5 --vary-ranks list:1,1,1.3 --slow-rank 3=1.2
  --slow-link 1-2=3 --seed 7)
tiny=(--transformer layers=4,hidden=8,heads=2,ffn=8,vocab=8,sequence=4)

expect_exit 0 jitter "${step[@]}" "${jitter[@]}" --samples 6 --json
cp stdout drawn
for backend in "emulated" "cpu --compare --arithmetic integer ${tiny[*]}"; do
  # shellcheck disable=SC2086
  expect_exit 0 run "${step[@]}" "${jitter[@]}" --steps 6 --json --backend $backend
  python3 - <<'PYTHON' || fail "other steps than ppsim jitter has, on $backend"
import json
run, drawn = json.load(open("stdout")), json.load(open("drawn"))
jitter, steps = run["jitter"], run["steps_ns"]
assert jitter["simulated_step_ns"] == drawn["step_ns"] and jitter["seed"] == drawn["seed"] == 7
simulated = jitter["simulated_steps_ns"]
assert len(simulated) == len(steps) == 6 == len(set(simulated))
# How much more depends on the machine.
assert all(m >= s for m, s in zip(steps, simulated)), (steps, simulated)
assert jitter["max_difference"] == max((m - s) / s for m, s in zip(steps, simulated))
assert jitter["measured_step_ns"]["p50"] == sorted(steps)[2]
assert run["measured_step_ns"] == sorted(steps)[2]
assert run["simulated_step_ns"] == simulated[steps.index(run["measured_step_ns"])]
assert run["repeated_step_ns"] is None
PYTHON
done
# It computes as without jitter.
expect_json 'd["gradients_equal"]'
hash=$(python3 -c 'import json; print(json.load(open("stdout"))["gradients_hash"])')
expect_exit 0 run "${step[@]}" --steps 6 --json --compare --arithmetic integer "${tiny[@]}"
expect_json "d['gradients_hash'] == '$hash' and 'jitter' not in d"

# Seeds, steps and the time scale: the same factors of other costs.
expect_exit 0 run "${step[@]}" "${jitter[@]}" --backend emulated --time-scale 2 --steps 2 --json
expect_json 'all(abs(s / 2 - t) <= 100 for s, t in zip(d["jitter"]["simulated_steps_ns"], '"$(
  "$ppsim" run "${step[@]}" "${jitter[@]}" --backend emulated --steps 2 --json |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["jitter"]["simulated_steps_ns"])'
)"'))'
expect_exit 0 run 1f1b --ranks 2 --microbatches 2 --unit F=1,B=2 --slow-rank 1=2 --steps 2 --backend emulated
expect_out "simulated with its own jitter 15.00 ms"
expect_out "2 steps with jitter of seed 1, each within"
expect_out "difference"
# Padding takes time, too; the end of a step of --model does not.
expect_exit 0 run spmd-gpipe --ranks 2 --microbatches 2 --unit F=1,B=1 --slow-rank 0=1.5 --json "${tiny[@]}"
expect_json '"padding_left_out" not in d and d["measured_step_ns"] >= d["simulated_step_ns"]'
# All that shows a step shows the simulation of the very same one.
expect_exit 0 run "${step[@]}" "${jitter[@]}" --steps 1 --compare --trace both.json --report both.html "${tiny[@]}" --json
expect_json 'all(k["measured_ns"] >= k["simulated_ns"] for k in d["kinds"])'
expect_json 'd["simulated_compute_ns"]["busy"] == sum(k["simulated_ns"] for k in d["kinds"] if k["kind"] in "FB")'
expect_json 'd["jitter"]["simulated_steps_ns"] == [d["simulated_step_ns"]]'

# Invalid options.
small=(run 1f1b --ranks 2 --microbatches 2)
expect_error 2 "a run with jitter needs costs" "" "${small[@]}" --slow-rank 0=2
expect_error 2 "jitter is not for actions that take the time that they need" "found --backend cuda" \
  "${small[@]}" --backend cuda --slow-rank 0=2
expect_error 2 "nothing differs from the plan" "expected --vary" "${small[@]}" --unit F=1 --seed 3
expect_error 2 "no spread of factors" "found uniform:1" "${small[@]}" --unit F=1 --vary F=uniform:1
expect_error 2 "nothing of this cost group" "found W" "${small[@]}" --unit F=1 --vary W=normal:1
expect_error 2 "a slow rank that the Program does not have" "found 4" "${small[@]}" --unit F=1 --slow-rank 4=2
expect_error 2 "a slow link that the Program does not have" "found 0-3" "${small[@]}" --unit F=1 --slow-link 0-3=2
expect_error 2 "a factor out of range" "" "${small[@]}" --unit F=1 --slow-rank 1=-1
expect_error 2 "--time-scale" "found --backend cpu" "${small[@]}" --unit F=1 --time-scale 2
