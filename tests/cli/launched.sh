#!/usr/bin/env bash
# CUDA on processes that a launcher has started: libraries are looked for first, then the processes meet, before anything
# else. No device is needed for that.
source "$(dirname "$0")/support/lib.sh"
idle=${PPSIM_IDLE_LIBRARIES:?the path of libppsim_idle_libraries.so, which ctest sets}

unset RANK WORLD_SIZE LOCAL_RANK MASTER_ADDR MASTER_PORT SLURM_PROCID OMPI_COMM_WORLD_RANK
run=(run 1f1b --ranks 2 --microbatches 4 --backend cuda)

# A missing library is named, and the variable that names another one.
export PPSIM_CUDA_LIBRARY=/nowhere/libcuda.so PPSIM_NCCL_LIBRARY=$idle
expect_error 2 "the backend cannot run here: the CUDA backend needs" "/nowhere/libcuda.so" "${run[@]}"
expect_err PPSIM_CUDA_LIBRARY
export PPSIM_CUDA_LIBRARY=$idle PPSIM_NCCL_LIBRARY=/nowhere/libnccl.so
expect_error 2 "the backend cannot run here: the NCCL transport needs" "/nowhere/libnccl.so" "${run[@]}"
expect_err PPSIM_NCCL_LIBRARY
expect_error 2 "the NCCL transport needs" "/nowhere/libnccl.so" profile "${run[@]:1}" -o costs.json
PPSIM_CUDA_LIBRARY=libc.so.6 expect_error 2 "the backend cannot run here" "libc.so.6 lacks cuGetErrorName" "${run[@]}"
# Copy engines need no NCCL: what is wrong then is something else.
expect_exit 2 run no-such-schedule --backend cuda --transport copy
expect_err "no-such-schedule"

# A process says so without waiting for the others, who may never come.
export WORLD_SIZE=2 LOCAL_RANK=0 MASTER_ADDR=127.0.0.1 MASTER_PORT=1
limit_s=20
for rank in 0 1; do
  RANK=$rank expect_error 2 "the NCCL transport needs" "/nowhere/libnccl.so" "${run[@]}"
done
limit_s=300
export PPSIM_NCCL_LIBRARY=$idle
unset MASTER_ADDR MASTER_PORT

RANK=0 expect_error 2 "where process 0 is to be met is not known" "MASTER_ADDR" "${run[@]}"
# Copies join processes of one host, and need not be told where they meet; nor need others that are all here.
for here in "--transport copy" "--transport nccl"; do
  MASTER_PORT=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  export MASTER_PORT
  [[ $here == *copy ]] || export LOCAL_WORLD_SIZE=2
  RANK=1 timeout "$limit_s" "$ppsim" run no-such-schedule --backend cuda $here >stdout1 2>stderr1 &
  other=$!
  RANK=0 expect_exit 2 run no-such-schedule --backend cuda $here
  expect_err "no-such-schedule"
  wait "$other" || [ $? -eq 2 ] || fail "process 1 ends otherwise"
done
unset LOCAL_WORLD_SIZE MASTER_PORT
RANK=2 MASTER_ADDR=127.0.0.1 expect_error 2 "RANK" "a number from 0 to 1" "${run[@]}"

# A graph over NCCL has no launch order, so tensors are proved without it; streamed, the device is what is missing.
unset WORLD_SIZE LOCAL_RANK
cat >race.json <<'END'
{"format": "ppsim-program", "version": 1, "pipeline": {"ranks": 2, "stages": 2, "microbatches": 1},
 "communicators": [{"name": "a", "members": [0, 1]}, {"name": "b", "members": [0, 1]}, {"name": "c", "members": [0, 1]},
                   {"name": "d", "members": [0, 1]}],
 "ranks": [["0F0", "0SEND_F0@0", "0OFFLOAD0", "0RELOAD0", "0RECV_B0@1 after 3", "0SEND_A0>1@2", "0RECV_A0<1@3", "0B0"],
           ["1RECV_F0@0", "1F0", "0RECV_A0<0@2", "0SEND_A0>0@3", "1B0", "1SEND_B0@1"]]}
END
expect_error 4 "tensor_use is refuted" "0SEND_A0>1 has freed it" run race.json --backend cuda --transport nccl --graphs
expect_error 1 "opening its stages" "cuBLASLt" run race.json --backend cuda --transport nccl

# On a CPU each of them would run everything: they are sent to MPI. One process goes on, and so does a batch script.
unset WORLD_SIZE LOCAL_RANK
cpu=(run 1f1b --ranks 2 --microbatches 2 --steps 1)
for started in OMPI_COMM_WORLD_SIZE,OMPI_COMM_WORLD_RANK PMI_SIZE,PMI_RANK SLURM_STEP_NUM_TASKS,SLURM_PROCID WORLD_SIZE,LOCAL_RANK; do
  export "${started%,*}=2" "${started#*,}=0"
  for command in "${cpu[*]}" "${cpu[*]} --backend emulated --unit F=1" "profile -o c.json" "predict gpipe"; do
    expect_error 2 "a launcher has started 2 processes" "found ${started%,*}=2" $command
  done
  expect_error 2 "whole program" "--transport mpi" "${cpu[@]}"
  # Those of MPICH and parts of torchrun's are not met.
  [[ $started == OMPI* || $started == SLURM* ]] ||
    expect_error 2 "whole program" "torchrun or srun" "${run[@]}" --transport copy
  export "${started%,*}=1"
  expect_exit 0 "${cpu[@]}"
  unset "${started%,*}" "${started#*,}"
done
SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_LOCALID=0 expect_exit 0 "${cpu[@]}"
RANK=0 WORLD_SIZE=4 expect_exit 0 "${cpu[@]}" # of the node
export WORLD_SIZE=2 LOCAL_RANK=0

# Process 0 speaks for all.
MASTER_ADDR=127.0.0.1
MASTER_PORT=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
export MASTER_ADDR MASTER_PORT
RANK=1 timeout "$limit_s" "$ppsim" run no-such-schedule --backend cuda >stdout1 2>stderr1 &
other=$!
RANK=0 expect_exit 2 run no-such-schedule --backend cuda
expect_err "no-such-schedule"
code=0
wait $other || code=$?
[ "$code" -eq 2 ] || fail "exit $code of process 1"
[ ! -s stdout1 ] && [ ! -s stderr1 ] || fail "process 1 speaks, too"
