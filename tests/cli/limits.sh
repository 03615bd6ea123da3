#!/usr/bin/env bash
# --timeout: properties beyond it are unknown, and the call ends in time in any of its phases.
source "$(dirname "$0")/support/lib.sh"
source "$support/unknown.sh"

# 10 million instructions: generating and lowering alone takes longer.
unknown "time limit reached" 1f1b --ranks 256 --microbatches 8192 --timeout 0.5
expect_json "$nothing"
expect_exit 5 verify 1f1b --ranks 256 --microbatches 8192 --timeout 0.5
expect_out "Nothing is decided: time limit reached. Try again and raise --timeout."
unknown "time limit reached" 1f1b --ranks 256 --microbatches 8192 --timeout 0.5 --properties deadlock_free,matched
expect_json 'list(d["properties"]) == ["matched", "deadlock_free"]'
# Properties decided before a limit stay decided, wherever the time runs out.
unknown "time limit reached" 1f1b --ranks 256 --microbatches 4096 --unit F=1,A=1 --timeout 6
expect_json 'len(d["properties"]) == 7 and d["properties"]["memory"]["verdict"] == "unknown"'
expect_json 'd["properties"]["matched"]["verdict"] == "proved" or all(p["verdict"] == "unknown" for p in d["properties"].values())'
# States under a residency limit; memory of many ranks; recognising large schedules; all m; all p.
expect_exit 5 verify 1f1b --ranks 64 --microbatches 512 --resident 2 --timeout 0.5
expect_exit 5 verify 1f1b --ranks 4 --microbatches 8 --resident 3 --state-limit 10
expect_out "more than 10 states under the residency limit"
expect_out "Not decided: raise --state-limit, or choose a --resident that is not reached."
expect_exit 5 verify gpipe --ranks 64 --microbatches 2048 --unit F=1,B=2,A=1 --timeout 0.5
unknown "time limit reached" 1f1b --ranks 4096 --all-microbatches --timeout 0.5
unknown "time limit reached" 1f1b --ranks 128 --all-microbatches --unit F=1,A=1 --properties memory --timeout 0.5
unknown "time limit reached" zb-h1 --all-microbatches --timeout 0.001
expect_exit 5 synthesize --ranks 32 --microbatches 256 --activation-limit 16 --unit F=1 --timeout 0.5 -o x.json

# A step that is late ends the run, whole as JSON, too, without the action that computes.
expect_error 1 "a step did not finish within its deadline of 0.01 s" "" run 1f1b --ranks 2 --microbatches 2 --steps 1 \
  --deadline 0.01 --transformer layers=2,hidden=512,heads=8,ffn=2048,vocab=64,sequence=512
