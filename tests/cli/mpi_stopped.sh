#!/usr/bin/env bash
# Processes by mpirun of which one is stopped, and an interrupt of all.
source "$(dirname "$0")/support/lib.sh"
source "$support/mpi.sh"

lower_job

# One that is stopped is there and does not answer: it is named after the deadline.
start_job --deadline $((whole_s + 8))
signal_process STOP 1
expect_end 60
expect_err "process 1 (rank 1) did not answer"
expect_err "waits for rank 1"
expect_nothing_left

# Process 0, too: the others go on without it, and it says nothing when the launcher wakes it to end it.
start_job --json --deadline $((whole_s + 8))
signal_process STOP 0
expect_end 60
expect_json '"process 0 did not answer" in d["error"]["message"] and "rank 1: " in d["error"]["message"]'
expect_err "rank 2: "
! grep -q interrupted stderr || fail "it was not interrupted"
expect_nothing_left

# SIGTERM to mpirun, and Ctrl-C to all: process 0 alone says so. mpirun has an exit code of its own, and kills a second
# after SIGTERM: what is said later is lost, and shared memory stays.
f_ms=200
start_job --json
kill -TERM $job
expect_end 60
[ ! -s stdout ] || expect_json 'd["error"]["code"] == "interrupted"'
segments >segments_before
expect_nothing_left
start_job --json
for process in 2 1 0; do signal_process INT $process; done
expect_end 60
expect_json 'd["error"]["code"] == "interrupted"'
expect_nothing_left
