#!/usr/bin/env bash
# Processes by mpirun of which one is killed.
source "$(dirname "$0")/support/lib.sh"
source "$support/mpi.sh"

lower_job

# kill -9 of one process in the middle of a run: all end within seconds, and it is named.
start_job
signal_process KILL 1
expect_end 60
expect_err "process 1 is gone"
expect_err "waits for rank 1"
expect_nothing_left

# Of the one that speaks for all: the others say what they wait for.
start_job --json
signal_process KILL 0
expect_end 60
expect_json '"process 0 is gone" in d["error"]["message"] and "rank 1: " in d["error"]["message"]'
expect_err "rank 2: "
expect_nothing_left
