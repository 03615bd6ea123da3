#!/usr/bin/env bash
# scripts/gpu_bench on stand-ins: what it measures, and what it does when its time is over.
source "$(dirname "$0")/support/lib.sh"
source "$support/gpu_scripts.sh"
with_device

script 1 gpu_bench bench
expect_out "pass  points: "
expect_out "pass  product against the best of cuBLASLt's algorithms, slowest: 1.040 times (at most 1.05 times)"
expect_out "pass  attention against the best of cuDNN's plans, slowest: 1.020 times (at most 1.05 times)"
expect_out "pass  element-wise kernel against a copy of its bytes, slowest: 1.200 times (at most 1.25 times)"
expect_out "pass  host time of an action, streamed, without its launches: 700 ns (at most 3000 ns)"
expect_out "pass  host time of an action, graphs: 90 ns (at most 100 ns)"
expect_out "streamed, small model, one rank: 3500 ns, of which 700 ns are the executor's own"
python3 - <<'END' || fail "not what was measured"
import json
bench = json.load(open("bench/bench.json"))
points = bench["points"]
assert len(points) >= 100 and all("error" not in point for point in points), points[-1]
assert {point["ranks"] for point in points} == {2, 3, 4}
assert len({(p["schedule"], p["ranks"], p["shape"]) for p in points}) == len(points)
assert all(p["measured_step_ns"] > 0 and len(p["steps_ns"]) == 2 for p in points)
bars = {bar["bar"]: bar for bar in bench["bars"]}
errors = sorted(abs(p["step_error"]) for p in points)
assert bars["step error, median"]["found"] in errors[len(errors) // 2 - 1:len(errors) // 2 + 1]
assert bars["bubble error, largest"]["found"] == max(abs(p["bubble_error"]) for p in points)
halves = [abs(g["error_other_half_percent"]) for one in bench["halves"] for g in one["groups"] if g["group"] == "step"]
assert len(halves) == 6 and bars["step from every other step's costs, largest error"]["found"] == max(halves) / 100
assert {a["direction"] for a in bench["attention"]} == {"forward", "backward"}
assert all(" --algorithms algorithms.json " in p["command"] for p in points), points[0]["command"]
assert bench["machine"]["cores"] and bench["machine"]["command"] and bench["machine"]["date"]
END

# The clock beside the steps, where something tells it.
mkdir -p bin
cat >bin/nvidia-smi <<'END'
#!/usr/bin/env bash
[[ $* == *--loop-ms=50* ]] || exit 1
while echo '1755, 690.25, 50, 0x0000000000000004'; do sleep 0.05; done
END
chmod +x bin/nvidia-smi
PATH=$PWD/bin:$PATH script 1 gpu_bench --only clock clock
expect_out "1f1b, huge stages, 16 microbatches: "
expect_out " ms a step, 1755 MHz, 690 W"

# The time is over before anything is asked: that is told, and kept.
script 1 gpu_bench --limit 1 --only points late
expect_out "FAIL  points: 0 (at least 100)"
python3 -c '
import json
bench = json.load(open("late/bench.json"))
assert bench["points"] == [] and all(one["exit"] == "left out" for one in bench["failures"]), bench["failures"]
' || fail "not within its limit"

# The programs may come as they were packed, for a machine that cannot build them.
tar czf bundle.tar.gz -C "$PPSIM_BIN" .
PPSIM_BIN=bundle.tar.gz script 1 gpu_bench --limit 20 --only products packed
expect_out "pass  product against the best of cuBLASLt's algorithms, slowest: 1.040 times (at most 1.05 times)"
