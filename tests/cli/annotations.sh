#!/usr/bin/env bash
# verify --annotations github: errors at the cells of the file.
source "$(dirname "$0")/support/lib.sh"

printf '0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n' >hangs.csv
expect_exit 0 verify 1f1b --ranks 2 --microbatches 2 --annotations github
! grep -q '::' stdout || fail "nothing is wrong"

expect_exit 4 verify hangs.csv --communicators per-pair --annotations github
expect_out "deadlock_free is refuted"
expect_out "::error file=hangs.csv,line=1,col=18,endColumn=25,title=ppsim%3A deadlock_free is refuted::rank 0: 0SEND_F1 waits for"
expect_out "%0Arank 1: 1RECV_F1"
[ "$(grep -c '^::error' stdout)" -eq 4 ] || fail "one for each cell of the cycle"
expect_exit 4 verify hangs.csv --communicators per-pair --annotations github --json
expect_json 'd["properties"]["deadlock_free"]["verdict"] == "refuted"'
expect_err "::error file=hangs.csv,line=1"

# Files that cannot be read, and files that a release would not load.
printf '0F0,0B0\n1F0,1X0\n' >bad.csv
expect_exit 2 verify bad.csv --annotations github
expect_out "::error file=bad.csv,line=2,col=5,endColumn=7,title=ppsim%3A bad_file::"
expect_out "cell 2 of the row"
expect_exit 4 verify hangs.csv --for torch-2.15 --annotations github
expect_out "::error file=hangs.csv,line=1,col=5,endColumn=12,title=ppsim%3A refused::"

# Memory is a matter of the whole file; several files have theirs, too.
expect_exit 0 generate gpipe --ranks 2 --microbatches 4 -o large.csv
expect_exit 3 verify large.csv --unit F=1,A=10 --memory-limit 20 --annotations github
expect_out "::error file=large.csv"
expect_exit 3 verify gpipe --ranks 2 --microbatches 4 --unit F=1,A=10 --memory-limit 20 --annotations github
expect_out "::error title=ppsim%3A memory is refuted::"  # a name is no file
expect_exit 2 verify bad.csv hangs.csv --communicators per-pair --annotations github
expect_out "::error file=bad.csv"
expect_out "::error file=hangs.csv"
expect_error 2 "annotations" "github" verify hangs.csv --annotations gitlab
