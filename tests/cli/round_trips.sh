#!/usr/bin/env bash
# A written file that is read and written again is the same, byte for byte.
source "$(dirname "$0")/support/lib.sh"

same() { cmp "$1" "$2" || fail "$1 and $2 differ"; }

for name in gpipe 1f1b interleaved-1f1b:chunks=2 zb-h1 zb-h2; do
  expect_exit 0 generate $name --ranks 4 --microbatches 8 -o a.json
  expect_exit 0 convert a.json a.csv
  expect_exit 0 convert a.csv b.json
  expect_exit 0 convert b.json b.csv
  same a.csv b.csv
  # A CSV has no name of its schedule, everything else comes back.
  same <(grep -v '"name"' a.json) <(grep -v '"name"' b.json)

  expect_exit 0 lower $name --ranks 4 --microbatches 8 --unit F=1,B=2,c=0.1 -o p.json
  expect_exit 0 convert p.json p.csv
  expect_exit 0 convert p.csv q.json
  same p.json q.json
  expect_exit 0 convert q.json q.csv
  same p.csv q.csv
  expect_exit 0 convert p.json only.csv --flavor compute_only
  same a.csv only.csv
  for policy in per-rank per-pair per-stage-edge; do
    expect_exit 0 lower p.csv --communicators $policy -o r.json
    expect_exit 0 lower r.json --communicators per-edge -o s.json
    same p.json s.json
  done
done

# The alphabets of the older PyTorch and of the zero-bubble papers.
expect_exit 0 generate zb-h1 --ranks 2 --microbatches 3 -o z.json
# Of the alphabets before REDUCE_GRAD nothing is missing without it.
expect_exit 0 generate zb-v --ranks 2 --microbatches 4 -o native.json
for dialect in legacy zero-bubble; do
  expect_exit 0 convert native.json old.csv --flavor compute_comms --dialect $dialect
  [ ! -s stderr ] || fail "a warning about gradients"
done
expect_exit 0 convert native.json new.csv --flavor compute_comms
expect_err "without 0REDUCE_GRAD"
for dialect in legacy zero-bubble; do
  expect_exit 0 convert z.json old.csv --dialect $dialect
  expect_exit 0 convert old.csv back.json --dialect $dialect
  same <(grep -v '"name"' z.json) <(grep -v '"name"' back.json)
done

# stdin and stdout.
expect_exit 0 generate 1f1b --ranks 2 --microbatches 3 -o -
cp stdout one.json
expect_exit 0 convert one.json -
same one.json stdout
timeout $limit_s "$ppsim" convert - - <one.json >two.json
same one.json two.json
timeout $limit_s "$ppsim" generate 1f1b --ranks 2 --microbatches 3 -o - | timeout $limit_s "$ppsim" verify - >stdout
expect_out "deadlock_free     proved"

# The same Program has the same hash, and the same arguments give the same file.
expect_exit 0 lower 1f1b --ranks 2 --microbatches 3 -o p.json --json
cp stdout first
expect_exit 0 lower 1f1b --ranks 2 --microbatches 3 -o p.json --json
same first stdout
