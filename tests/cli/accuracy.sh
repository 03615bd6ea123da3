#!/usr/bin/env bash
# docs/accuracy.md and its picture have what the program says today, and no group of rows is further off than it was.
source "$(dirname "$0")/support/lib.sh"

study=$data/../../studies/accuracy
docs=$data/../../docs
cp "$docs/accuracy.md" .
"$study/measure" "$ppsim" . >stdout 2>stderr || fail "worse than studies/accuracy/bars.csv allows"
for file in accuracy.md accuracy.svg; do
  diff "$docs/$file" "$file" >stdout || fail "docs/$file is older than the program: studies/accuracy/measure writes it"
done
