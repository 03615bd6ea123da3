#!/usr/bin/env bash
# scripts/gpu_check and gpu_bench: what they do without a GPU, and all that they do with one, on stand-ins of the programs
# that answer for a device.
source "$(dirname "$0")/support/lib.sh"
scripts=$(cd "$data/../../scripts" && pwd)
before=$(ls "$scripts/../studies")

# script CODE NAME ARGUMENTS...: runs one of the scripts with the programs of $PPSIM_BIN.
script() {
  local expected=$1 found=0
  shift
  timeout "$limit_s" "$scripts/$1" "${@:2}" >stdout 2>stderr || found=$?
  [ "$found" -eq "$expected" ] || fail "exit $found, expected $expected: $*"
}

# Without a GPU: the same measurement, small, and nothing is left of it.
mkdir none
cat >none/ppsim <<END
#!/bin/sh
case "\$1 \$2 \$3" in
  "doctor --json ") echo '{"checks": [{"check": "backend cuda", "detail": "not here: a test"}]}' ;;
  "list schedules --json") echo '{"schedules": [{"name": "1f1b"}, {"name": "pipedream"}, {"name": "vocab-1"}]}' ;;
  *) exec "$ppsim" "\$@" ;;
esac
END
chmod +x none/ppsim
export PPSIM_BIN=$PWD/none
script 3 gpu_bench
expect_out "not measured: no GPU"

# What is rehearsed is told, what is not too, and what fails in a rehearsal is a failure.
script 3 gpu_check
expect_out "not rehearsed: strict fake, unit: no ppsim_tests_unit is beside the programs in $PWD/none"
expect_out "not rehearsed: strict fake, cross: no ppsim_tests_cross is beside the programs in $PWD/none"
expect_out "rehearsed: gradients on the CPU: 5 equal, 1 refused, 0 wrong"
for mode in streamed updates; do
  expect_out "bits: float32, $mode: equal in 7 schedules, and in 2 with slices"
done
expect_out "not measured: no GPU: not here: a test"
mkdir tests
printf '#!/bin/sh\ncase $1 in *StrictFake*) echo "[  PASSED  ] 7 tests." ;; esac\n' >tests/ppsim_tests_unit
printf '#!/bin/sh\necho "[  PASSED  ] 0 tests."\necho "[  FAILED  ] 1 test."\nexit 1\n' >tests/ppsim_tests_cross
chmod +x tests/*
script 1 gpu_check --only kernels
expect_out "rehearsed: strict fake, unit: [  PASSED  ] 7 tests."
expect_out "rehearsed: strict fake, cross: FAILED"
expect_err "[  FAILED  ] 1 test."
unset PPSIM_BIN
rm -r tests
[ "$(ls "$scripts/../studies")" = "$before" ] || fail "something was written under studies"

# A program that does not start is not a machine without a GPU.
mkdir broken
printf '#!/bin/sh\necho "libz3.so.4: no such file" >&2\nexit 127\n' >broken/ppsim
chmod +x broken/ppsim
PPSIM_BIN=$PWD/broken script 1 gpu_check
expect_err "does not run here: exit 127: libz3.so.4: no such file"

# A device that is the CPU, with a model that it can compute in time.
mkdir device
cat >device/ppsim <<'END'
#!/usr/bin/env bash
case "$*" in
  "list schedules"*)  # some of them, so that a test has the time
    printf '{"name": "%s"},' 1f1b interleaved-1f1b zb-v chimera forward-only pipedream vocab-1 |
      sed 's/.*/{"schedules": [&{"name": "seq-1f1b", "slices": true}]}/'
    exit ;;
  doctor*)
    echo '{"checks": [{"check": "backend cuda", "detail": "driver 13.0, a stand-in"}]}'
    exit ;;
  *--no-profile*)  # what the host's time is measured by
    each=3500
    [[ "$*" != *--graphs* ]] || each=90
    echo "{\"host\": {\"actions\": 1, \"issue_ns\": $each, \"work_ns\": $((each - 700)),
                     \"issue_ns_per_action\": $each, \"executor_ns_per_action\": 700}}"
    exit ;;
esac
on_device=false differs=false taken=()
[[ " $* " != *" cuda "* ]] || on_device=true
if $on_device && [ "$2" = "$REFUSES" ]; then exit 2; fi  # as a device without an algorithm for a product does
if $on_device && [ "$2" = "$DIFFERS" ]; then differs=true; fi
while (($#)); do
  argument=$1
  shift
  case $argument in
    --transport | --ranks-per-device | --deadline) shift ;;
    --graphs | --no-profile) ;;
    --transformer)
      taken+=("$argument" "$(grep -o 'layers=[0-9]*' <<<"$1"),hidden=8,heads=2,ffn=8,vocab=8,sequence=4")
      shift ;;
    --steps)
      taken+=("$argument")
      if $differs; then
        taken+=(3)
        shift
      fi ;;
    bf16) taken+=(float32) ;;
    cuda) taken+=(cpu) ;;
    7) taken+=(2) ;;
    *) taken+=("$argument") ;;
  esac
done
END
printf 'exec "%s" "${taken[@]}"\n' "$ppsim" >>device/ppsim
cat >device/ppsim_gpu_probe <<'END'
#!/usr/bin/env bash
case $1 in
  products) echo '{"parts": 1, "products": [{"weights": "qkv", "action": "F", "backend_ns": 104, "plain_ns": 100}]}' ;;
  partitions)
    if [ "$2" = parts=4 ]; then
      echo '{"whole_ns": 10, "alone_ns": [40, 41, 42, 43], "concurrency": 3.9}'
    else
      echo '{"whole_ns": 10, "alone_ns": [80, 81, 82, 83, 84, 85, 86, 87], "concurrency": 4.1}'
    fi ;;
  waiting) [ "${3#*=}" -le 20 ] && echo '{"kernels_run": true, "all_released": true}' || kill -SEGV $$ ;;
  full-queue) echo '{"launches": 4000, "held_after": 1022, "others_run": true, "released": true}' ;;
  copies) echo "an error" >&2; exit 1 ;;
  calls) echo '{"median_ns": {"kernel launch": 2000}}' ;;
  nccl-self) [ "$2" = grouped=1 ] && echo '{"answer": "completes"}' || { echo "it hung" >&2; exit 1; } ;;
  *) echo '{"answer": "refused"}' ;;
esac
END
printf '#!/bin/sh\necho "[  PASSED  ] 1 test."\n' >device/ppsim_tests_gpu
chmod +x device/*
export PPSIM_BIN=$PWD/device

script 1 gpu_bench bench
expect_out "pass  points: "
expect_out "pass  product against plain cuBLASLt, slowest: 1.040 times (at most 1.05 times)"
expect_out "FAIL  host time of an action, streamed: 3500 ns (at most 3000 ns)"
expect_out "pass  host time of an action, graphs: 90 ns (at most 100 ns)"
expect_out "streamed, small model: 3500 ns, of which 700 ns are the executor's own"
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
assert bench["machine"]["cores"] and bench["machine"]["command"] and bench["machine"]["date"]
END

# The time is over before anything is asked: that is told, and kept.
script 1 gpu_bench --limit 1 --only points late
expect_out "FAIL  points: 0 (at least 100)"
python3 -c '
import json
bench = json.load(open("late/bench.json"))
assert bench["points"] == [] and all(one["exit"] == "left out" for one in bench["failures"]), bench["failures"]
' || fail "not within its limit"

# A question that dies and one that fails are told, and the others are asked.
script 1 gpu_check --limit 60 check
python3 - <<'END' || fail "not what was asked"
import json
facts = {fact["fact"]: fact for fact in json.load(open("check/facts.json"))["facts"]}
assert facts["4 parts work at the same time, as graphs"]["as_expected"]
assert facts["one of 8 parts of the multiprocessors has its share of the speed, streamed"]["as_expected"]
assert not facts["8 parts work at the same time, streamed"]["as_expected"]
assert not facts["two processes on one device, told apart by NCCL_HOSTID, over loopback"]["as_expected"]
assert facts["kernels run beside 20 streams that wait for a number"]["as_expected"]
assert facts["kernels run beside 24 branches of graphs that wait for a number"]["answer"]["exit"] == -11
assert "kernels run beside 28 streams that wait for a number" not in facts
assert facts["a copy within the device takes no multiprocessors of the part that makes it"]["answer"]["exit"] == 1
assert json.load(open("check/kernels.json"))["good"]
END

# The gradients of all that the CPU computes.
script 0 gpu_check --only gradients check
expect_out "gradients: 23 equal, 4 refused as they should be, 0 wrong, 0 had no time left"
python3 - <<'END' || fail "not the schedules that are refused"
import json
rows = json.load(open("check/gradients.json"))["gradients"]
refused = {(row["schedule"], row["mode"]) for row in rows if row["exit"] == 2}
assert refused == {("pipedream", "updates"),
                   *(("forward-only", mode) for mode in ("streamed", "graphs", "updates"))}
assert all(row["gradients_equal"] for row in rows if row["exit"] == 0), rows
END
REFUSES=zb-v script 1 gpu_check --only gradients check
expect_out "gradients: 20 equal, 4 refused as they should be, 3 wrong, 0 had no time left"

# The same bits in schedules of four and of eight stages, or the one that has others is found.
DIFFERS=zb-v script 1 gpu_check --only bits check
expect_out "bits: float32, streamed: NOT EQUAL in 7 schedules"
python3 - <<'END' || fail "not the one that differs"
import json
for row in json.load(open("check/bits.json"))["bits"]:
    hashes = {}
    for run in row["runs"]:
        hashes.setdefault(run["gradients_hash"], []).append(run["schedule"])
    assert ["zb-v"] in hashes.values() and len(hashes) == 3, row
    assert ["seq-1f1b:slices=4", "terapipe:slices=4"] in hashes.values(), row
END

# What hangs is ended with all that it started, and a share is no more than what is left.
PYTHONDONTWRITEBYTECODE=1 python3 - "$scripts" <<'END' || fail "what hangs is not ended"
import sys, time
sys.path.insert(0, sys.argv[1])
from gpu_session import LEFT_OUT, Session
session = Session("out", 60)
with session.share(3):
    begin = time.monotonic()
    done = session.run(["sh", "-c", "echo begun; sleep 1000 & sleep 1000"], 50)
    assert done["exit"] == "timeout" and done["stdout"] == "begun\n" and time.monotonic() - begin < 20, done
    assert session.run(["true"], 50)["exit"] == LEFT_OUT
assert session.run(["true"], 50)["exit"] == 0 and session.run(["no such program"], 50)["exit"] == 127
END
