#!/usr/bin/env bash
# Processes by mpirun of which process 0 is stopped: the others go on without it, and it says nothing when the launcher wakes
# it to end it.
source "$(dirname "$0")/support/lib.sh"
source "$support/mpi.sh"

lower_job
start_job --json --deadline $((whole_s + 8))
signal_process STOP 0
expect_end 60
expect_json '"process 0 did not answer" in d["error"]["message"] and "rank 1: " in d["error"]["message"]'
expect_err "rank 2: "
! grep -q interrupted stderr || fail "it was not interrupted"
expect_nothing_left
