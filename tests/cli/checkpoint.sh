#!/usr/bin/env bash
# ppsim checkpoint: what writing checkpoints costs a step.
source "$(dirname "$0")/support/lib.sh"

job=(1f1b --model llama3-8b --cluster dgx-h100 --nodes 1 --tp 2 --pp 4 --global-batch-size 32)

expect_exit 0 checkpoint "${job[@]}" --storage 2GB --json
# 14 bytes a parameter (arXiv 1910.02054, section 3.1, without gradients) of 8.03e9, at 2e9 bytes a second.
expect_json 'd["checkpoint_bytes"] == 14 * 8030261248'
expect_json 'd["write_ns"] == round(d["checkpoint_bytes"] / 2)'
expect_json 'd["synchronous"]["wait_ns"] == d["copy_ns"] + d["write_ns"]'
expect_json 'd["asynchronous"]["wait_ns"] == d["copy_ns"] and d["writing_nodes"] == 1'
expect_json 'abs(d["synchronous"]["wait_a_step_ns"] * 100 - d["synchronous"]["wait_ns"]) < 1e-3'
expect_json '"best_steps" not in d["synchronous"]'

expect_exit 0 checkpoint "${job[@]}" --storage 2GB --every 1 --hours-between-failures 2
expect_out "Storage is not done when the next checkpoint comes"
expect_out "best every"
expect_exit 0 checkpoint "${job[@]}" --storage 2GB --node-storage 1GB --json
expect_json 'd["write_ns"] == d["checkpoint_bytes"]'

expect_error 2 "a checkpoint is that of a model" "--model" checkpoint 1f1b --ranks 4 --microbatches 8 --unit F=1,B=2 --storage 1GB
expect_error 2 "storage writes at a rate above 0" "" checkpoint "${job[@]}" --storage 0
expect_exit 2 checkpoint "${job[@]}" --storage fast
expect_exit 2 checkpoint "${job[@]}"
expect_exit 2 checkpoint "${job[@]}" --storage 1GB --every 0
expect_exit 2 checkpoint "${job[@]}" --storage 1GB --writers some
expect_error 2 "a schedule without backwards has nothing to checkpoint" "forward-only" checkpoint forward-only "${job[@]:1}" --storage 1GB
