#!/usr/bin/env bash
# The share of each cost in a step, by closed forms, and break-even points of schedules.
source "$(dirname "$0")/support/lib.sh"

# GPipe: (m + p - 1)(F + B) + 2(p - 1)c. All of it stands on the path whatever the costs are.
expect_exit 0 sensitivity gpipe --ranks 4 --microbatches 8 --unit F=1,B=2,c=0.25 --json
expect_json '[g["group"] for g in d["groups"]] == ["F", "B", "SEND_F", "SEND_B", "compute", "transfers"]'
expect_json 'd["step_ns"] == 34500000 and d["by"] == "kind"'
expect_json '[g["factor"]["slope_above"] for g in d["groups"]] == [11000000, 22000000, 750000, 750000, 33000000, 1500000]'
expect_json '[g["added_ns"]["slope_above"] for g in d["groups"]] == [11, 11, 3, 3, 22, 6]'
expect_json 'abs(d["groups"][1]["step_1_percent_more_ns"] - 34720000) < 0.01 and abs(d["groups"][1]["step_1_percent_less_ns"] - 34280000) < 0.01'
# A transfer as long as a forward holds up the next one.
expect_json 'd["groups"][2]["factor"]["holds_to_exact"] == "4" and d["groups"][2]["factor"]["holds_from"] == 0'

# A zero cost is no reason not to know what an added nanosecond does.
expect_exit 0 sensitivity 1f1b --ranks 1 --microbatches 4 --unit F=1,B=2 --by link
expect_out "There is no link whose cost could change."
expect_exit 0 sensitivity 1f1b --ranks 4 --microbatches 8 --unit F=1,B=2 --json
expect_json '[(g["added_ns"]["at_ns"], g["added_ns"]["slope_above"]) for g in d["groups"] if g["group"] == "transfers"] == [(0, 16)]'
expect_exit 0 sensitivity 1f1b --ranks 4 --microbatches 8 --unit F=1,B=2
expect_out "1 % less of B shortens the step by 0.6667 %"

expect_error 2 "need the same work" "forward-only without a backward" sensitivity 1f1b --against forward-only --ranks 4 --microbatches 8 --unit F=1,B=2
expect_exit 0 sensitivity 1f1b --ranks 4 --microbatches 8 --unit F=1,B=2 --by link
expect_out "None of them costs anything."
expect_exit 0 sensitivity 1f1b --ranks 4 --microbatches 8 --unit F=1,B=2,c=0.1 --by rank
expect_out "and nothing shortens it more."

# By rank, stage, link and class. One more nanosecond on each action of the last rank: all 16 follow each other.
for by in rank stage link class; do
  expect_exit 0 sensitivity 1f1b --ranks 4 --microbatches 8 --unit F=1,B=2,c=0.1 --by $by --json
  expect_json "d['by'] == '$by' and len(d['groups']) == {'rank': 4, 'stage': 4, 'link': 3, 'class': 14}['$by']"
done
expect_exit 0 sensitivity 1f1b --ranks 4 --microbatches 8 --unit F=1,B=2 --by rank --json
expect_json '[g["group"] for g in d["groups"]] == ["rank:0", "rank:1", "rank:2", "rank:3"]'
expect_json 'd["groups"][3]["added_ns"]["slope_above"] == 16'

# 1F1B takes (m + p - 1)(F + B) + (2(p - 1)m/p + 2(p - 2))c, interleaved m(F + B) + (p - 1)(F + B)/v + 2(pv - 1)c while
# transfers are short: 33 + 16c and 28.5 + 14c with v = 2, so it stays ahead.
against=(sensitivity 1f1b --against interleaved-1f1b:chunks=2 --per rank --ranks 4 --microbatches 8 --unit F=1,B=2,c=0.1 --json)
expect_exit 0 "${against[@]}" --over transfers
expect_json 'd["break_even"][0]["unit"] == "factor" and d["break_even"][0]["cost_ns"] == 100000'
expect_json 'd["break_even"][0]["ranges"][0] == {"from": 0.0, "from_exact": "0", "shorter": "interleaved-1f1b:chunks=2"}'
python3 -c 'import json; print(json.dumps([r["from"] for r in json.load(open("stdout"))["break_even"][0]["ranges"]][1:]))' >points
# On both sides of each point simulations say the same.
python3 - "$ppsim" points <<'END' || fail "a simulation beside a break-even point says something else"
import json, subprocess, sys
points = json.load(open(sys.argv[2]))
assert points, "interleaving never costs"
def step(name, c, chunks):
    unit = f"F={1 / chunks},B={2 / chunks},c={c:.9f}"
    out = subprocess.run([sys.argv[1], "simulate", name, "--ranks", "4", "--microbatches", "8", "--unit", unit, "--json"],
                         capture_output=True, check=True).stdout
    return json.loads(out)["makespan_ns"]
ranges = [0.0, *points, points[-1] * 2]
plain_is_shorter = False
for low, high in zip(ranges, ranges[1:]):
    c = 0.1 * (low + high) / 2
    found = step("1f1b", c, 1) < step("interleaved-1f1b:chunks=2", c, 2)
    assert found == plain_is_shorter, (low, high)
    plain_is_shorter = not plain_is_shorter
END
expect_exit 0 "${against[@]}" --over transfers --added
expect_json 'd["break_even"][0]["unit"] == "added_ns"'
expect_exit 0 "${against[@]}"
expect_json '{b["group"] for b in d["break_even"]} == {"F", "B", "SEND_F", "SEND_B", "compute", "transfers"}'
# A schedule and itself.
expect_exit 0 sensitivity 1f1b --against 1f1b --ranks 2 --microbatches 4 --unit F=1,B=2,c=1
expect_out "both take as long"

# A model: what its network takes, and the whole step.
model=(--model llama3-70b --cluster dgx-h100 --nodes 8 --tp 8 --pp 4 --dp 2 --global-batch-size 64)
expect_exit 0 sensitivity 1f1b "${model[@]}" --json
expect_json '{"network-byte", "compute"} <= {g["group"] for g in d["groups"]}'
expect_json 'all(g["step_1_percent_less_ns"] <= d["step_ns"] <= g["step_1_percent_more_ns"] for g in d["groups"])'
expect_json '[g["step_1_percent_less_ns"] for g in d["groups"] if g["group"] == "compute"][0] > 0.99 * d["step_ns"]'
expect_json 'all(0 <= g["factor"]["slope_below"] <= g["factor"]["slope_above"] <= d["step_ns"] for g in d["groups"])'

# Questions that it cannot answer.
expect_error 2 "needs costs" "" sensitivity 1f1b --ranks 2 --microbatches 2
expect_error 2 "no cost group" "found G" sensitivity 1f1b --against gpipe --over G --ranks 2 --microbatches 2 --unit F=1
expect_error 2 "neither schedule has anything" "found rank:7" sensitivity 1f1b --against gpipe --over rank:7 --ranks 2 --microbatches 2 --unit F=1
expect_exit 2 sensitivity 1f1b --over F --ranks 2 --microbatches 2 --unit F=1
expect_exit 2 sensitivity 1f1b --by gpu --ranks 2 --microbatches 2 --unit F=1
cat >beside.json <<'END'
{"format": "ppsim-tables", "version": 1, "costs": [
  {"kind": "F", "ns": 4, "ns_beside_transfers": 8}, {"kind": "SEND_F", "ns": 1}]}
END
expect_error 2 "times are no longest paths" "found ns_beside_transfers" \
  sensitivity forward-only --ranks 2 --microbatches 2 --costs beside.json --transport nccl
expect_exit 0 sensitivity forward-only --ranks 2 --microbatches 2 --costs beside.json
