#!/usr/bin/env bash
# lower --dump-passes: the rows after each pass.
source "$(dirname "$0")/support/lib.sh"
small=(1f1b --ranks 2 --microbatches 2 --order just-in-time)

expect_exit 0 lower "${small[@]}" --dump-passes
expect_out "== schedule"
expect_out "rank 1: 1RECV_F0 | 1F0 | 1B0 | 1SEND_B0 | 1RECV_F1 after 2 | 1F1 | 1B1 | 1SEND_B1"
expect_exit 0 lower "${small[@]}" --dump-passes -o with.json
expect_exit 0 lower "${small[@]}" -o without.json
cmp with.json without.json || fail "looking at the passes has changed the Program"

expect_exit 0 lower "${small[@]}" --with opt --dump-passes --json
expect_json '[e["pass"] for e in d["passes"]] == ["schedule", "insert_updates", "order_exchanges", "insert_transfers", "place_arrivals", "build_program"]'
expect_json 'all(len(e["rows"]) == 2 for e in d["passes"]) and d["file"] is None'
expect_json 'd["passes"][-1]["rows"][0][-1].startswith("0OPT")'

expect_error 2 "" "--output is required" lower "${small[@]}"
expect_error 2 "" "both write to stdout" lower "${small[@]}" --dump-passes -o -
expect_error 2 "" "Program already" lower with.json --dump-passes
