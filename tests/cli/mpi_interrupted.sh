#!/usr/bin/env bash
# Processes by mpirun that are interrupted, all of them or the launcher.
source "$(dirname "$0")/support/lib.sh"
source "$support/mpi.sh"

lower_job

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
