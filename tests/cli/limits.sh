#!/usr/bin/env bash
# --timeout and --memory-budget: properties beyond them are unknown, and the call ends in time in any of its phases.
source "$(dirname "$0")/support/lib.sh"
limit_s=30  # for calls of half a second, on a busy machine

# unknown REASON ARGUMENTS...: exit 5, and some property is unknown for that reason.
unknown() {
  expect_exit 5 verify "${@:2}" --json
  expect_json "any('$1' in p.get('reason', '') for p in d['properties'].values())"
}
# The expression that expect_json checks after a call that decided nothing.
nothing="d['properties'] and all(p['verdict'] == 'unknown' for p in d['properties'].values())"

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

# Memory: of the Program, of the verifier, of Z3.
unknown "memory budget reached" 1f1b --ranks 256 --microbatches 8192 --memory-budget 50MB
expect_json "$nothing"
unknown "memory budget reached" 1f1b --ranks 32 --microbatches 256 --memory-budget 1MB
unknown "memory budget reached" 1f1b --ranks 3 --all-microbatches --resident 3 --memory-budget 1
expect_exit 0 verify 1f1b --ranks 32 --microbatches 256 --unit F=1,B=2,A=1 --memory-budget 1GB
expect_exit 5 synthesize --ranks 3 --microbatches 8 --activation-limit 2 --unit F=1 --memory-budget 1 -o x.json --json
expect_json 'd["reason"] == "memory budget reached" and not d["optimal"]'
expect_exit 0 verify x.json
# The machine's own memory, wherever it ends: an error, never an abort. A sanitizer needs more than this gives.
expect_exit 0 lower 1f1b --ranks 16 --microbatches 2048 -o large.json
if (ulimit -v 4000000 && "$ppsim" list policies) >stdout 2>stderr; then
  refused=0
  for megabytes in 45 50 55 60 70 80 100 120 140; do
    for arguments in "lower large.json --communicators per-rank -o y.json" "convert large.json y.csv" "generate 1f1b --ranks 64 --microbatches 4096 -o y.json"; do
      found=0
      (ulimit -v $((megabytes * 1024)) && exec "$ppsim" $arguments --json) >stdout 2>stderr || found=$?
      case $found in
        0 | 127) ;;  # enough, or not enough for the loader
        1)
          expect_err "out of memory"
          expect_json 'd["error"]["message"] == "out of memory"'
          refused=$((refused + 1))
          ;;
        *) fail "exit $found of ppsim $arguments with $megabytes MB" ;;
      esac
    done
  done
  [ $refused -gt 0 ] || fail "nothing ran out of memory"
  # A file takes a few times its size, whatever it is made of.
  python3 -S -c 'print("," * 30_000_000)' >commas.csv
  python3 -S -c 'print("\n" * 30_000_000 + "0F0,0B0")' >lines.csv
  for arguments in "verify commas.csv" "verify lines.csv" "simulate 1f1b --ranks 2 --microbatches 2 --unit F=1 --compare-trace commas.csv"; do
    found=0
    (ulimit -v 400000 && exec "$ppsim" $arguments) >stdout 2>stderr || found=$?
    [ $found -eq 2 ] || fail "exit $found of ppsim $arguments"
  done
fi
expect_error 2 "size" "much" verify 1f1b --ranks 3 --microbatches 3 --memory-budget much
