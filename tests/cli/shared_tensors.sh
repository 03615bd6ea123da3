#!/usr/bin/env bash
# Weights that embedding and head share, and outputs that several stages read, computed.
source "$(dirname "$0")/support/lib.sh"

exact=(--ranks 2 --microbatches 4 --arithmetic integer --compare --json)

# Tied weights: gradients of the unpipelined model, with one sum across ranks behind the last microbatch.
for schedule in 1f1b zb-v chimera seq-1f1b; do
  expect_exit 0 run $schedule "${exact[@]}" --transformer tied=true --with reduce-grad,opt
  expect_json 'd["gradients_equal"] and d["verified"]'
done
expect_exit 0 run 1f1b "${exact[@]}" --transformer tied=true,layers=2 --replicas 2
expect_json 'd["gradients_equal"]'

# A sum for every microbatch: the same gradients, four sums in place of one, each of which takes its time.
expect_exit 0 run 1f1b "${exact[@]}" --transformer tied=true --with reduce-grad,opt --transport inproc
cp stdout once
expect_exit 0 run 1f1b "${exact[@]}" --transformer tied=true --with reduce-grad-each-microbatch,opt
expect_json 'd["gradients_equal"] and d["verified"]'
expect_json 'd["gradients_hash"] == json.load(open("once"))["gradients_hash"]'
for way in reduce-grad reduce-grad-each-microbatch; do
  expect_exit 0 lower 1f1b --ranks 2 --microbatches 4 --tied --with $way -o $way.json
done
[[ $(grep -o 2REDUCE_GRAD reduce-grad.json | wc -l) == 2 ]] || fail "one sum on each rank"
[[ $(grep -o 2REDUCE_GRAD[0-3] reduce-grad-each-microbatch.json | wc -l) == 8 ]] || fail "four sums on each rank"
expect_exit 0 verify reduce-grad-each-microbatch.json --certificate proof.json
expect_exit 0 check-certificate reduce-grad-each-microbatch.json proof.json
expect_error 4 "" "" check-certificate reduce-grad.json proof.json
expect_error 2 "for every microbatch" "several ranks share" lower 1f1b --ranks 2 --microbatches 4 \
  --with reduce-grad-each-microbatch -o -
expect_error 2 "on route 0 rank" "" lower chimera --ranks 2 --microbatches 4 --tied --with reduce-grad-each-microbatch -o -

# The same Program by hand; a file that has no such block, and schedules that cannot, are named.
expect_exit 0 lower 1f1b --ranks 2 --microbatches 4 --tied --with reduce-grad,opt -o tied.json
expect_exit 0 verify tied.json
expect_exit 0 run tied.json "${exact[@]:4}"
cp stdout by_hand
expect_exit 0 run 1f1b "${exact[@]}" --transformer tied=true --with reduce-grad,opt
expect_json 'd["program_hash"] == json.load(open("by_hand"))["program_hash"] and d["gradients_equal"]'
expect_exit 0 run tied.json "${exact[@]:4}" --transformer tied=true
expect_exit 0 lower 1f1b --ranks 2 --microbatches 4 -o plain.json
expect_error 2 "has no such block" "ppsim lower --tied" run plain.json --transformer tied=true
expect_error 2 "brings all OPTs along" "pipedream" run pipedream --ranks 2 --microbatches 4 --transformer tied=true
expect_error 2 "a shard of the vocabulary and has two" "" run vocab-1 --ranks 2 --microbatches 4 --transformer tied=true
expect_error 2 "tied=yes" "tied=true or tied=false" run 1f1b --ranks 2 --microbatches 4 --transformer tied=yes
expect_error 2 "tied weights with --model" "" lower 1f1b --tied --model llama3-8b --cluster dgx-h100 --pp 8 \
  --global-batch-size 8 -o -
expect_exit 0 profile 1f1b --ranks 2 --microbatches 4 --transformer tied=true -o table.json
expect_exit 0 profile --ranks 2 --microbatches 4 --transformer tied=true --steps 2 -o table.json
expect_exit 0 predict 1f1b --ranks 2 --microbatches 4 --transformer tied=true --steps 2 --calibrate 1f1b

# Residual connections across stages, a decoder that adds the encoder's output, the number of the microbatch for the
# last stage.
for graph in skip encoder-decoder index; do
  for name in gpipe 1f1b eager-1f1b interleaved-1f1b kimi-k2 looped-bfs; do
    expect_exit 0 run $name:graph=$graph "${exact[@]}" --with reduce-grad,opt
    expect_json 'd["gradients_equal"] and d["verified"]'
  done
done
expect_exit 0 run interleaved-1f1b:graph=skip,chunks=3 "${exact[@]}" --transformer tied=true,layers=7
expect_json 'd["gradients_equal"]'
expect_exit 0 run 1f1b:graph=skip --ranks 4 --microbatches 4 --recompute full --arithmetic integer --compare --json
expect_json 'd["gradients_equal"]'
