#!/usr/bin/env bash
# --for: the files that a release of PyTorch loads and runs, and those written for it.
source "$(dirname "$0")/support/lib.sh"
sizes="--ranks 4 --microbatches 8"

# A release loads and runs a file that is written for it.
for order in timed global just-in-time early:2; do
  expect_exit 0 lower zb-h1 $sizes --for torch-2.15 --order $order -o new.csv
  expect_err "next: ppsim verify new.csv --for torch-2.15"
  expect_exit 0 verify new.csv --for torch-2.15
  expect_out "for torch-2.15, which loads it"
  expect_out "with communicators per-pair"
done
grep -q 0WAIT_REDUCE_GRAD new.csv || fail "a wait is missing"
expect_exit 0 verify new.csv --for torch-2.15 --json
expect_json 'd["target"] == "torch-2.15" and d["transport"] == "nccl" and d["communicators"] == "per-pair"'
expect_exit 0 verify new.csv --for torch-2.15 --communicators per-rank
expect_error 4 "it knows no WAIT cells" "WAIT_" verify new.csv --for torch-2.14
expect_exit 0 lower zb-h1 $sizes --for torch-2.14 -o old.csv
! grep -q WAIT old.csv || fail "2.14 has no waits"
expect_error 4 "nothing waits for this" "SEND" verify old.csv --for torch-2.15
expect_exit 0 generate zb-h1 $sizes --for legacy -o legacy.csv
grep -q 0B0 legacy.csv || fail "the old alphabet"
expect_exit 0 verify legacy.csv --for legacy
expect_exit 0 verify zb-h1 $sizes --for legacy
expect_exit 0 verify zb-v $sizes --for torch-2.15

# Gradients: convert adds what divides them, or says what becomes of them.
expect_exit 0 generate zb-h1 $sizes -o schedule.csv
expect_exit 0 convert schedule.csv without.csv --flavor compute_comms
expect_err "8 times as large"
expect_error 4 "would compute other gradients" "once" verify without.csv --for torch-2.14
expect_exit 0 convert schedule.csv with.csv --flavor compute_comms --for torch-2.15
! grep -q "times as large" stderr || fail "REDUCE_GRAD is there"
expect_exit 0 verify with.csv --for torch-2.15
expect_error 4 "would compute other gradients" "once" convert without.csv again.csv --for torch-2.14

# Files that a release would not load.
printf '\xef\xbb\xbf0F0,0B0\r\n1F0,1B0\r\n' >bom.csv
expect_error 4 "would not load this" "a byte order mark" verify bom.csv --for torch-2.15
printf '0F0,0B0\r\n1F0,1B0\r\n\r\n' >rows.csv
expect_error 4 "rows.csv:3" "an empty row" verify rows.csv --for torch-2.14
expect_exit 0 verify rows.csv
expect_error 4 "every stage needs a backward" "0 B, 0 I and 0 W" verify forward-only $sizes --for torch-2.15
expect_error 4 "every stage needs a backward" "0 B, 0 I and 0 W" generate forward-only $sizes --for torch-2.15 -o x.csv
expect_error 4 "cannot run this" "slices" generate terapipe $sizes --slices 2 --for torch-2.15 -o x.csv

# PyTorch's deferred receives hang on its own transport.
expect_exit 0 verify "$data/deferred_receives.csv"
printf '%s\r\n' 0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1,0REDUCE_GRAD \
  1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1,1REDUCE_GRAD >hangs.csv
expect_exit 4 verify hangs.csv --for torch-2.14
expect_out "rank 0: 0SEND_F1 waits for rank 1: 1RECV_F1"

# A release has its transport and its communicators.
expect_error 2 "names a transport" "--transport" verify new.csv --for torch-2.15 --transport mpi
expect_error 2 "has no such communicators" "per-edge" verify old.csv --for torch-2.14 --communicators per-edge
expect_error 2 "unknown --for" "torch-2.16" verify new.csv --for torch-2.16
expect_error 2 "no waits for computation" "early:N" lower zb-h1 $sizes --for torch-2.15 --order issue-ordered -o x.csv
expect_exit 0 lower zb-h1 $sizes -o edge.json --with reduce-grad
expect_error 4 "other communicators" "per-pair" verify edge.json --for torch-2.14
expect_exit 0 lower zb-h1 $sizes -o pair.json --with reduce-grad --communicators per-pair
expect_exit 0 verify pair.json --for torch-2.14

# Files that are something else are named, with what mends it.
printf '0F0,0B0,0W0\r\n1F0,1B0,1W0\r\n' >b.csv
expect_error 4 "the alphabet before PyTorch 2.6" "--dialect legacy" verify b.csv
expect_exit 0 verify b.csv --dialect legacy
printf '[[0F0, None, 0B0], [1F0, 1B0]]' >list.csv
expect_error 2 "get_schedule_ops" "csv.writer" verify list.csv
printf '0F0,0F1,0B0,0B1\r\n1F0,1B0,1F1,1B' >cut.csv
expect_error 2 "as if the file was cut off" "1B" verify cut.csv

# --dialect is for a CSV, or refused.
expect_error 2 "alphabet of a CSV" "--dialect legacy" verify zb-h1 $sizes --dialect legacy
expect_error 2 "alphabet of a CSV" "--dialect legacy" simulate pair.json --unit F=1 --dialect legacy
expect_error 2 "reads another alphabet" "--dialect legacy" verify b.csv --for torch-2.15 --dialect legacy
expect_exit 0 lower schedule.csv -o waits.csv --dialect torch-2.15
grep -q WAIT_SEND waits.csv || fail "--dialect of what is written"
expect_exit 0 convert pair.json old.csv --dialect legacy
expect_error 2 "neither file" "--dialect legacy" convert pair.json copy.json --dialect legacy
expect_error 2 "--for says the alphabet" "--dialect legacy" convert pair.json copy.csv --for torch-2.15 --dialect legacy
