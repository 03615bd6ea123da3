#!/usr/bin/env bash
# A measured step again, with one thing changed: as it is it is the trace, to the nanosecond.
source "$(dirname "$0")/support/lib.sh"

step=(--ranks 4 --microbatches 8 --unit F=1,B=2,c=0.25)
expect_exit 0 simulate 1f1b "${step[@]}" --trace run.csv
expect_exit 0 replay 1f1b "${step[@]}" --trace run.csv -o again.csv --json
expect_json 'd["measured_step_ns"] == d["unchanged_step_ns"] == d["step_ns"] == 37000000'
cmp run.csv again.csv || fail "another trace"

# Measured runs, on both backends: the replay is the trace, line by line.
for backend in cpu emulated; do
  costs=()
  [ $backend = cpu ] || costs=(--unit F=3,B=6,c=0.5)
  expect_exit 0 run 1f1b --ranks 2 --microbatches 4 --backend $backend "${costs[@]}" --steps 3 --trace $backend.csv
  expect_exit 0 replay 1f1b --ranks 2 --microbatches 4 "${costs[@]}" --trace $backend.csv -o again.csv --json
  expect_json 'd["measured_step_ns"] == d["unchanged_step_ns"] == d["step_ns"] > 0'
  cmp $backend.csv again.csv || fail "the replay of a run on $backend is another trace"
done

# A change of a trace has the effect of simulating with changed costs.
changed() {
  local expected
  expect_exit 0 simulate 1f1b --ranks 4 --microbatches 8 --unit "$1" --json
  expected=$(python3 -c 'import json; print(json.load(open("stdout"))["makespan_ns"])')
  expect_exit 0 replay 1f1b "${step[@]}" --trace run.csv --change "$2" --json
  expect_json "d['step_ns'] == $expected and d['measured_step_ns'] == 37000000"
}
changed F=1,B=2,c=1 transfers=4
changed F=2,B=2,c=0.25 F=2
changed F=0.5,B=1,c=0.25 compute=0.5
expect_exit 0 replay 1f1b "${step[@]}" --trace run.csv --change rank:3=1.2
expect_out "So the step is"
expect_exit 0 replay 1f1b "${step[@]}" --trace run.csv --change link:0-1=3 --change F:2=0.5 --json
expect_json 'd["changes"] == ["link:0-1=3", "F:2=0.5"] and d["per_rank"][2]["busy_ns"] == 20000000'

# Of several steps each is replayed; the first one is the one that is shown.
mkdir steps
cp run.csv steps/1.csv
awk -F, -v OFS=, 'NR > 1 {$5 *= 2; $6 *= 2} {print}' run.csv >steps/2.csv
awk -F, -v OFS=, 'NR > 1 {$5 *= 3; $6 *= 3} {print}' run.csv >steps/3.csv
expect_exit 0 replay 1f1b "${step[@]}" --trace steps --change compute=0.5 --json
expect_json '[s["measured_step_ns"] for s in d["steps"]] == [37000000, 74000000, 111000000] and d["measured_step_ns"] == 37000000'
expect_json '[s["step_ns"] for s in d["steps"]] == [k * d["step_ns"] for k in (1, 2, 3)]'
expect_exit 0 replay 1f1b "${step[@]}" --trace steps --change compute=0.5
expect_out "The first of 3 steps. Medians: 74.00 ms as measured, 41.00 ms with the change; the time of a step changes by -44.59 % to -44.59 %."
expect_exit 0 replay 1f1b "${step[@]}" --trace steps
expect_out "The first of 3 steps. Medians: 74.00 ms as measured."
expect_exit 0 replay 1f1b "${step[@]}" --trace steps --as gpipe --json
expect_json 'len(d["steps"]) == 3 and all(s["step_ns"] > 0 for s in d["steps"])'

expect_exit 0 generate gpipe --ranks 4 --microbatches 16 -o more.json
expect_exit 0 replay 1f1b "${step[@]}" --trace steps --as more.json
expect_out "the time of a microbatch changes by"

# SENDs that end before their RECVs start, as on NCCL, wait for nobody when something has changed.
unit=(--unit F=1,B=2,c=0.25)
expect_exit 0 lower 1f1b "${step[@]}" --order just-in-time -o late.json
expect_exit 0 simulate late.json "${unit[@]}" --buffers 100 --trace eager.csv
for transport in any nccl mpi; do
  expect_exit 0 replay late.json "${unit[@]}" --trace eager.csv --transport $transport -o again.csv --json
  expect_json 'd["measured_step_ns"] == d["unchanged_step_ns"] == d["step_ns"]'
  cmp eager.csv again.csv || fail "another trace of eager sends"
done
expect_exit 0 replay late.json "${unit[@]}" --trace eager.csv --change rank:3=2 -o slow.csv --json
expect_json 'd["step_ns"] > d["measured_step_ns"]'
python3 - <<'END' || fail "SENDs of rank 2 wait for the slow rank 3"
import csv
ends = lambda file: [row["end_ns"] for row in csv.DictReader(open(file)) if row["instruction"] in ("2SEND_F0", "2SEND_F1")]
assert ends("eager.csv") == ends("slow.csv") != []
END

# A group takes as long as its longest transfer: the others have their own times.
group=(--ranks 4 --microbatches 8)
table() { echo '{"format":"ppsim-tables","version":1,"costs":[{"kind":"F","ns":1000000},{"kind":"B","ns":2000000},
  {"kind":"SEND_F","ns":'"$1"'},{"kind":"SEND_B","ns":'"$2"'}]}' >"$3"; }
expect_exit 0 lower 1f1b "${group[@]}" --grouping paired -o paired.json
table 100000 1000000 plain.json
expect_exit 0 simulate paired.json --costs plain.json --trace paired.csv
for factors in "5 1" "5 2" "1 3"; do
  read -r forward backward <<<"$factors"
  table $((100000 * forward)) $((1000000 * backward)) changed.json
  expect_exit 0 simulate paired.json --costs changed.json --json
  expected=$(python3 -c 'import json; print(json.load(open("stdout"))["makespan_ns"])')
  expect_exit 0 replay paired.json --trace paired.csv --change SEND_F=$forward --change SEND_B=$backward --json
  expect_json "d['step_ns'] == $expected"
done
expect_exit 0 calibrate paired.json --trace paired.csv --costs-out measured.json
python3 -c '
import json
costs = json.load(open("measured.json"))["costs"]
assert {(c["kind"], c["ns"]) for c in costs if c["kind"] != "F" and c["kind"] != "B"} == {("SEND_F", 100000), ("SEND_B", 1000000)}, costs' ||
  fail "a transfer takes what its group takes"

# When the clock of a trace was started does not matter.
two=(--ranks 2 --microbatches 2 --unit F=1,B=2,c=0.1)
expect_exit 0 simulate 1f1b "${two[@]}" --trace first.csv
python3 - <<'END'
import csv
rows = list(csv.DictReader(open("first.csv")))
for row in rows:
    for key in ("start_ns", "end_ns"):
        row[key] = int(row[key]) + 5_000_000_000
with open("later.csv", "w", newline="") as out:
    writer = csv.DictWriter(out, rows[0].keys(), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
END
printf '0F1,0F0,0B1,0B0\n1F1,1F0,1B1,1B0\n' >other.csv
for clock in first later; do
  expect_exit 0 replay 1f1b "${two[@]}" --trace $clock.csv --as other.csv --json
  expect_json 'd["measured_step_ns"] == d["step_ns"] == 9200000'
  expect_exit 0 replay 1f1b "${two[@]}" --trace $clock.csv -o again.csv
  cmp $clock.csv again.csv || fail "another trace of another clock"
done

# Padding is no microbatch of the batch.
expect_exit 0 simulate spmd-gpipe --ranks 3 --microbatches 4 --unit F=1,B=2 --trace padded.csv
expect_exit 0 replay spmd-gpipe --ranks 3 --microbatches 4 --unit F=1,B=2 --trace padded.csv --as 1f1b --json
expect_json 'd["microbatches"] == d["replayed_microbatches"] == 4'

# A trace of a run that another transport cannot finish: the transport is named, and not the trace.
expect_exit 0 lower zb-v --ranks 2 --microbatches 4 --order just-in-time -o jit.json
expect_exit 0 simulate jit.json --unit F=1,I=1,W=1,c=0.1 --transport in-process --trace jit.csv
expect_error 4 "cannot finish on this transport" "--transport any" replay jit.json --trace jit.csv
expect_exit 0 replay jit.json --trace jit.csv --transport in-process

# Another order of the same actions, and another schedule.
expect_exit 0 replay 1f1b "${step[@]}" --trace run.csv --as gpipe --json
cp stdout as_gpipe
expect_exit 0 simulate gpipe "${step[@]}" --json
python3 -c '
import json
assert json.load(open("as_gpipe"))["step_ns"] == json.load(open("stdout"))["makespan_ns"]' || fail "gpipe of these costs"
expect_exit 0 lower eager-1f1b "${step[@]}" -o eager.json
expect_exit 0 replay 1f1b "${step[@]}" --trace run.csv --as eager.json
expect_out "as eager.json"

# The other order recomputes what the measured step recomputes.
full=(--ranks 2 --microbatches 4 --unit F=1,B=2,R=1 --recompute full)
expect_exit 0 simulate 1f1b "${full[@]}" --trace full.csv
expect_exit 0 replay 1f1b "${full[@]}" --trace full.csv --as 1f1b --json
expect_json 'd["step_ns"] == d["measured_step_ns"] == 19000000'
# Less work is no other order, and fewer microbatches are compared one by one.
expect_error 2 "the other order lacks what the trace has" "found no B of stage 0" \
  replay 1f1b "${step[@]}" --trace run.csv --as forward-only
expect_exit 0 lower 1f1b --ranks 4 --microbatches 4 --unit F=1,B=2,c=0.25 -o half.json
expect_exit 0 replay 1f1b "${step[@]}" --trace run.csv --as half.json
expect_out "With 4 microbatches instead of 8, the time of one is"
expect_out "longer."

# Invalid replays.
expect_error 2 "nothing like an action" "0I0" replay 1f1b "${step[@]}" --trace run.csv --as zb-h1
expect_exit 0 lower gpipe --ranks 2 --microbatches 8 -o two.json
expect_error 2 "another number of ranks" "found 2" replay 1f1b "${step[@]}" --trace run.csv --as two.json
expect_error 2 "--change has no factor" "found rank:3" replay 1f1b "${step[@]}" --trace run.csv --change rank:3
expect_error 2 "no cost group" "found ranks:3" replay 1f1b "${step[@]}" --trace run.csv --change ranks:3=2
expect_error 2 "nothing of this cost group" "found W" replay 1f1b "${step[@]}" --trace run.csv --change W=2
expect_error 2 "a factor out of range" "" replay 1f1b "${step[@]}" --trace run.csv --change F=-1
expect_error 2 "not this program's trace" "" replay gpipe "${step[@]}" --trace run.csv
head -n 20 run.csv >cut.csv
expect_error 2 "an instruction is missing" "" replay 1f1b "${step[@]}" --trace cut.csv
awk -F, -v OFS=, 'NR == 4 { $5 = 0 } 1' run.csv >impossible.csv
expect_error 4 "no run of this program" "" replay 1f1b "${step[@]}" --trace impossible.csv
expect_error 2 "a factor out of range" "found 1e+300" replay 1f1b "${step[@]}" --trace run.csv --change F=1e300
