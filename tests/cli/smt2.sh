#!/usr/bin/env bash
# --smt2: every query as a file that says what Z3 answered, and another solver answers the same.
source "$(dirname "$0")/support/lib.sh"
file=$data/deferred_receives.csv

# status FOLDER PATTERN ANSWER: the only query whose name matches says so.
status() {
  local found=("$1"/$2)
  [ "${#found[@]}" -eq 1 ] && [ -f "${found[0]}" ] || fail "not one query: $1/$2: ${found[*]}"
  grep -qxF "(set-info :status $3)" "${found[0]}" || fail "no status $3: ${found[0]}"
}

expect_exit 0 verify 1f1b --ranks 2 --microbatches 3 --smt2 free
expect_err "1 query in free"
status free '001-deadlock.smt2' sat
grep -qF "$("$ppsim" verify 1f1b --ranks 2 --microbatches 3 --json | python3 -c 'import json, sys
print(json.load(sys.stdin)["program_hash"])')" free/001-deadlock.smt2 || fail "the query does not name its Program"

expect_exit 4 verify "$file" --communicators per-rank --smt2 hangs
status hangs '001-deadlock.smt2' unsat
mkdir files && cp "$file" files/
expect_exit 4 verify files --communicators per-rank,per-edge --smt2 table
expect_err "2 queries in table"
status table '001-deadlock.smt2' unsat

# Every number of microbatches: memory, K resident kernels, a limit that breaks; every number of ranks.
expect_exit 0 verify 1f1b --ranks 3 --all-microbatches --unit F=1,B=2,A=10 --smt2 memory
status memory '*-deadlock-*' unsat
status memory '*-memory-rank0-above-30.smt2' unsat
expect_exit 0 verify 1f1b --ranks 3 --all-microbatches --resident 3 --smt2 resident
status resident '*-resident-3-k-from-1.smt2' unsat
expect_exit 4 verify 1f1b --ranks 3 --all-microbatches --resident 2 --smt2 stuck
status stuck '*-resident-2-k-from-1.smt2' sat
expect_exit 3 verify gpipe --ranks 3 --all-microbatches --unit F=1,B=2,A=10 --memory-limit 35 --smt2 limit
status limit '*-memory-rank0-above-35-k-below-4.smt2' unsat
expect_exit 0 verify 1f1b --all-microbatches --smt2 ranks
status ranks '001-ranking.smt2' sat
status ranks '002-wait-0.smt2' unsat

expect_exit 0 synthesize --ranks 3 --microbatches 5 --activation-limit 2 --unit F=1 -o x.json --smt2 shortest
status shortest '001-makespan-at-most-*.smt2' sat
expect_exit 0 synthesize --ranks 3 --microbatches 8 --activation-limit 2 --unit F=1 -o x.json --smt2 none-shorter
status none-shorter '001-makespan-at-most-*.smt2' unsat

# A folder without queries is explained, one with queries is not mixed up, a file is no folder.
expect_exit 0 verify 1f1b --ranks 2 --microbatches 3 --properties matched --smt2 empty
expect_err "0 queries in empty: of one Program only deadlock_free"
expect_exit 0 verify 1f1b --ranks 32 --microbatches 256 --smt2 large
expect_err "0 queries in large: Z3: unknown, "
expect_err "events, more than 20000"
expect_exit 0 synthesize --ranks 2 --microbatches 4 --activation-limit 2 --unit F=1 -o x.json --smt2 bounds
expect_err "0 queries in bounds: no question needed a solver"
expect_error 2 "folder with queries" "001-deadlock.smt2" verify 1f1b --ranks 2 --microbatches 3 --smt2 free
expect_error 1 "cannot make the folder" "" verify 1f1b --ranks 2 --microbatches 3 --smt2 x.json

# agrees SOLVER QUERY...: its answers are the statuses; one call per query, within 10 seconds.
agrees() {
  local query answer expected
  for query in "${@:2}"; do
    expected=$(sed -n 's/^(set-info :status \(.*\))$/\1/p' "$query")
    answer=$(timeout 10 $1 "$query" 2>&1) || fail "$1 fails on $query: $answer"
    [ "$answer" = "$expected" ] || fail "$query: Z3 said $expected, $1 says $answer"
  done
}

queries=(*/*.smt2)
checked=0
for solver in "cvc5 --lang=smt2" "z3 -smt2"; do
  command -v "${solver%% *}" >/dev/null || continue
  agrees "$solver" "${queries[@]}"
  checked=$((checked + 1))
done
if ! command -v cvc5 >/dev/null; then
  [ "${CI:-}" != true ] || fail "cvc5 is not installed: scripts/bootstrap --tests"
  echo "no cvc5: the answers were not cross-checked with it (scripts/bootstrap --tests installs it)" >&2
fi
echo "${#queries[@]} queries, $checked solvers agree" >&2
