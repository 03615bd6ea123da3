#!/usr/bin/env bash
# PyTorch's deferred receives on two ranks: they hang where one queue has all transfers of a rank, and not where each
# direction has its own.
source "$(dirname "$0")/support/lib.sh"
file=$data/deferred_receives.csv

for policy in per-rank per-pair; do
  expect_exit 4 verify "$file" --communicators $policy
  expect_out "rank 0: 0SEND_F1 waits for rank 1: 1RECV_F1 (a transfer begins when both ends have started)"
  expect_out "rank 1: 1SEND_B0 waits for rank 0: 0RECV_B0 (a transfer begins when both ends have started)"
done
for policy in per-edge per-stage-edge; do expect_exit 0 verify "$file" --communicators $policy; done

expect_exit 4 verify "$file" --communicators per-rank --json
expect_json 'd["properties"]["deadlock_free"]["verdict"] == "refuted"'
expect_json 'all(d["properties"][p]["verdict"] == "proved" for p in ("well_formed", "matched"))'
cycle='d["properties"]["deadlock_free"]["counterexample"]["cycle"]'
expect_json "[c['action'] for c in $cycle] == ['0SEND_F1', '1RECV_F1', '1SEND_B0', '0RECV_B0']"
expect_json "all(a['waits_for'] == {k: b[k] for k in ('rank', 'index', 'action')} for a, b in zip($cycle, $cycle[1:] + $cycle[:1]))"

# Buffers hide it, and the report says so.
expect_exit 0 verify "$file" --communicators per-rank --buffers 1
expect_out "safe only by buffering"

# The Program hangs in the simulator and in a run, which both name who waits for whom.
expect_exit 0 lower "$file" --communicators per-rank -o hangs.json
expect_exit 0 lower "$file" --communicators per-edge -o runs.json
expect_error 4 "deadlock" "0SEND_F1 waits for rank 1: 1RECV_F1" simulate hangs.json --unit F=1,B=2
expect_error 4 "deadlock" "0SEND_F1 waits for rank 1: 1RECV_F1" run hangs.json
expect_error 4 "the run hung" "rank 0: 0SEND_F1 waits for rank 1: 1RECV_F1" run hangs.json --unverified
expect_json 'len(d["error"]["waits"]) == 4'
expect_exit 0 run hangs.json --unverified --buffers 2 --steps 1
expect_exit 0 run runs.json --steps 1
expect_exit 0 simulate runs.json --unit F=1,B=2

# A Program keeps its communicators, however it is read.
expect_error 2 "a Program has its communicators" "" verify hangs.json --communicators per-edge
expect_exit 0 lower hangs.json --communicators per-edge -o again.json
cmp again.json runs.json || fail "per-edge of a per-rank Program is the per-edge Program"
timeout $limit_s "$ppsim" verify - --communicators per-edge <hangs.json >stdout 2>stderr && fail "accepted from stdin"
expect_err "a Program has its communicators"
