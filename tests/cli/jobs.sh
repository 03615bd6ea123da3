#!/usr/bin/env bash
# Published runs by name: what --job stands for, and what the line says itself.
source "$(dirname "$0")/support/lib.sh"

expect_exit 0 list jobs
expect_out "jaxpp-gpt3-175b"
expect_out "TP4 PP8 DP4, microbatch 2, global batch 256"
expect_exit 0 list jobs --json
expect_json '{"jaxpp-gpt3-175b", "jaxpp-llama2-70b"} <= {job["name"] for job in d["jobs"]}'

# It is the same as its words, and an option of the line goes before.
words=(--model llama2-70b --cluster dgx-h100 --nodes 8 --tp 4 --pp 4 --dp 4 --microbatch-size 2 --global-batch-size 128
  --sequence-length 2048)
untimed() { sed '/"simulate_seconds"/d; /"phase_ns"/,/}/d' stdout; }
expect_exit 0 simulate interleaved-1f1b:chunks=10 --job jaxpp-llama2-70b --json
untimed >job.json
expect_exit 0 simulate interleaved-1f1b:chunks=10 "${words[@]}" --json
cmp <(untimed) job.json || fail "--job is not its words"
expect_exit 0 simulate interleaved-1f1b:chunks=10 --job=jaxpp-llama2-70b --json
cmp <(untimed) job.json || fail "--job=NAME is not --job NAME"
expect_exit 0 simulate 1f1b --job jaxpp-llama2-70b --microbatch-size 1 --json
expect_exit 0 simulate 1f1b --microbatch-size=1 --job jaxpp-llama2-70b
expect_out "32 microbatches"
expect_exit 0 compare 1f1b gpipe --job jaxpp-llama2-70b

expect_error 2 "unknown job" 'found jaxpp-gpt3,' simulate 1f1b --job jaxpp-gpt3
expect_exit 2 simulate 1f1b --job ""
expect_err "--job has no value"
expect_exit 2 simulate 1f1b --job
expect_err "--job"
expect_error 2 "costs are given twice" "" simulate 1f1b --job jaxpp-gpt3-175b --unit F=1
expect_error 2 "unknown option --job" "found --job" list schedules --job jaxpp-gpt3-175b
