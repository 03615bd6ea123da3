#!/usr/bin/env bash
# studies/mpmd-over-spmd has what its script says today.
source "$(dirname "$0")/support/lib.sh"

study=$data/../../studies/mpmd-over-spmd
"$study/measure" "$ppsim" >tables || fail "studies/mpmd-over-spmd/measure"
[ "$(wc -l <tables)" -ge 20 ] || fail "fewer rows than there are"
sed -n '/^<!-- studies\/mpmd-over-spmd\/measure/,$p' "$study/README.md" | grep '^|' | diff - <(grep '^|' tables) >stdout ||
  fail "studies/mpmd-over-spmd/README.md"
