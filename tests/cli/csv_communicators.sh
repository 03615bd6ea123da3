#!/usr/bin/env bash
# A compute_comms CSV has no communicators: whoever reads one says which it was given.
source "$(dirname "$0")/support/lib.sh"
csv="$data/deferred_receives.csv"
assumed="a CSV has no communicators: with communicators per-edge, the default"

for words in "simulate $csv --unit F=1" "compare $csv --unit F=1" "show $csv" "run $csv --steps 1"; do
  expect_exit 0 $words
  expect_err "$assumed"
  expect_exit 0 $words --json
  expect_json 'True'
done
expect_exit 0 simulate "$csv" --unit F=1 --json
expect_json 'd["communicators"] == "per-edge"'
expect_exit 0 simulate "$csv" --unit F=1 --communicators per-edge
! grep -q "$assumed" stderr || fail "what was asked for is not assumed"
# It hangs with one communicator for all, in the simulator too.
expect_error 4 "waits for" "" simulate "$csv" --unit F=1 --communicators per-rank

expect_exit 0 simulate 1f1b --ranks 4 --microbatches 8 --unit F=1,c=0.5 --communicators per-rank --json
expect_json 'd["communicators"] == "per-rank"'
expect_exit 0 lower 1f1b --ranks 2 --microbatches 3 -o p.json
expect_exit 0 simulate p.json --unit F=1 --json
expect_json '"communicators" not in d'
expect_error 2 "a Program has its communicators" "" simulate p.json --unit F=1 --communicators per-rank
expect_error 2 "unknown --communicators" "found per-planet" simulate "$csv" --unit F=1 --communicators per-planet
