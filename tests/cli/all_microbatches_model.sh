#!/usr/bin/env bash
# verify --all-microbatches with the sizes of a model: its batch follows from the number of microbatches.
source "$(dirname "$0")/support/lib.sh"

model=(--model llama3-8b --cluster dgx-h100 --nodes 1 --tp 2 --pp 4 --microbatch-size 1)
expect_exit 3 verify 1f1b --all-microbatches "${model[@]}" --memory-limit 38GB --json
expect_json 'd["properties"]["memory"]["verdict"] == "refuted" and d["properties"]["deadlock_free"]["verdict"] == "proved"'
smallest=$(python3 -c 'import json; print(json.load(open("stdout"))["properties"]["memory"]["microbatches"])')
expect_exit 3 verify 1f1b "${model[@]}" --global-batch-size "$smallest" --memory-limit 38GB
expect_exit 0 verify 1f1b "${model[@]}" --global-batch-size $((smallest - 1)) --memory-limit 38GB
# The tokens of all microbatches are there from the start, 32 KB of each: rank 0 fills up when nobody looks any more.
expect_exit 5 verify 1f1b --all-microbatches "${model[@]}" --memory-limit 39.22GB --timeout 900 --json
expect_json '"within the limit for all m below 5064," in d["properties"]["memory"]["reason"]'
expect_exit 3 verify 1f1b --all-microbatches "${model[@]}" --global-batch-size 64 --memory-limit 38GB
expect_err "--global-batch-size is left out"
expect_error 2 "adaptive chooses for one number" "" verify 1f1b --all-microbatches "${model[@]}" --recompute adaptive
expect_error 2 "adaptive chooses for one number" "or --global-batch-size G" verify 1f1b --all-microbatches "${model[@]}" --recompute adaptive
expect_exit 5 verify 1f1b --all-microbatches "${model[@]}" --memory-limit 39.22GB --timeout 900
expect_out "verify the one you need with --global-batch-size G."
