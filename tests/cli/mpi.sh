#!/usr/bin/env bash
# Several processes by mpirun; without MPI the program says how to get it.
source "$(dirname "$0")/support/lib.sh"

if ! "$ppsim" doctor | grep -q "^ok .*transport mpi: [A-Z]"; then
  expect_error 2 "this build has no MPI" "-DPPSIM_MPI=ON" run 1f1b --ranks 2 --microbatches 4 --transport mpi
  [ -z "${CI:-}" ] || fail "continuous integration tests with MPI"
  exit 0
fi
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# expect_mpi CODE PROCESSES ARGUMENTS...: runs ppsim on so many processes.
expect_mpi() {
  local expected=$1 found=0
  shift
  timeout $limit_s mpirun --oversubscribe -np "$1" "$ppsim" "${@:2}" --transport mpi >stdout 2>stderr || found=$?
  [ "$found" -eq "$expected" ] || fail "exit $found, expected $expected: $*"
}

# Open MPI's shared memory.
segments() { find /dev/shm -name 'vader_segment*' | sort; }
# expect_nothing_left: no process and no shared memory of ours.
expect_nothing_left() {
  local waited=0
  while pgrep -f "^$ppsim run job-" >/dev/null || [ -n "$(comm -13 segments_before <(segments))" ]; do
    sleep 0.1
    waited=$((waited + 1))
    [ $waited -lt 100 ] || fail "left: $(pgrep -af "^$ppsim run job-") $(segments)"
  done
}
segments >segments_before

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

# A deadline shorter than the pause after which waiting processes tell the others; the step takes 10 ms.
expect_mpi 1 2 run 1f1b --ranks 2 --microbatches 4 --backend emulated --unit F=1,B=1 --deadline 0.005
expect_err "a step did not finish within its deadline of 0.005 s"

# Emulated, in the time of the costs.
expect_mpi 0 2 run 1f1b --ranks 2 --microbatches 4 --backend emulated --unit F=10,B=20,c=1 --steps 1 --json
expect_json '0.9 < d["measured_step_ns"] / d["simulated_step_ns"]'  # and how much more depends on the machine

# A process that nobody has started with others is one; one that MPI takes for that is told apart.
expect_exit 0 run 1f1b --ranks 2 --microbatches 4 --transport mpi --json
expect_json 'd["processes"] == [dict(d["processes"][0], process=0, first_rank=0, ranks=2, clock_offset_ns=0)]'
export SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=4 MASTER_ADDR=localhost
expect_error 2 "do not understand each other" "MPI sees 1 process" run 1f1b --ranks 2 --microbatches 4 --transport mpi
unset SLURM_PROCID SLURM_STEP_NUM_TASKS MASTER_ADDR

expect_exit 0 run 1f1b --ranks 2 --microbatches 4 --transport mpi
! grep "processes" stdout || fail "one process is not several"
RANK=0 WORLD_SIZE=2 expect_error 2 "do not understand each other" "expected mpirun" run 1f1b --ranks 2 --microbatches 4 --transport mpi

# A hang: the lines of a run in one process.
expect_exit 0 lower 1f1b --ranks 2 --microbatches 4 --order just-in-time --communicators per-rank -o job-hang.json
expect_exit 4 run job-hang.json --unverified
grep "waits for" stderr >alone
expect_mpi 4 2 run job-hang.json --unverified
grep "waits for" stderr >together
cmp alone together || fail "another report than in one process"
expect_mpi 4 2 run job-hang.json
expect_err "deadlock_free is refuted"
expect_nothing_left

# What a launcher says has to make sense.
RANK=5 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 expect_error 2 "RANK" "a number from 0 to 1" run 1f1b --ranks 2 --microbatches 4 --transport mpi

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

# One that never comes to the first meeting: it waits for its input. The others do not wait for ever, whichever it is.
mkfifo nobody-writes
expect_missing() {
  local missing=$1 found=0
  local -a inputs=(1f1b:ranks=2,microbatches=4 1f1b:ranks=2,microbatches=4)
  inputs[$missing]=./nobody-writes
  timeout $limit_s mpirun --oversubscribe -np 1 "$ppsim" run "${inputs[0]}" --transport mpi --deadline 3 --json : \
    -np 1 "$ppsim" run "${inputs[1]}" --transport mpi --deadline 3 --json >stdout 2>stderr || found=$?
  [ "$found" -eq 1 ] || fail "exit $found where process $missing does not come"
  expect_json '"process '"$missing"' did not come" in d["error"]["message"]'
}
expect_missing 0
expect_missing 1

found=0
timeout $limit_s mpirun --oversubscribe -np 1 "$ppsim" run 1f1b --ranks 2 --microbatches 4 --transport mpi : \
  -np 1 "$ppsim" run 1f1b --ranks 2 --microbatches 4 --transport mpi --backend emulated --unit F=1 >stdout 2>stderr || found=$?
[ "$found" -eq 4 ] || fail "exit $found of processes with other backends"
expect_err "process 1 is about to run with another backend than process 0: emulated and not cpu"

# A full machine on one process: the pool of rank 1 does not fit.
found=0
big=(run 1f1b --ranks 2 --microbatches 4 --transport mpi --transformer layers=16,hidden=256,ffn=4096,vocab=4096 --unverified --steps 1)
timeout $limit_s mpirun --oversubscribe -np 1 "$ppsim" "${big[@]}" : \
  -np 1 bash -c 'ulimit -d 200000; exec "$@"' - "$ppsim" "${big[@]}" >stdout 2>stderr || found=$?
[ "$found" -eq 1 ] || fail "exit $found of a process without memory"
expect_err "process 1"
expect_nothing_left

# start_job ARGUMENTS...: runs job-killed.json on 3 processes in the background, for a while. With a first F that
# takes long rank 2 waits for rank 1, whenever one looks.
f_ms=200000
start_job() {
  timeout $limit_s mpirun --oversubscribe -np 3 "$ppsim" run job-killed.json --backend emulated --unit F=$f_ms,B=400 --steps 1000 \
    --transport mpi "$@" >stdout 2>stderr &
  job=$!
  local waited=0
  until [ "$(pgrep -cf "^$ppsim run job-killed.json")" -eq 3 ]; do
    sleep 0.1
    waited=$((waited + 1))
    [ $waited -lt 300 ] || fail "the processes did not start"
  done
  sleep $whole_s
}
# signal_process SIGNAL NUMBER: to the process of that number.
signal_process() {
  for pid in $(pgrep -f "^$ppsim run job-killed.json"); do
    if tr '\0' '\n' <"/proc/$pid/environ" | grep -qx "OMPI_COMM_WORLD_RANK=$2"; then kill "-$1" "$pid"; fi
  done
}
# expect_end SECONDS: the job fails within them.
expect_end() {
  local begin=$SECONDS found=0
  wait $job || found=$?
  [ "$found" -ne 0 ] || fail "nobody noticed"
  [ $((SECONDS - begin)) -le "$1" ] || fail "it took $((SECONDS - begin)) s"
}
expect_exit 0 lower 1f1b --ranks 3 --microbatches 6 -o job-killed.json
# A whole run takes longer than to begin the first step, on a busy machine as well.
SECONDS=0
expect_mpi 0 3 run job-killed.json --backend emulated --unit F=1,B=1 --steps 1
whole_s=$((SECONDS + 2))

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

# SIGTERM to mpirun, and Ctrl-C to all: process 0 alone says so. mpirun has an exit code of its own.
f_ms=200
start_job --json
kill -TERM $job
expect_end 60
expect_json 'd["error"]["code"] == "interrupted"'
expect_nothing_left
start_job --json
for process in 2 1 0; do signal_process INT $process; done
expect_end 60
expect_json 'd["error"]["code"] == "interrupted"'
expect_nothing_left
