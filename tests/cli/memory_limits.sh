#!/usr/bin/env bash
# --memory-budget: properties beyond it are unknown. The machine's own memory, wherever it ends: an error.
source "$(dirname "$0")/support/lib.sh"
source "$support/unknown.sh"

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
