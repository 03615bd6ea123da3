#!/usr/bin/env bash
# Costs from traces of ours, of PyTorch's profiler and of Nsight Systems, and from nccl-tests; --calibration with a model.
source "$(dirname "$0")/support/lib.sh"

size=(--ranks 2 --microbatches 4)
job=(--model llama3-8b --cluster dgx-h100 --tp 4 --pp 2 --global-batch-size 4)

# A simulated step has the costs that it was made with; every half of it, too.
expect_exit 0 simulate 1f1b "${size[@]}" --unit F=1,B=2.5,c=0.25 --trace step.csv
lowered=(--unit F=1,B=2.5,c=0.25)
expect_exit 0 calibrate 1f1b "${size[@]}" "${lowered[@]}" --trace step.csv --costs-out table.json --json
expect_json '[g["group"] for g in d["groups"]] == ["F", "B", "SEND_F", "SEND_B", "step"]'
expect_json 'all(g["error_before_percent"] == g["error_after_percent"] == g["error_other_half_percent"] == 0 for g in d["groups"])'
expect_exit 0 simulate 1f1b "${size[@]}" --costs table.json --json
cp stdout calibrated
expect_exit 0 simulate 1f1b "${size[@]}" "${lowered[@]}" --json
step_of() { python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["makespan_ns"])' "$1"; }
[ "$(step_of stdout)" = "$(step_of calibrated)" ] || fail "another step of the same costs"

# A measured run: the other half of its actions is predicted, and a table is written that simulates it.
expect_exit 0 run 1f1b "${size[@]}" --backend emulated --unit F=4,B=8,c=1 --steps 2 --trace run.csv
expect_exit 0 calibrate 1f1b "${size[@]}" --unit F=4,B=8,c=1 --trace run.csv --trace run.csv --costs-out measured.json
expect_out "other half"
expect_exit 0 simulate 1f1b "${size[@]}" --costs measured.json

# Every step of a run but the first, in a folder: half of the steps is measured against the other.
emulated=(--backend emulated --unit F=4,B=8,c=1)
expect_exit 0 run 1f1b "${size[@]}" "${emulated[@]}" --steps 5 --traces steps
[ "$(ls steps | tr '\n' ' ')" = "step-000002.csv step-000003.csv step-000004.csv step-000005.csv " ] || fail "other steps: $(ls steps)"
expect_exit 0 calibrate 1f1b "${size[@]}" --unit F=4,B=8,c=1 --trace steps --json
expect_json 'd["groups"][-1]["group"] == "step" and d["groups"][-1]["observations"] == 4'
expect_json 'd["groups"][-1]["error_other_half_percent"] is not None'
expect_exit 0 replay 1f1b "${size[@]}" --unit F=4,B=8,c=1 --trace steps --json
expect_json 'len(d["steps"]) == 4'
shown() { python3 -c 'import json; d = json.load(open("stdout")); print({key: d[key] for key in d if key != "steps"})'; }
shown >from_folder
expect_exit 0 replay 1f1b "${size[@]}" --unit F=4,B=8,c=1 --trace steps/step-000002.csv --json
cmp -s from_folder <(shown) || fail "a folder's first step is another one"
# One that took twice as long as eight others is left out, unless it is asked for.
mkdir same
for copy in 1 2 3 4 5 6 7 8; do cp step.csv "same/$copy.csv"; done
awk -F, -v OFS=, 'NR > 1 {$5 *= 2; $6 *= 2} {print}' step.csv >same/9.csv
expect_exit 0 calibrate 1f1b "${size[@]}" "${lowered[@]}" --trace same --json
expect_json 'd["left_out_steps"] == 1 and d["groups"][-1]["observations"] == 8 and d["groups"][-1]["error_after_percent"] == 0'
expect_err "1 of 9 steps left out, whose durations are outliers; --all-steps counts them"
expect_exit 0 calibrate 1f1b "${size[@]}" "${lowered[@]}" --trace same --all-steps --json
expect_json 'd["left_out_steps"] == 0 and d["groups"][-1]["observations"] == 9'
expect_error 2 "steps are those of traces" "--trace FILE" calibrate --nccl-tests none.txt --all-steps
expect_exit 0 run 1f1b "${size[@]}" "${emulated[@]}" --steps 1 --traces one
[ "$(ls one)" = step-000001.csv ] || fail "the only step of a run is written"
expect_error 2 "the folder has traces already" "steps" run 1f1b "${size[@]}" "${emulated[@]}" --traces steps
expect_error 1 "table.json" "Not a directory" run 1f1b "${size[@]}" "${emulated[@]}" --traces table.json/deeper
expect_exit 0 run 1f1b "${size[@]}" "${emulated[@]}" --steps 102 --time-scale 0.001 --traces long
[ "$(ls long | wc -l)" = 100 ] && [ -f long/step-000003.csv ] && [ -f long/step-000102.csv ] || fail "the newest 100 steps"

# Ranks that shared a device: what each slows the others down by is found, and then the step.
expect_exit 0 simulate 1f1b "${size[@]}" "${lowered[@]}" --ranks-per-device 2 --slowdown 0.25 --trace shared.csv
expect_exit 0 calibrate 1f1b "${size[@]}" "${lowered[@]}" --trace shared.csv --ranks-per-device 2 --costs-out alone.json --json
expect_json 'all(abs(k["slowdown"] - 0.25) < 0.01 for k in d["slowdowns"]["kinds"] if k["others"] > 0)'
expect_json 'abs(d["slowdowns"]["step_error_percent"]) < 1 and d["slowdowns"]["ranks_per_device"] == 2'
expect_json 'd["slowdowns"]["step_error_other_half_percent"] is None'
# Of two steps, one of which took twice as long as the other: the first alone predicts half of the second.
awk -F, -v OFS=, 'NR > 1 {$5 *= 2; $6 *= 2} {print}' shared.csv >slower.csv
expect_exit 0 calibrate 1f1b "${size[@]}" "${lowered[@]}" --trace shared.csv --trace slower.csv --ranks-per-device 2 --json
expect_json 'abs(d["slowdowns"]["step_error_other_half_percent"] + 50) < 1'
expect_exit 0 simulate 1f1b "${size[@]}" --costs alone.json --ranks-per-device 2 --slowdown 0.25
expect_exit 0 calibrate 1f1b "${size[@]}" "${lowered[@]}" --trace shared.csv --ranks-per-device 2
expect_out "step, slowed"
expect_out "slowdown by each"
expect_error 2 "slowdowns come from traces" "--trace FILE" calibrate --nccl-tests none.txt --ranks-per-device 2

# Of steps every other one of which took no time, one half says nothing of the other; of equal steps it says all.
mkdir empty equal
for copy in 1 2 3; do
  cp step.csv empty/$copy-a.csv
  awk -F, -v OFS=, 'NR > 1 {$5 = $6 = 0} {print}' step.csv >empty/$copy-b.csv
  cp step.csv equal/$copy.csv
  cp step.csv equal/$copy-again.csv
done
expect_exit 0 calibrate 1f1b "${size[@]}" "${lowered[@]}" --trace empty --json
expect_json '"varied_step" not in d'
expect_exit 0 calibrate 1f1b "${size[@]}" "${lowered[@]}" --trace equal --json
expect_json 'd["varied_step"] == {"error_percent": 0, "error_other_half_percent": 0}'
expect_exit 0 calibrate 1f1b "${size[@]}" "${lowered[@]}" --trace equal
expect_out "step, varied"

# Messages from a rank whose clock is 300 us fast arrive before they are sent: refused. 20 us, about as well
# as a host knows when a device began, are put right.
for fast in 20000 300000; do
  expect_exit 0 simulate 1f1b "${size[@]}" --unit F=1,B=2.5,c=0.01 --trace clock.csv
  awk -F, -v OFS=, -v fast=$fast 'NR > 1 && $1 == 0 {$5 += fast; $6 += fast} {print}' clock.csv >$fast.csv
done
clocks=(1f1b "${size[@]}" --unit F=1,B=2.5,c=0.01)
expect_exit 0 calibrate "${clocks[@]}" --trace 20000.csv --json
expect_json '[round(g["error_after_percent"], 2) for g in d["groups"] if g["group"] in ("F", "B")] == [0, 0]'
expect_json 'abs(d["groups"][-1]["error_after_percent"]) < 0.5'
clocks4=(1f1b --ranks 4 --microbatches 8 --unit F=1,B=2.5,c=0.01)
expect_exit 0 simulate "${clocks4[@]}" --trace clock.csv
awk -F, -v OFS=, 'BEGIN {split("30000 0 60000 10000", off, " ")} NR > 1 {$5 += off[$1 + 1]; $6 += off[$1 + 1]} {print}' clock.csv >four.csv
expect_exit 0 calibrate "${clocks4[@]}" --trace four.csv --json
expect_json 'abs(d["groups"][-1]["error_after_percent"]) < 0.5'
expect_exit 4 calibrate "${clocks[@]}" --trace 300000.csv
expect_err "no run of this program can have done this"

# With a model: factors of each kind, in a file that every command with a model accepts, and its hash in their results.
expect_exit 0 simulate 1f1b "${job[@]}" --trace model.csv --json
cp stdout plain
python3 - <<'END'
import csv
rows = list(csv.reader(open("model.csv")))
# Every action takes twice as long: so does the step, and so do the factors say.
open("double.csv", "w").write("\n".join([",".join(rows[0])] + [",".join(r[:4] + [str(2 * int(r[4])), str(2 * int(r[5]))]) for r in rows[1:]]) + "\n")
END
expect_exit 0 calibrate 1f1b "${job[@]}" --trace double.csv -o calibration.json --json
expect_json 'all(abs(f["factor"] - 2) < 1e-6 for f in d["factors"]) and len(d["factors"]) == 4'
expect_json 'all(abs(g["error_before_percent"]) > 49 and abs(g["error_after_percent"]) < 0.001 for g in d["groups"])'
# The written factors predict the other half, with the same error where all actions of a class take the same time.
for fit in factors constants both; do
  expect_exit 0 calibrate 1f1b "${job[@]}" --trace double.csv --fit $fit --json
  expect_json 'all(abs(g["error_after_percent"] - g["error_other_half_percent"]) < 0.01 for g in d["groups"])'
done
expect_exit 0 calibrate 1f1b "${job[@]}" --trace double.csv --fit constants --json
expect_json 'max(abs(g["error_other_half_percent"]) for g in d["groups"]) > 1'
expect_exit 0 calibrate 1f1b "${job[@]}" --trace double.csv -o calibration.json --json
hash=$(python3 -c 'import json; print(json.load(open("stdout"))["calibration_hash"])')
expect_exit 0 simulate 1f1b "${job[@]}" --calibration calibration.json --json
expect_json "d['calibration_hash'] == '$hash'"
python3 -c '
import json
before, after = json.load(open("plain")), json.load(open("stdout"))
assert abs(after["makespan_ns"] / before["makespan_ns"] - 2) < 1e-6, (before["makespan_ns"], after["makespan_ns"])' || fail "twice the step"
expect_exit 0 simulate 1f1b "${job[@]}" --calibration calibration.json
expect_out "calibrated by $hash"
expect_exit 0 compare 1f1b gpipe "${job[@]}" --calibration calibration.json --json
grep -q "$hash" stdout || fail "compare names the calibration"
expect_exit 0 sensitivity 1f1b "${job[@]}" --calibration calibration.json
expect_exit 0 plan --model llama3-8b --cluster dgx-h100 --nodes 1 --global-batch-size 8 --fix schedule=1f1b --fix tp=4 \
  --calibration calibration.json --json
expect_json "d['calibration_hash'] == '$hash'"
expect_json 'all("--calibration calibration.json" in p["command"] for p in d["plans"])'
expect_exit 0 calibrate 1f1b "${job[@]}" --trace double.csv --fit both -o both.json
expect_out "constants exposed_share"
expect_exit 0 simulate 1f1b "${job[@]}" --calibration both.json
# Traces that a calibration describes give its factors again.
expect_exit 0 calibrate 1f1b "${job[@]}" --calibration calibration.json --trace double.csv --json
expect_json 'all(abs(f["factor"] - 2) < 1e-6 for f in d["factors"]) and all(abs(g["error_before_percent"]) < 0.001 for g in d["groups"])'

# Traces of PyTorch's profiler have computation alone.
mkdir kineto
for rank in 0 1; do
  awk -F, -v rank=$rank 'BEGIN { printf "{\"traceEvents\": [" } $1 == rank {
    printf "%s{\"ph\": \"X\", \"cat\": \"user_annotation\", \"name\": \"PP:%s\", \"ts\": %.3f, \"dur\": %.3f}", comma, $4,
      $5 / 1000, ($6 - $5) / 1000; comma = "," } END { print "]}" }' step.csv | sed 's/[<>][0-9]*"/"/g' >kineto/rank$rank.json
done
expect_exit 0 calibrate 1f1b "${size[@]}" "${lowered[@]}" --trace kineto --costs-out kineto.json --json
expect_json '[g["group"] for g in d["groups"]] == ["F", "B", "step"] and all(g["error_after_percent"] == 0 for g in d["groups"][:2])'
expect_err "the traces have no transfers"
expect_exit 0 simulate gpipe "${size[@]}" --costs kineto.json

# Nsight Systems, two processes in one report: kernels where there are any, those of NCCL aside; names by id.
cat >nsys.py <<'END'
import csv, sqlite3, sys
file, with_kernels = sys.argv[1], sys.argv[2] == "kernels"
db = sqlite3.connect(file)
db.executescript("""
CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
CREATE TABLE NVTX_EVENTS (start INTEGER, "end" INTEGER, eventType INTEGER, text TEXT, textId INTEGER, globalTid INTEGER);
""")
db.execute("INSERT INTO StringIds VALUES (1, 'ampere_gemm'), (2, 'ncclDevKernel_SendRecv')")
if with_kernels:
    db.executescript("""
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, "end" INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, "end" INTEGER, globalPid INTEGER, correlationId INTEGER, shortName INTEGER);
""")
for number, row in enumerate(csv.DictReader(open("step.csv"))):
    cell, process = row["instruction"], 77 + int(row["rank"])
    start, end, tid = int(row["start_ns"]), int(row["end_ns"]), (process << 24) | 5
    name = 100 + number
    db.execute("INSERT INTO StringIds VALUES (?, ?)", (name, "PP:" + cell.split(">")[0].split("<")[0]))
    by_id = number % 2 == 0
    launch = start // 2 if with_kernels else start
    db.execute("INSERT INTO NVTX_EVENTS VALUES (?, ?, 59, ?, ?, ?)",
               (launch, launch + 10 if with_kernels else end, None if by_id else "PP:" + cell, name if by_id else None, tid))
    if with_kernels and "SEND" not in cell and "RECV" not in cell:
        middle = (start + end) // 2
        # Autograd launches from its own thread.
        for part, (kernel, begin, stop) in enumerate(((1, start, middle), (1, middle, end), (2, 0, end + 99))):
            db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, ?, ?, 1)", (launch + part, launch + part, tid + 1, 10 * number + part))
            db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, ?, ?, ?)", (begin, stop, process << 24, 10 * number + part, kernel))
db.commit()
END
for kind in host kernels; do
  python3 nsys.py $kind.sqlite $kind
  expect_exit 0 calibrate 1f1b "${size[@]}" "${lowered[@]}" --trace $kind.sqlite --json
  expect_json '[g["group"] for g in d["groups"]] == ["F", "B", "step"]'
  expect_json 'all(g["error_before_percent"] == g["error_after_percent"] == 0 for g in d["groups"][:2])'
done

# nccl-tests: the two formats.
cat >all_reduce.txt <<'END'
# nThread 1 nGpus 1 minBytes 1048576 maxBytes 4194304 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1
# Using devices
#  Rank  0 Group  0 Pid   6899 on node-a device  0 [0000:04:00] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid   6900 on node-a device  1 [0000:05:00] NVIDIA H100 80GB HBM3
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
     1048576        262144     float     sum      -1   100.00   10.49   10.49       0   100.00   10.49   10.49       0
     2097152        524288     float     sum      -1   200.00   10.49   10.49       0   200.00   10.49   10.49       0
     4194304       1048576     float     sum      -1   400.00   10.49   10.49       0   400.00   10.49   10.49       0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 10.49
END
cat >pairs.json <<'END'
{"version": 1, "args": ["/opt/sendrecv_perf"], "config": {"nthreads": 1, "ngpus": 1, "devices": [
 {"rank": 0, "group": 0, "hostname": "a"}, {"rank": 1, "group": 0, "hostname": "b"}]},
 "results": [{"size": 1048576, "out_of_place": {"time": 50.0, "nwrong": 0}, "in_place": {"time": 51.0}}]}
END
expect_exit 0 calibrate --nccl-tests all_reduce.txt --nccl-tests pairs.json -o network.json --json
expect_json '[g["group"] for g in d["groups"]] == ["all_reduce of 2 GPUs, 2 a node", "sendrecv of 2 GPUs, 1 a node"]'
expect_json 'd["groups"][0]["error_other_half_percent"] < 1e-9 and d["groups"][0]["error_before_percent"] is None'
expect_exit 0 calibrate --nccl-tests all_reduce=all_reduce.txt "${job[@]}"
expect_out "all_reduce of 2 GPUs, 2 a node"
expect_exit 0 simulate 1f1b --model llama3-8b --cluster dgx-h100 --nodes 2 --tp 8 --pp 2 --global-batch-size 4 --calibration network.json --json
expect_json 'd["calibration_hash"] and d["makespan_ns"] > 0'

# Invalid inputs.
printf 'rank,queue' >broken.csv
expect_error 2 "not the header of a trace" "" calibrate 1f1b "${size[@]}" --trace broken.csv
head -c 200 step.csv >cut.csv
expect_error 2 "cut.csv" "" calibrate 1f1b "${size[@]}" "${lowered[@]}" --trace cut.csv
: >empty.csv
expect_error 2 "empty.csv:1" "" calibrate 1f1b "${size[@]}" --trace empty.csv
expect_error 2 "not this program's trace" "" calibrate gpipe "${size[@]}" --trace step.csv
head -c 3000 host.sqlite >cut.sqlite
expect_error 2 "cut.sqlite" "" calibrate 1f1b "${size[@]}" --trace cut.sqlite
cp step.csv text.sqlite
expect_error 2 "no report of Nsight Systems" "file is not a database" calibrate 1f1b "${size[@]}" --trace text.sqlite
python3 -c 'import sqlite3; db = sqlite3.connect("other.sqlite"); db.execute("CREATE TABLE t (a)"); db.commit()'
expect_error 2 "no table of NVTX ranges" "no NVTX_EVENTS" calibrate 1f1b "${size[@]}" --trace other.sqlite
expect_error 2 "has to be exported first" "nsys export" calibrate 1f1b "${size[@]}" --trace report.nsys-rep
expect_error 2 "missing.sqlite" "" calibrate 1f1b "${size[@]}" --trace missing.sqlite
expect_error 2 "traces of two kinds" "1 of 2" calibrate 1f1b "${size[@]}" --trace step.csv --trace kineto
expect_error 2 "no output of nccl-tests" "" calibrate --nccl-tests step.csv
head -n 8 all_reduce.txt >all_reduce_cut.txt
expect_error 2 "the output was cut off" "" calibrate --nccl-tests all_reduce_cut.txt
expect_error 2 "nothing to calibrate with" "" calibrate
expect_error 2 "traces are those of an INPUT" "" calibrate --trace step.csv
expect_error 2 "factors are those of a model" "" calibrate 1f1b "${size[@]}" --trace step.csv -o x.json
python3 -c '
for number, line in enumerate(open("model.csv")):
    cells = line.strip().split(",")
    print(",".join(cells[:4] + ([str(100 * int(c)) for c in cells[4:]] if number else cells[4:])))' >big.csv
expect_error 2 "not of this model" "" calibrate 1f1b "${job[@]}" --trace big.csv
echo '{"format": "ppsim-calibration", "version": 1, "factors": [{"kind": "F", "factor": 99}]}' >wrong.json
expect_error 2 "wrong.json:1" "found 99" simulate 1f1b "${job[@]}" --calibration wrong.json
expect_error 2 "table.json" "ppsim-calibration" simulate 1f1b "${job[@]}" --calibration table.json
expect_error 2 "--calibration" "" simulate 1f1b "${size[@]}" --unit F=1 --calibration calibration.json
