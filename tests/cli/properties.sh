#!/usr/bin/env bash
# The properties that `verify` decides: those named, and those that a limit asks for.
source "$(dirname "$0")/support/lib.sh"
sched=(1f1b --ranks 4 --microbatches 8 --unit F=1,A=1e9)

# A limit asks for its property, whichever others are named. 1F1B holds 4 activations.
expect_exit 3 verify "${sched[@]}" --properties deadlock_free --memory-limit 1MB --json
expect_json 'set(d["properties"]) == {"deadlock_free", "memory"} and d["properties"]["memory"]["verdict"] == "refuted"'
expect_exit 0 verify "${sched[@]}" --properties deadlock_free --memory-limit 4GB --json
expect_json 'd["properties"]["memory"]["verdict"] == "proved"'
expect_exit 3 verify "${sched[@]}" --properties memory,deadlock_free --memory-limit 1MB --json
expect_json 'list(d["properties"]).count("memory") == 1'
expect_exit 3 verify 1f1b --ranks 4 --all-microbatches --unit F=1,A=1e9 --properties deadlock_free --memory-limit 1MB
expect_error 2 "memory needs sizes" "" verify 1f1b --ranks 4 --microbatches 8 --properties deadlock_free --memory-limit 1GB
expect_exit 4 verify "${sched[@]}" --properties deadlock_free --makespan-limit 1ms --json
expect_json 'set(d["properties"]) == {"deadlock_free", "makespan"}'
# A decimal size is the one that it says: 2.01 * 1e9 is no whole number as computers count.
expect_exit 0 verify 1f1b --ranks 1 --microbatches 1 --unit F=1,A=2010000000 --memory-limit 2.01GB
expect_exit 3 verify 1f1b --ranks 1 --microbatches 1 --unit F=1,A=2010000001 --memory-limit 2.01GB
# Gradients in another order are rounded otherwise, no more; what stands before others is named in full.
printf '0F0,0F1,0B1,0B0\n1F0,1F1,1B1,1B0\n' >descending.csv
expect_exit 0 verify "${sched[@]}" --properties matched
expect_out "whether it can hang was not asked"
expect_exit 4 verify descending.csv --properties ascending_accumulation
expect_out "It runs. Gradients are added up in another order, so rounding differs."
expect_exit 4 verify descending.csv --properties ascending_accumulation,makespan --makespan-limit 1ms --unit F=1
expect_out "It runs, but can take longer than the limit: the lines above are what takes the time. Gradients"
printf '0F0,0W0,0I0\n1F0,1I0,1W0\n' >early.csv
expect_exit 4 verify early.csv
expect_err "0W0 at position 1 needs 0B0 or 0I0"
# Also where there is no time to decide it.
expect_exit 5 verify 1f1b --ranks 64 --microbatches 4096 --unit F=1,A=1e9 --properties deadlock_free --memory-limit 1MB --timeout 0.001 --json
expect_json 'set(d["properties"]) == {"deadlock_free", "memory"}'

# A schedule without a backward is called inference.
printf '0F0,0F1\n1F0,1F1\n' >inference.csv
expect_exit 0 verify inference.csv
expect_out "inference: no rank has a backward"
expect_exit 0 verify inference.csv --json
expect_json 'd["has_backward"] is False'
expect_exit 0 verify inference.csv 1f1b:ranks=2,microbatches=2
grep -qE '^inference.csv +per-edge +proved, no backward' stdout || fail "inference in a table"
expect_exit 0 verify "${sched[@]}" --json
expect_json 'd["has_backward"] is True'
expect_exit 0 verify "${sched[@]}"
! grep -q inference stdout || fail "training is no inference"
