#!/usr/bin/env bash
# --for jaxpp-0.9.2: the instructions that JaxPP issues, and how long it keeps sent tensors.
source "$(dirname "$0")/support/lib.sh"
sizes="--ranks 4 --microbatches 8"

# Its order, proved and timed; a file says how long sent tensors stay.
expect_exit 0 lower zb-h1 $sizes --for jaxpp-0.9.2 -o program.json
expect_err "next: ppsim verify program.json --for jaxpp-0.9.2"
grep -q '"send_done_delay": "end"' program.json || fail "what is sent stays to the end"
grep -q '"1RECV_F0@0","1F0","1RECV_F1@0","1SEND_F0@1"' <(tr -d ' \n' <program.json) || fail "another order"
expect_exit 0 verify program.json --for jaxpp-0.9.2
expect_out "for jaxpp-0.9.2, which loads it"
expect_exit 0 verify zb-h1 $sizes --for jaxpp-0.9.2 --json
expect_json 'd["target"] == "jaxpp-0.9.2" and d["transport"] == "nccl" and d["communicators"] == "per-pair"'
expect_exit 0 simulate zb-h1 $sizes --unit F=1,B=2,c=0.1 --for jaxpp-0.9.2 --json
hash=$(python3 -S -c "import json; print(json.load(open(\"stdout\"))[\"program_hash\"])")
expect_exit 0 simulate program.json --unit F=1,B=2,c=0.1 --json
expect_json "d['program_hash'] == '$hash'"
expect_exit 0 lower 1f1b $sizes --order jaxpp -o order.json
! grep -q send_done_delay order.json || fail "the order alone says nothing of memory"
expect_exit 0 simulate 1f1b $sizes --unit F=1,B=2 --for torch-2.15

# A program of 48 stages takes as long as the one that JaxPP compiled, which global does not.
many="interleaved-1f1b --ranks 8 --microbatches 32 --chunks 6"
expect_exit 0 lower $many --for jaxpp-0.9.2 -o many.json
expect_exit 0 simulate many.json --unit F=1,B=2,c=0.1 --json
expect_json 'd["makespan_ns"] == 627_200_000'
expect_exit 0 lower $many --order global --communicators per-pair -o many.json
expect_exit 0 simulate many.json --unit F=1,B=2,c=0.1 --json
expect_json 'd["makespan_ns"] == 606_400_000'

# Features that JaxPP does not have.
expect_error 2 "has one order of its own" "jaxpp" lower 1f1b $sizes --for jaxpp-0.9.2 --order timed -o x.json
expect_error 4 "cannot split the backward of its first stage" "0B0" lower v-half $sizes --for jaxpp-0.9.2 -o x.json
expect_error 4 "it has no slices" "2 slices" verify terapipe $sizes --slices 2 --for jaxpp-0.9.2
expect_error 4 "it computes no padding" "6 microbatches of padding" lower spmd-gpipe $sizes --for jaxpp-0.9.2 -o x.json
expect_error 4 "all take one route" "2 routes" verify chimera $sizes --for jaxpp-0.9.2
expect_error 4 "reads no CSV" "a .json file" generate 1f1b $sizes --for jaxpp-0.9.2 -o x.csv
expect_error 2 "no such action" "SEND_A" lower bpipe $sizes --order jaxpp -o x.json
expect_exit 0 lower dualpipe-v:variant=jaxpp $sizes --for jaxpp-0.9.2 -o x.json

# The delay: of a schedule, a number or the end.
expect_exit 0 lower 1f1b $sizes --send-done-delay 2 -o two.json
grep -q '"send_done_delay": 2' two.json || fail "the delay is missing"
expect_exit 0 lower 1f1b $sizes --send-done-delay 0 -o zero.json
expect_exit 0 lower 1f1b $sizes -o plain.json
cmp zero.json plain.json || fail "0 is what a file without a delay means"
expect_error 2 "a number of sends, or end" "never" lower 1f1b $sizes --send-done-delay never -o x.json
expect_error 2 "lower its schedule with --send-done-delay" "a schedule" simulate two.json --unit F=1,B=2 --send-done-delay 1
expect_error 2 "cannot say how long" ".json" lower 1f1b $sizes --send-done-delay end -o x.csv
sed 's/"send_done_delay": 2/"send_done_delay": "never"/' two.json >bad.json
expect_error 2 "no such send-done delay" '"end"' verify bad.json

# Memory of rank 1 as JaxPP has it: four rows of eight floats are sent, and a stage has two layers of eight by eight.
python3 -S - >costs.json <<'END'
import json
sizes = {"parameters": 512, "gradients": 512, "saved_for_weight": 768}
sizes |= dict.fromkeys(("boundary_input", "boundary_output", "incoming_gradient", "outgoing_gradient"), 128)
sizes |= dict.fromkeys(("optimizer_state", "saved_for_input", "workspace"), 0)
costs = [("F", 1000), ("B", 2000), ("SEND_F", 0), ("SEND_B", 0)]
print(json.dumps({"format": "ppsim-tables", "version": 1,
                  "costs": [{"kind": kind, "ns": ns} for kind, ns in costs],
                  "sizes": [{"tensor": kind, "bytes": size} for kind, size in sizes.items()]}))
END
peak() {
  expect_exit 0 lower 1f1b --ranks 4 --microbatches "$1" --for jaxpp-0.9.2 --send-done-delay "$2" -o run.json
  expect_exit 0 simulate run.json --costs costs.json --json
  expect_json "d['per_rank'][1]['peak_bytes'] == $3"
  expect_exit 0 verify run.json --costs costs.json --memory-limit 100kB --certificate proof.json
  expect_exit 0 check-certificate run.json proof.json --costs costs.json
}
peak 4 end 4736
peak 8 end 5760
peak 16 end 7808
for m in 4 8 16; do peak $m 0 4224; done
# The proof of a Program that frees sooner is none of one that keeps.
expect_exit 0 lower 1f1b --ranks 4 --microbatches 16 --for jaxpp-0.9.2 -o keeps.json
expect_error 4 "it is about program" "this is" check-certificate keeps.json proof.json --costs costs.json
# For every number of microbatches the bound is a line.
expect_exit 0 verify 1f1b --ranks 3 --all-microbatches --costs costs.json --send-done-delay end --json
expect_json '[rank["bytes_per_period"] for rank in d["worst_case_memory"]] == [128, 256, 128]'
# The bound of a delay longer than those compared does not follow from them.
expect_exit 5 verify 1f1b --ranks 3 --all-microbatches --costs costs.json --send-done-delay 200
expect_out "equals the generated one at m = 5..217"
# A run keeps sent tensors, too.
for delay in 0 2 end; do
  expect_exit 0 run 1f1b --ranks 3 --microbatches 6 --send-done-delay $delay --compare --json
  expect_json 'd["gradients_equal"] and d["high_water_bytes"] <= d["proved_bytes"] <= d["pool_bytes"]'
done

# Its task lists are files like others.
printf '%s\n' '[["fwd_0__0", "fwd_0__1", null, "bwd_0__0", "bwd_0__1"],' \
  ' ["fwd_1__0", "bwd_1__0", "FusedTask(fwd_1__1, bwd_1__1)"]]' >tasks.json
expect_exit 0 verify tasks.json --for jaxpp-0.9.2
expect_exit 0 convert tasks.json schedule.json
expect_exit 0 lower schedule.json --for jaxpp-0.9.2 -o a.json
expect_exit 0 lower tasks.json --for jaxpp-0.9.2 -o b.json
cmp a.json b.json || fail "a schedule and its tasks"
expect_exit 0 generate interleaved-1f1b --ranks 4 --microbatches 8 --chunks 2 -o schedule.json
expect_exit 0 convert schedule.json back.json --flavor jaxpp-tasks
grep -q '"FusedTask(fwd_7__0, bwd_7__0)"' back.json || fail "the last stage's cells are fused"
expect_exit 0 convert back.json again.json
expect_exit 0 convert again.json back2.json --flavor jaxpp-tasks
cmp back.json back2.json || fail "a round trip"
expect_exit 0 convert program.json back.json --flavor jaxpp-tasks
echo '[["fwd_0__0", "0F0"]]' >bad.json
expect_error 2 "no task of JaxPP" '"0F0"' convert bad.json x.json
echo '[["fwd_0__0"], ["fwd_1__0", "bwd_1__0"]]' >missing.json
expect_error 4 "missing.json:1:1" "0B0 is missing" verify missing.json
expect_error 2 "needs no --for" "x.csv" convert schedule.json x.csv --flavor jaxpp-tasks
