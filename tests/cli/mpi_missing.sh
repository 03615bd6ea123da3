#!/usr/bin/env bash
# Processes by mpirun of which one does not come.
source "$(dirname "$0")/support/lib.sh"
source "$support/mpi.sh"

# One that never comes to the first meeting: it waits for its input. The others do not wait for ever, whichever it is.
expect_missing() {
  local missing=$1 found=0
  mkdir "$missing"
  cd "$missing"
  mkfifo nobody-writes
  local -a inputs=(1f1b:ranks=2,microbatches=4 1f1b:ranks=2,microbatches=4)
  inputs[$missing]=./nobody-writes
  timeout $limit_s mpirun --oversubscribe -np 1 "$ppsim" run "${inputs[0]}" --transport mpi --deadline 3 --json : \
    -np 1 "$ppsim" run "${inputs[1]}" --transport mpi --deadline 3 --json >stdout 2>stderr || found=$?
  [ "$found" -eq 1 ] || fail "exit $found where process $missing does not come"
  expect_json '"process '"$missing"' did not come" in d["error"]["message"]'
}
(expect_missing 0) &
first=$!
(expect_missing 1)
wait $first
