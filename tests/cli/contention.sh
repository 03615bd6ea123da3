#!/usr/bin/env bash
# Steps whose transfers share NICs: closed forms, and the same figures as alone where nothing is shared.
source "$(dirname "$0")/support/lib.sh"

step=(--ranks 4 --microbatches 8 --unit F=1,B=2,c=0.5)

# All on one node, or NICs that carry everything: the step is that of simulate.
expect_exit 0 simulate 1f1b "${step[@]}" --json
alone=$(python3 -c 'import json; print(json.load(open("stdout"))["makespan_ns"])')
expect_exit 0 contention 1f1b "${step[@]}" --ranks-per-node 4 --json
expect_json "d['makespan_ns'] == d['makespan_alone_ns'] == $alone and d['links'] == []"
expect_exit 0 contention 1f1b "${step[@]}" --ranks-per-node 1 --nic-speed 100 --core-speed 100 --json
expect_json "d['makespan_ns'] == d['makespan_alone_ns'] == $alone"
expect_json 'all(l["held_back_ns"] == 0 for l in d["links"]) and len(d["links"]) == 9'
expect_exit 0 contention 1f1b "${step[@]}" --ranks-per-node 4
expect_out "All ranks are on one node: nothing is shared."

# A NIC of half the speed: GPipe has 2(p - 1) transfers on its path, each of which takes a unit instead of half of one.
expect_exit 0 contention gpipe "${step[@]}" --ranks-per-node 1 --nic-speed 0.5 --json
expect_json 'd["makespan_alone_ns"] == 36000000 and d["makespan_ns"] == 39000000'

# Replicas of a pipeline of two ranks, whose first ranks share a node: their forwards end together, and their messages
# share its NIC. With a NIC for each nothing is shared.
shared=(contention forward-only --ranks 2 --microbatches 1 --unit F=1,c=1 --placement cyclic)
for replicas in 1 2 3; do
  expect_exit 0 "${shared[@]}" --replicas $replicas --ranks-per-node $replicas --json
  expect_json "d['makespan_alone_ns'] == 3000000 and d['makespan_ns'] == 2000000 + $replicas * 1000000"
  expect_exit 0 "${shared[@]}" --replicas $replicas --ranks-per-node $replicas --nics $replicas --json
  expect_json "d['makespan_ns'] == 3000000"
done
# Messages without a cost still use the links.
for more in "" "--transfer-slowdown 0.1"; do
  expect_exit 0 contention forward-only --ranks 2 --microbatches 3 --unit F=1,c=0 --ranks-per-node 1 $more --json
  expect_json '[l["transfers"] for l in d["links"] if "0 out" in l["name"] or "1 in" in l["name"]] == [3, 3]'
done
# The same in one direction with a core of two transfers for four: 2:1 oversubscribed.
expect_exit 0 "${shared[@]}" --replicas 4 --ranks-per-node 4 --nics 4 --core-speed 2 --json
expect_json 'd["makespan_ns"] == 4000000'
expect_json '[(l["transfers"], l["held_back_ns"]) for l in d["links"] if l["name"] == "core"] == [(4, 2000000)]'
expect_exit 0 "${shared[@]}" --replicas 4 --ranks-per-node 4 --nics 4 --core-speed 2
expect_out "core holds transfers back for 50.00 % of the step: a faster core"
# Actions without a cost are named.
expect_exit 0 contention 1f1b --ranks 2 --microbatches 1 --replicas 3 --unit F=1,B=2,c=1 --ranks-per-node 4
expect_out "free of cost, no price is given: REDUCE_GRAD"
expect_exit 0 contention 1f1b --ranks 2 --microbatches 1 --replicas 3 --unit F=1,B=2,c=1 --ranks-per-node 4 --json
expect_json 'd["free_of_cost"] == ["REDUCE_GRAD"]'
# By blocks each replica has a node to itself.
expect_exit 0 contention forward-only --ranks 2 --microbatches 1 --unit F=1,c=1 --replicas 3 --ranks-per-node 2 --json
expect_json 'd["makespan_ns"] == 3000000 and d["links"] == []'

# An anomaly that is known: NICs that are a quarter faster make this step longer, as transfers meet on the core instead.
anomaly=(contention zb-v --ranks 8 --microbatches 16 --unit F=9,I=7,W=9,c=1 --ranks-per-node 4 --placement cyclic --core-speed 2)
expect_exit 0 "${anomaly[@]}" --json
expect_json 'd["makespan_ns"] == 896000000'
expect_exit 0 "${anomaly[@]}" --nic-speed 1.25 --json
expect_json 'd["makespan_ns"] == 898050439'

# Ranks that share a device: without a slowdown the step is that of simulate, and of GPipe all that meet are as slow. The
# second of two ranks goes on alone: 1 + 4 * 1.5 + 1 for the forwards of five microbatches.
for network in "" "--ranks-per-node 2"; do
  expect_exit 0 contention 1f1b "${step[@]}" --ranks-per-device 4 --slowdown 0 $network --json
  expect_json "d['makespan_ns'] == d['makespan_alone_ns'] == $alone"
done
expect_exit 0 contention forward-only --ranks 2 --microbatches 5 --unit F=1 --ranks-per-device 2 --slowdown 0.5 --json
expect_json 'd["makespan_alone_ns"] == 6000000 and d["makespan_ns"] == 8000000 and d["links"] == []'
expect_exit 0 contention forward-only --ranks 2 --microbatches 5 --unit F=1 --ranks-per-device 2147483647 --slowdown 0.5 --json
expect_json 'd["makespan_ns"] == 8000000'
expect_exit 0 contention forward-only --ranks 2 --microbatches 5 --unit F=1 --ranks-per-device 1 --slowdown 0.5 --json
expect_json 'd["makespan_ns"] == 6000000'
expect_error 2 "a slowdown is of the ranks that share a device" "found --slowdown alone" contention 1f1b "${step[@]}" --slowdown 1
expect_error 2 "a slowdown is of the ranks that share a device" "" contention 1f1b "${step[@]}" --ranks-per-device 2
expect_error 2 "--nics is for --ranks-per-node" "" contention 1f1b "${step[@]}" --ranks-per-device 2 --slowdown 1 --nics 2
expect_error 2 "--rails is for all GPUs" "" contention 1f1b "${step[@]}" --ranks-per-device 2 --slowdown 1 --rails
expect_exit 2 contention 1f1b "${step[@]}" --ranks-per-device 2 --slowdown -0.1
# Communication of its own rank slows computation down, here and in simulate, to the same step.
own=(1f1b "${step[@]}" --transfer-slowdown 0.5 --collective-slowdown 0.25)
expect_exit 0 contention "${own[@]}" --json
expect_json 'd["makespan_ns"] > d["makespan_alone_ns"]'
slowed=$(python3 -c 'import json; print(json.load(open("stdout"))["makespan_ns"])')
expect_exit 0 simulate "${own[@]}" --json
expect_json "d['makespan_ns'] == $slowed"
expect_json 'd["slowdowns"] == {"ranks_per_device": 1, "slowdown": 0, "transfer_slowdown": 0.5, "collective_slowdown": 0.25}'
expect_exit 0 simulate 1f1b "${step[@]}" --ranks-per-device 4 --slowdown 0.5 --transfer-slowdown 0 --json
expect_json 'd["slowdowns"]["ranks_per_device"] == 4'
expect_error 2 "a slowdown is of the ranks that share a device" "" simulate 1f1b "${step[@]}" --slowdown 2
expect_error 2 "a slowdown is counted in millionths" "--transfer-slowdown" simulate 1f1b "${step[@]}" --transfer-slowdown 1e-9
expect_exit 2 simulate 1f1b "${step[@]}" --collective-slowdown 1001

for tiny in 4e-7 9e-7; do
  expect_error 2 "a slowdown is counted in millionths" "" contention 1f1b "${step[@]}" --ranks-per-device 2 --slowdown $tiny
done
expect_exit 0 contention 1f1b "${step[@]}" --ranks-per-device 2 --slowdown 1e-6

# Text names what holds up, and a trace has the times.
expect_exit 0 contention 1f1b --ranks 8 --microbatches 16 --unit F=1,B=2,c=0.5 --ranks-per-node 4 --placement cyclic --trace run.csv
expect_out "pipeline 99.60 ms, 89.00 ms where every transfer is alone (+11.91 %)"
expect_out "node 0 out holds transfers back"
[ "$(tail -n +2 run.csv | cut -d, -f6 | sort -n | tail -1)" -gt 99000000 ] || fail "the trace is not that of the run"

# All GPUs of a job: where nothing else is on the links, its step is that of simulate, and copies that do the same are
# simulated once without a difference.
job=(--model gpt3-175b --cluster dgx-h100 --nodes 16 --tp 8 --pp 4 --dp 4 --global-batch-size 32)
expect_exit 0 simulate forward-only "${job[@]}" --json
alone=$(python3 -c 'import json; print(json.load(open("stdout"))["step_ns"])')
expect_exit 0 contention forward-only "${job[@]}" --json
expect_json "d['step_ns'] == d['step_alone_ns'] == $alone and d['gpus'] == 128 and d['copies'] == 32"
figures='{k: v for k, v in d.items() if k not in ("simulated_copies", "activities")}'
for order in tp-cp-dp-pp tp-cp-pp-dp; do
  for network in "" "--oversubscription 4" "--oversubscription 4 --rails" "--nics 2"; do
    expect_exit 0 contention 1f1b "${job[@]}" --rank-order $order $network --json
    folded=$(python3 -c "import json; d = json.load(open('stdout')); assert d['simulated_copies'] == 1; print($figures)")
    expect_exit 0 contention 1f1b "${job[@]}" --rank-order $order $network --every-copy --json
    every=$(python3 -c "import json; d = json.load(open('stdout')); assert d['simulated_copies'] == 32; print($figures)")
    [ "$folded" = "$every" ] || fail "copies that do the same are not all copies: $order $network"
  done
done
expect_exit 0 contention 1f1b "${job[@]}" --oversubscription 16
expect_out "simulated one of 32 copies, which do the same"
expect_out "core holds back what passes it"
# Rails keep what GPUs with the same place in their nodes send each other off the core.
expect_exit 0 contention 1f1b "${job[@]}" --oversubscription 16 --rails --json
expect_json 'all(l["name"] != "core" for l in d["links"])'
expect_error 2 "contention needs a network" "" contention 1f1b "${step[@]}"
expect_error 2 "--rails is for all GPUs" "" contention 1f1b "${step[@]}" --ranks-per-node 2 --rails
expect_error 2 "--core-speed is for --ranks-per-node" "" contention 1f1b "${job[@]}" --core-speed 2
expect_error 2 "NICs that do not divide" "found 3" contention 1f1b "${job[@]}" --nics 3
expect_exit 2 contention 1f1b "${job[@]}" --oversubscription 0.5

# Invalid options.
expect_error 2 "needs costs" "" contention 1f1b --ranks 2 --microbatches 2 --ranks-per-node 1
expect_exit 2 contention 1f1b "${step[@]}"
expect_exit 2 contention 1f1b "${step[@]}" --ranks-per-node 0
expect_exit 2 contention 1f1b "${step[@]}" --ranks-per-node 1 --nic-speed 0
expect_exit 2 contention 1f1b --ranks 2 --microbatches 2000 --unit F=1e9,c=1e9 --ranks-per-node 1 --nic-speed 0.001
