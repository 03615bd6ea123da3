#!/usr/bin/env bash
# Processes by mpirun that differ, or of which one cannot start.
source "$(dirname "$0")/support/lib.sh"
source "$support/mpi.sh"

# Processes that differ are named before anything runs, and one that cannot start is, too.
found=0
timeout $limit_s mpirun --oversubscribe -np 1 "$ppsim" run 1f1b --ranks 2 --microbatches 4 --transport mpi : \
  -np 1 "$ppsim" run 1f1b --ranks 2 --microbatches 5 --transport mpi >stdout 2>stderr || found=$?
[ "$found" -eq 4 ] || fail "exit $found of processes that differ"
expect_err "process 1 is about to run with another program than process 0"
found=0
same=(run 1f1b --ranks 2 --microbatches 4 --transport mpi --with opt)
timeout $limit_s mpirun --oversubscribe -np 1 "$ppsim" "${same[@]}" --learning-rate 0.1 : \
  -np 1 "$ppsim" "${same[@]}" --learning-rate 0.9 >stdout 2>stderr || found=$?
[ "$found" -eq 4 ] || fail "exit $found of processes with other models"
expect_err "process 1 is about to run with another model than process 0"
expect_err "arithmetic float32, attention auto, seed 1, optimizer momentum"
found=0
timeout $limit_s mpirun --oversubscribe -np 1 "$ppsim" run 1f1b --ranks 2 --microbatches 4 --transport mpi : \
  -np 1 "$ppsim" run nosuch.json --transport mpi >stdout 2>stderr || found=$?
[ "$found" -ne 0 ] || fail "a process without a file"
expect_err "process 1: "
expect_err "nosuch.json"

found=0
timeout $limit_s mpirun --oversubscribe -np 1 "$ppsim" run 1f1b --ranks 2 --microbatches 4 --transport mpi : \
  -np 1 "$ppsim" run 1f1b --ranks 2 --microbatches 4 --transport mpi --backend emulated --unit F=1 >stdout 2>stderr || found=$?
[ "$found" -eq 4 ] || fail "exit $found of processes with other backends"
expect_err "process 1 is about to run with another backend than process 0: emulated and not cpu"

found=0
same=(run 1f1b --ranks 2 --microbatches 4 --transport mpi --backend emulated --unit F=1 --vary F=normal:0.1)
timeout $limit_s mpirun --oversubscribe -np 1 "$ppsim" "${same[@]}" : \
  -np 1 "$ppsim" "${same[@]}" --seed 2 >stdout 2>stderr || found=$?
[ "$found" -eq 4 ] || fail "exit $found of processes with other seeds"
expect_err "process 1 is about to run with other options than process 0"

# A full machine on one process: the pool of rank 1 does not fit.
found=0
big=(run 1f1b --ranks 2 --microbatches 4 --transport mpi --transformer layers=16,hidden=256,ffn=4096,vocab=4096 --unverified --steps 1)
timeout $limit_s mpirun --oversubscribe -np 1 "$ppsim" "${big[@]}" : \
  -np 1 bash -c 'ulimit -d 200000; exec "$@"' - "$ppsim" "${big[@]}" >stdout 2>stderr || found=$?
[ "$found" -eq 1 ] || fail "exit $found of a process without memory"
expect_err "process 1"
expect_nothing_left
