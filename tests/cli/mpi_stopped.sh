#!/usr/bin/env bash
# Processes by mpirun of which one is stopped: it is there and does not answer, and is named after the deadline.
source "$(dirname "$0")/support/lib.sh"
source "$support/mpi.sh"

lower_job
start_job --deadline $((whole_s + 8))
signal_process STOP 1
expect_end 60
expect_err "process 1 (rank 1) did not answer"
expect_err "waits for rank 1"
expect_nothing_left
