#!/usr/bin/env bash
# Several processes by mpirun; without MPI the program says how to get it.
source "$(dirname "$0")/support/lib.sh"
source "$support/mpi.sh"

# One object from process 0, with all ranks; the gradients of the unpipelined model; one merged trace.
expect_mpi 0 4 run interleaved-1f1b --ranks 4 --microbatches 8 --chunks 2 --compare --arithmetic integer --json --trace trace.csv
expect_json 'd["gradients_equal"] and d["max_abs_difference"] == 0 and d["transport"] == "mpi" and d["verified"]'
expect_json 'len(d["per_rank"]) == 4 and all(0 < r["high_water_bytes"] <= r["proved_bytes"] <= r["pool_bytes"] for r in d["per_rank"])'
expect_json '[(p["process"], p["first_rank"], p["ranks"]) for p in d["processes"]] == [(i, i, 1) for i in range(4)]'
expect_json 'all(abs(p["clock_offset_ns"]) <= p["clock_uncertainty_ns"] for p in d["processes"])'
expect_json 'len(d["steps_ns"]) == 3 and min(d["steps_ns"]) > 0'
[ "$(cut -d, -f1 trace.csv | sort -u | paste -sd' ')" = "0 1 2 3 rank" ] || fail "ranks are missing in the trace"
! grep -q -- ',-1' trace.csv || fail "something did not happen"

# Replicas, each on two of the processes.
expect_mpi 0 4 run 1f1b --ranks 2 --microbatches 4 --replicas 2 --compare --arithmetic integer --json
expect_json 'd["gradients_equal"] and d["replicas"] == 2 and len(d["per_rank"]) == 4 and len(d["processes"]) == 4'

# Several ranks on each process, credits instead of rendezvous.
expect_mpi 0 2 run zb-h1 --ranks 4 --microbatches 8 --compare --arithmetic integer --buffers 2
expect_out "equal the unpipelined reference bit by bit"
expect_out "2 processes, whose clocks are known to"
expect_mpi 2 3 run 1f1b --ranks 4 --microbatches 8
expect_err "4 ranks on 3 processes"

# Without the transport every process would run everything.
found=0
timeout $limit_s mpirun --oversubscribe -np 2 "$ppsim" run 1f1b --ranks 2 --microbatches 4 >stdout 2>stderr || found=$?
[ "$found" -eq 2 ] || fail "exit $found of two runs"
expect_err "OMPI_COMM_WORLD_SIZE=2, expected --transport mpi"

# Tied weights, and outputs that several stages read.
for model in "1f1b --transformer tied=true" "interleaved-1f1b:graph=skip" "1f1b:graph=encoder-decoder"; do
  # shellcheck disable=SC2086
  expect_mpi 0 2 run $model --ranks 2 --microbatches 4 --arithmetic integer --compare --with reduce-grad,opt --json
  expect_json 'd["gradients_equal"] and len(d["processes"]) == 2'
done

# A deadline shorter than the pause after which waiting processes tell the others; the step takes 10 ms.
expect_mpi 1 2 run 1f1b --ranks 2 --microbatches 4 --backend emulated --unit F=1,B=1 --deadline 0.005
expect_err "a step did not finish within its deadline of 0.005 s"

# Emulated, in the time of the costs.
expect_mpi 0 2 run 1f1b --ranks 2 --microbatches 4 --backend emulated --unit F=10,B=20,c=1 --steps 1 --json
expect_json '0.9 < d["measured_step_ns"] / d["simulated_step_ns"]'  # and how much more depends on the machine

# With jitter, which all processes draw alike; the results are those without it.
expect_mpi 0 2 run 1f1b --ranks 2 --microbatches 4 --unit F=5,B=10,c=1 --vary all=lognormal:0.3 --steps 4 --arithmetic integer --compare --json
expect_json 'all(m >= 0.9 * s for m, s in zip(d["steps_ns"], d["jitter"]["simulated_steps_ns"])) and d["gradients_equal"]'

# A process that nobody has started with others is one; one that MPI takes for that is told apart.
expect_exit 0 run 1f1b --ranks 2 --microbatches 4 --transport mpi --json
expect_json 'd["processes"] == [dict(d["processes"][0], process=0, first_rank=0, ranks=2, clock_offset_ns=0)]'
export SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=4 MASTER_ADDR=localhost
expect_error 2 "cannot work with this launcher" "MPI sees 1 process" run 1f1b --ranks 2 --microbatches 4 --transport mpi
unset SLURM_PROCID SLURM_STEP_NUM_TASKS MASTER_ADDR

expect_exit 0 run 1f1b --ranks 2 --microbatches 4 --transport mpi
! grep "processes" stdout || fail "one process is not several"
RANK=0 WORLD_SIZE=2 expect_error 2 "cannot work with this launcher" "expected mpirun" run 1f1b --ranks 2 --microbatches 4 --transport mpi

# A hang: the lines of a run in one process.
expect_exit 0 lower 1f1b --ranks 2 --microbatches 4 --order just-in-time --communicators per-rank -o "$work/job-hang.json"
expect_exit 4 run "$work/job-hang.json" --unverified
grep "waits for" stderr >alone
expect_mpi 4 2 run "$work/job-hang.json" --unverified
grep "waits for" stderr >together
cmp alone together || fail "another report than in one process"
expect_mpi 4 2 run "$work/job-hang.json"
expect_err "deadlock_free is refuted"
expect_nothing_left

# Invalid variables of a launcher.
RANK=5 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 expect_error 2 "RANK" "a number from 0 to 1" run 1f1b --ranks 2 --microbatches 4 --transport mpi
