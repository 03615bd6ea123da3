#!/usr/bin/env bash
# A trace is read back: drawn, compared with the simulation, and refused where it is not of this program.
source "$(dirname "$0")/support/lib.sh"
costs=(--unit F=1,B=2,c=0.5)

expect_exit 0 lower 1f1b --ranks 2 --microbatches 3 "${costs[@]}" -o p.json
expect_exit 0 simulate p.json "${costs[@]}" --trace t.csv

# Drawn as the simulation itself is.
expect_exit 0 show p.json "${costs[@]}" --width 60
cp stdout simulated.txt
expect_exit 0 show p.json --trace t.csv --width 60
cmp stdout simulated.txt || fail "another picture"
expect_exit 0 show p.json --trace t.csv --format svg -o t.svg
[ -s t.svg ] || fail "no picture"

# A run twice as slow, from stdin too.
awk -F, -v OFS=, 'NR > 1 { $5 *= 2; $6 *= 2 } 1' t.csv >slow.csv
expect_exit 0 simulate p.json "${costs[@]}" --compare-trace slow.csv --json
expect_json 'd["compared"]["measured_step_ns"] == 2 * d["compared"]["simulated_step_ns"] == 2 * d["makespan_ns"]'
expect_json '[k["kind"] for k in d["compared"]["kinds"]] == ["F", "B", "SEND_F", "RECV_F", "SEND_B", "RECV_B"]'
expect_json 'all(k["measured_ns"] == 2 * k["simulated_ns"] > 0 for k in d["compared"]["kinds"])'
expect_json 'd["compared"]["kinds"][0] == {"kind": "F", "count": 6, "measured_ns": 12000000, "simulated_ns": 6000000}'
expect_exit 0 simulate p.json "${costs[@]}" --compare-trace slow.csv
[ "$(grep -c '+100.00 %$' stdout)" -eq 7 ] || fail "the difference of each kind and of the step"
# Of nothing simulated there is no difference.
expect_exit 0 simulate p.json --unit F=1,B=2 --compare-trace slow.csv
grep -qE '^SEND_F +3 +[0-9.]+ ms +0 ns$' stdout || fail "a share of nothing"

# Both are drawn, and are in one trace; a CSV has the simulated one.
expect_exit 0 simulate p.json "${costs[@]}" --compare-trace slow.csv --report both.html --trace both.json
grep -q '"overlay":true' both.html || fail "no overlay"
grep -q '"name":"measured","makespan":28000000' both.html || fail "no measured step"
grep -q '"name":"simulated","makespan":14000000' both.html || fail "no simulated step"
# The simulated step has its end, and the page what it assumes.
job=(--model llama3-70b --cluster dgx-h100 --nodes 4 --tp 8 --pp 4 --global-batch-size 8)
expect_exit 0 simulate 1f1b "${job[@]}" --trace job.csv --report alone.html
expect_exit 0 simulate 1f1b "${job[@]}" --compare-trace job.csv --report over.html
grep -q "^pipeline  *1 " stdout || fail "no row of the pipeline"
! grep -q "^step  *1 " stdout || fail "a trace is not the whole step"
expect_exit 0 simulate 1f1b "${job[@]}" --compare-trace job.csv --json
expect_json 'd["compared"]["measured_pipeline_ns"] == d["compared"]["simulated_pipeline_ns"] == d["makespan_ns"] < d["step_ns"]'
step=$(grep -o '"step":[0-9]*' alone.html | head -1)
grep -q "$step" over.html || fail "the headline is not the whole step"
grep -q "memory of this run" over.html || fail "no verdict on memory"
for rank in 0 1; do
  for run in simulated measured; do grep -q "rank $rank $run" both.json || fail "no $run rank $rank"; done
done
expect_exit 0 simulate p.json "${costs[@]}" --compare-trace slow.csv --trace again.csv
cmp again.csv t.csv || fail "another simulated trace"
expect_exit 0 simulate p.json "${costs[@]}" --report alone.html --trace alone.json
grep -q '"overlay":false' alone.html || fail "nothing to overlay"
! grep -q "measured" alone.json || fail "nothing is measured"

# A measured run.
expect_exit 0 run p.json --steps 2 --trace run.csv
expect_exit 0 simulate p.json "${costs[@]}" --compare-trace run.csv --json
expect_json 'sum(k["count"] for k in d["compared"]["kinds"]) == 24'
expect_exit 0 show p.json --trace run.csv

# Traces of PyTorch's profiler, one a rank, on clocks an hour apart; a range of a transfer is a launch.
mkdir kineto
for rank in 0 1; do
  awk -F, -v rank=$rank 'BEGIN { printf "{\"traceEvents\": [" } $1 == rank {
    printf "%s{\"ph\": \"X\", \"cat\": \"user_annotation\", \"name\": \"PP:%s\", \"ts\": %.3f, \"dur\": %.3f}", comma, $4,
      $5 / 500 + rank * 3600000000, ($6 - $5) / 500; comma = "," } END { print "]}" }' t.csv | sed 's/[<>][0-9]*"/"/g' >kineto/rank$rank.json
done
expect_exit 0 simulate p.json "${costs[@]}" --compare-trace kineto --json
expect_json '[k["kind"] for k in d["compared"]["kinds"]] == ["F", "B"]'
expect_json 'all(k["measured_ns"] == 2 * k["simulated_ns"] for k in d["compared"]["kinds"])'
expect_json 'd["compared"]["clocks_as_recorded"] is False'
expect_json 'abs(d["compared"]["clocks"][1]["offset_ns"] + 3600e9) <= d["compared"]["clocks"][1]["error_ns"] < 10e6'
expect_exit 0 simulate p.json "${costs[@]}" --compare-trace kineto/rank1.json --compare-trace kineto/rank0.json
expect_out "Clocks are aligned with that of rank 0 by the messages: rank 1 by -"
expect_error 2 "no trace of rank 1" "2, one a rank" simulate p.json "${costs[@]}" --compare-trace kineto/rank0.json
expect_error 2 "another schedule" "found PP:0F2" simulate 1f1b --ranks 2 --microbatches 2 "${costs[@]}" --compare-trace kineto
gzip -k kineto/rank0.json
expect_error 2 "compressed" "gunzip" simulate p.json "${costs[@]}" --compare-trace kineto/rank0.json.gz
mkdir nothing
expect_error 2 "a folder without traces" "torch.profiler" simulate p.json "${costs[@]}" --compare-trace nothing

expect_exit 0 simulate p.json "${costs[@]}" --compare-trace kineto --report both.html --trace both.pftrace
grep -q '"overlay":true' both.html || fail "no overlay of a profiled step"

# A schedule is lowered with COSTS, so a run of it is drawn with the same.
expect_exit 0 simulate 1f1b --ranks 2 --microbatches 3 --unit F=1,B=2,c=0.5 --trace named.csv
expect_exit 0 show 1f1b --ranks 2 --microbatches 3 --unit F=1,B=2,c=0.5 --trace named.csv
expect_exit 0 simulate 1f1b --ranks 2 --microbatches 3 --unit F=5,B=1,c=3 --trace other.csv
for command in "show --trace" "simulate --unit F=1,B=2 --compare-trace"; do
  expect_error 2 "not this program's trace" "give the same --unit, --costs or --model" $command other.csv 1f1b --ranks 2 \
    --microbatches 3
done

# Of another program, cut short, no trace at all, impossible.
expect_exit 0 lower gpipe --ranks 2 --microbatches 3 "${costs[@]}" -o other.json
expect_exit 2 show other.json --trace t.csv
expect_err "not this program's trace"
head -n 5 t.csv >short.csv
expect_error 2 "short.csv:6:1" "an instruction is missing" show p.json --trace short.csv
echo "rank,time" >header.csv
expect_error 2 "header.csv:1:2" "not the header of a trace" simulate p.json "${costs[@]}" --compare-trace header.csv
expect_error 2 "gone.csv" "No such file" show p.json --trace gone.csv
awk -F, -v OFS=, '$4 == "1F0" { $5 = 0 } 1' t.csv >early.csv
expect_error 4 "early.csv" "no run of this program can have done this: rank 1: 1F0 starts at 0 ns" \
  show p.json --trace early.csv
