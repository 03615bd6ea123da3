#!/usr/bin/env bash
# verify --repair writes a Program that does not hang, and names the changes; where nothing helps it says why.
source "$(dirname "$0")/support/lib.sh"
regressions=$data/regressions

expect_exit 4 verify "$regressions/nccl-479-hangs.json" --repair repaired.json
expect_out "The smallest change that removes the deadlock, verified again:"
expect_out "Or a transport with --buffers 1, or one that does no more than"
expect_out "Wrote repaired.json; next: ppsim verify repaired.json"
! grep -q -- "--repair FILE" stdout || fail "the advice to write what was written"
expect_exit 0 verify repaired.json
expect_exit 0 run repaired.json --unverified --steps 1

# The same as JSON, without a file too: small Programs are repaired unasked.
expect_exit 4 verify "$regressions/torchcomms-2551-hangs.json" --json
repair='d["properties"]["deadlock_free"]["repair"]'
expect_json "1 <= len($repair['changes']) <= 2 and all(c['kind'] in ('move', 'group', 'split') for c in $repair['changes'])"
expect_json "$repair['buffers']['messages_on_every_channel'] == 1 and len($repair['buffers']['fewest']) == 2"

# A Program with a message that lacks an end is not repaired, and nothing is written.
expect_exit 4 verify "$regressions/nccl-2130-lacks-an-end.json" --repair none.json
expect_out "this is no matter of order"
expect_out "rank 0 has 3RECV_F2, and rank 1 lacks its 2SEND_F2 on communicator world"
[ ! -e none.json ] || fail "a Program was written that is no repair"

# A Program that runs needs no repair.
expect_exit 0 verify "$regressions/nccl-479-runs.json" --repair none.json
[ ! -e none.json ] || fail "a repair of what is not broken"

expect_error 2 "are for one input" "2 inputs" verify repaired.json "$regressions/nccl-479-runs.json" --repair x.json
expect_error 2 "a repair rests on more" "matched" verify repaired.json --properties matched --repair x.json
expect_error 2 "--certificate and --repair" "found --repair" verify 1f1b --ranks 2 --all-microbatches --repair x.json

# Buffers: how much it takes.
expect_exit 0 verify "$regressions/nccl-479-hangs.json" --buffers 1
expect_out "Credits(1) will do, and so will a transport that does no more than buffer 1 message from rank"

# Uses of tensors that dependencies alone do not order.
cat >offloaded.json <<'JSON'
{"format":"ppsim-program","version":1,"pipeline":{"ranks":1,"stages":1,"microbatches":1},"communicators":[],
 "ranks":[["0F0","0OFFLOAD0","0RELOAD0","0R0","0B0"]]}
JSON
expect_exit 4 verify offloaded.json
expect_out "rank 0: 0OFFLOAD0 uses saved_for_weight of stage 0, microbatch 0, which nothing has written by then"

# Advice: only where a repair may help.
expect_exit 4 verify "$regressions/nccl-479-hangs.json"
expect_out "--repair FILE writes what does not hang."
expect_exit 4 verify "$regressions/nccl-2130-lacks-an-end.json"
expect_out "Do not run this"
! grep -q -- "--repair" stdout || fail "what cannot be repaired"
expect_exit 4 verify looped-bfs --ranks 2 --microbatches 4 --chunks 2 --properties ascending_accumulation,matched
! grep -q -- "--repair" stdout || fail "a repair of an order of sums"
expect_exit 4 verify 1f1b --ranks 3 --microbatches 6 --resident 2
! grep -q -- "--repair" stdout || fail "a repair of a residency limit"

# An ill-formed Program stays so, and the output says it: RECVs after the F that need them, on a transport that launches in order.
printf '%s\n' 0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B1,0RECV_B0 1F0,1RECV_F0,1SEND_B1,1B0,1SEND_B0,1F1,1B1,1RECV_F1 >ill.csv
expect_exit 4 verify ill.csv --transport nccl
expect_out "well_formed is still refuted"
expect_exit 4 verify ill.csv --transport nccl --repair better.json --json
expect_json 'd["properties"]["deadlock_free"]["repair"]["still_refuted"] == ["well_formed"]'
expect_exit 4 verify better.json --transport nccl --json
expect_json '[p for p, v in d["properties"].items() if v["verdict"] == "refuted"] == ["well_formed"]'

# A Program that does not hang is not repaired, and the output says it.
expect_exit 0 verify 1f1b --ranks 2 --microbatches 2 --repair none.json
expect_err "nothing was repaired, so none.json was not written"
[ ! -e none.json ] || fail "a file was written"

# A mismatch: receives move until they stand in the order of the sends. Only moves, into a CSV.
printf '%s\r\n' 0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1 \
  1RECV_F1,1RECV_F0,1F0,1B0,1SEND_B0,1F1,1B1,1SEND_B1 >mixed.csv
expect_exit 4 verify mixed.csv --repair mended.csv --repair-with moves
expect_out "Changes that undo the mismatch"
expect_out "move rank 1: 1RECV_F0 before 1RECV_F1"
expect_exit 0 verify mended.csv
expect_exit 4 verify mixed.csv --repair mended.json --json
expect_json 'd["properties"]["matched"]["repair"]["changes"][0]["kind"] == "move"'
expect_exit 0 verify mended.json
expect_exit 4 verify "$data/deferred_receives.csv" --communicators per-pair --repair moved.csv --repair-with moves
expect_exit 0 verify moved.csv --communicators per-pair
expect_error 2 "unknown --repair-with" "wishes" verify mixed.csv --repair x.json --repair-with wishes
expect_exit 2 verify mixed.csv --repair-with moves

# PyTorch 2.15's ZBV on 2 ranks with deferred receives mixes tensors up; a file for the release has its waits.
expect_exit 4 verify "$data/deferred_zb_v.csv" --for torch-2.15 --repair mended.csv --repair-with moves
expect_out "matched is refuted"
expect_exit 0 verify mended.csv --for torch-2.15

# The output names what a CSV cannot hold beside the verdict, and the advice reads the file with the same options.
expect_exit 2 verify "$data/deferred_zb_v.csv" --communicators per-rank --repair z.csv
expect_out "matched is refuted"
expect_err "--repair FILE.json"
expect_exit 4 verify "$data/deferred_receives.csv" --communicators per-rank --repair mended.csv
expect_out "ppsim verify mended.csv --communicators per-rank"
