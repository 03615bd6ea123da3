#!/usr/bin/env bash
# docs/transports.md has what the study says of every schedule today.
source "$(dirname "$0")/support/lib.sh"

"$data/../../studies/transports/measure" "$ppsim" >table || fail "studies/transports/measure"
[ "$(wc -l <table)" -ge 32 ] || fail "fewer schedules than there are"
grep -A100 '^<!-- studies/transports/measure' "$data/../../docs/transports.md" | grep '^|' | diff - table >stdout ||
  fail "docs/transports.md"
