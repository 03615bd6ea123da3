# Helpers of tests/cli/mpi*.sh, which run several processes by mpirun. Without MPI these end here.
if ! "$ppsim" doctor | grep -q "^ok .*transport mpi: [A-Z]"; then
  expect_error 2 "the transport mpi needs ppsim_mpi.so" "-DPPSIM_MPI=ON" run 1f1b --ranks 2 --microbatches 4 --transport mpi
  [ -z "${CI:-}" ] || fail "continuous integration tests with MPI"
  exit 0
fi
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# Two processes on two processors would poll without a pause, beside other tests.
export OMPI_MCA_mpi_yield_when_idle=1
# Its shared memory, in this test's own folder.
export OMPI_MCA_btl_vader_backing_directory=$work/shared_memory
mkdir "$OMPI_MCA_btl_vader_backing_directory"

# expect_mpi CODE PROCESSES ARGUMENTS...: runs ppsim on so many processes.
expect_mpi() {
  local expected=$1 found=0
  shift
  timeout $limit_s mpirun --oversubscribe -np "$1" "$ppsim" "${@:2}" --transport mpi >stdout 2>stderr || found=$?
  [ "$found" -eq "$expected" ] || fail "exit $found, expected $expected: $*"
}

segments() { find "$OMPI_MCA_btl_vader_backing_directory" -type f | sort; }
# expect_nothing_left: no shared memory of this test, and no process that runs a job of its folder.
expect_nothing_left() {
  local waited=0
  while pgrep -f "^$ppsim run $work/job-" >/dev/null || [ -n "$(comm -13 segments_before <(segments))" ]; do
    sleep 0.1
    waited=$((waited + 1))
    [ $waited -lt 100 ] || fail "left: $(pgrep -af "^$ppsim run $work/job-") $(segments)"
  done
}
segments >segments_before

# start_job ARGUMENTS...: runs job-killed.json on 3 processes in the background, for a while. With a first F that
# takes long rank 2 waits for rank 1, whenever one looks.
f_ms=200000
start_job() {
  timeout $limit_s mpirun --oversubscribe -np 3 "$ppsim" run "$work/job-killed.json" --backend emulated --unit F=$f_ms,B=400 --steps 1000 \
    --transport mpi "$@" >stdout 2>stderr &
  job=$!
  local waited=0
  until [ "$(pgrep -cf "^$ppsim run $work/job-killed.json")" -eq 3 ]; do
    sleep 0.1
    waited=$((waited + 1))
    [ $waited -lt 300 ] || fail "the processes did not start"
  done
  sleep $whole_s
}
# signal_process SIGNAL NUMBER: to the process of that number.
signal_process() {
  for pid in $(pgrep -f "^$ppsim run $work/job-killed.json"); do
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

# lower_job: job-killed.json, and in whole_s for how long a job runs at least: a whole run takes longer than to begin the
# first step, on a busy machine as well.
lower_job() {
  expect_exit 0 lower 1f1b --ranks 3 --microbatches 6 -o "$work/job-killed.json"
  SECONDS=0
  expect_mpi 0 3 run job-killed.json --backend emulated --unit F=1,B=1 --steps 1
  whole_s=$((2 * SECONDS + 3))
}
