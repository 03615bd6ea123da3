#!/usr/bin/env bash
# ppsim doctor: it reports the environment that a run finds.
source "$(dirname "$0")/support/lib.sh"
unset CUDA_DEVICE_MAX_CONNECTIONS NCCL_LAUNCH_ORDER_IMPLICIT RANK WORLD_SIZE MASTER_ADDR MASTER_PORT \
  OMPI_COMM_WORLD_RANK SLURM_STEP_NUM_TASKS SLURM_JOB_NODELIST

expect_exit 0 doctor
expect_out "ok      CUDA_DEVICE_MAX_CONNECTIONS: not set: the cuda backend sets 32"
expect_out "ok      NCCL_LAUNCH_ORDER_IMPLICIT: not set: runs over NCCL set what they need"
expect_out "ok      launcher: none: a run has one process"

# Hardware queues: CUDA has 32 at most.
for wrong in abc 0 -1 33 4096 8x; do
  CUDA_DEVICE_MAX_CONNECTIONS=$wrong expect_exit 0 doctor
  expect_out "CUDA_DEVICE_MAX_CONNECTIONS: $wrong: not a number from 1 to 32, the most that CUDA has"
done
CUDA_DEVICE_MAX_CONNECTIONS=8 expect_exit 0 doctor
expect_out "CUDA_DEVICE_MAX_CONNECTIONS: 8: over NCCL a rank with more streams than that is refused"

# Settings that a run refuses.
NCCL_LAUNCH_ORDER_IMPLICIT=0 expect_exit 0 doctor
expect_out "NCCL_LAUNCH_ORDER_IMPLICIT: 0: runs over NCCL are refused unless --graphs is given; unset it"
RANK=0 WORLD_SIZE=2 expect_exit 0 doctor
expect_out "launcher: runs are refused: where process 0 is to be met is not known (found no MASTER_ADDR"
RANK=1 WORLD_SIZE=2 MASTER_ADDR=node-1 MASTER_PORT=1234 expect_exit 0 doctor
expect_out "launcher: process 1 of 2, which meet at node-1:1234"

# A limit of 64 KiB is not none.
(ulimit -l 64 && expect_exit 0 doctor) || fail "no doctor with little locked memory"
expect_out "limit on locked memory: 64 KiB: InfiniBand locks what it moves"

# On devices, too, it reports the values from before the driver started.
if [ -n "${PPSIM_SERVED:-}" ]; then
  timeout "$limit_s" "$PPSIM_SERVED/served_gpu" --devices 1 "$PPSIM_SERVED/ppsim" doctor >stdout 2>stderr || fail "doctor on the strict fake"
  expect_out "ok      CUDA_DEVICE_MAX_CONNECTIONS: not set: the cuda backend sets 32"
fi
