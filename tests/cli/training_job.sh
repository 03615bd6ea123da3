#!/usr/bin/env bash
# From a real training configuration to a proved and executed Program: Llama 3 70B on 8 nodes, TP8 PP4 DP2.
source "$(dirname "$0")/support/lib.sh"
job=(--model llama3-70b --cluster dgx-h100 --nodes 8 --tp 8 --pp 4 --dp 2 --sequence-length 8192 --global-batch-size 128)

expect_exit 0 compare gpipe 1f1b interleaved-1f1b:chunks=2 zb-h1 "${job[@]}" --report compare.html --json
expect_json '[s["schedule"] for s in d["schedules"]] == ["gpipe", "1f1b", "interleaved-1f1b:chunks=2", "zb-h1"]'
expect_json '[s["fits"] for s in d["schedules"]] == [False, True, True, True]'
expect_json 'd["best"] == min((s for s in d["schedules"] if s["fits"]), key=lambda s: s["makespan_ns"])["schedule"]'
expect_json 'all(s["memory_limit_bytes"] == 80 * 10**9 and s["p2p_bytes"] > 0 for s in d["schedules"])'
expect_json 'all(0 < s["model_flops_utilization"] < 1 for s in d["schedules"])'
best=$(python3 -c 'import json; print(json.load(open("stdout"))["best"])')
grep -q "</html>" compare.html || fail "no report"
expect_exit 3 compare gpipe "${job[@]}"
expect_out "does not fit"
# A step that does not fit is simulated all the same.
expect_exit 3 simulate gpipe "${job[@]}" --report gpipe.html
expect_out "It does not fit: 405.93 GB of 80.00 GB"
[ -s gpipe.html ] || fail "no report of what does not fit"
expect_exit 3 simulate gpipe "${job[@]}" --json
expect_json 'not d["fits"] and d["makespan_ns"] > 0'

# The table that README shows, line by line.
expect_exit 0 compare gpipe 1f1b interleaved-1f1b:chunks=2 zb-h1 zb-v v-half v-min chimera dualpipe dualpipe-v "${job[@]}"
python3 - "$data/../../README.md" <<'END' || fail "README shows other figures"
import sys
ends = ("fits", "fit", "80.00 GB", "of it")
table = [line.rstrip() for line in open("stdout") if line.rstrip().endswith(ends)]
assert len(table) == 12 and set(table) <= set(open(sys.argv[1]).read().splitlines()), "\n".join(table)
END

expect_exit 0 lower "$best" "${job[@]}" -o program.json --json
hash=$(python3 -c 'import json; print(json.load(open("stdout"))["program_hash"])')
expect_exit 0 verify program.json "${job[@]}" --certificate proof.json --json
expect_json "d['program_hash'] == '$hash' and all(p['verdict'] == 'proved' for p in d['properties'].values())"
expect_json 'len(d["worst_case_memory"]) == 4 and all(w["bytes"] <= 80 * 10**9 for w in d["worst_case_memory"])'
worst=$(python3 -c 'import json; print([w["bytes"] for w in json.load(open("stdout"))["worst_case_memory"]])')
expect_exit 0 simulate program.json "${job[@]}" --json
expect_json "d['program_hash'] == '$hash' and all(r['peak_bytes'] <= w for r, w in zip(d['per_rank'], $worst))"
expect_exit 0 check-certificate program.json proof.json "${job[@]}"

# The same Program with a small transformer.
expect_exit 0 run program.json --compare --trace trace.json --costs-out measured.json --json
expect_json "d['program_hash'] == '$hash' and d['verified'] and d['gradients_equal'] and d['max_abs_difference'] == 0"
expect_json 'd["high_water_bytes"] <= d["proved_bytes"] <= d["pool_bytes"]'
expect_json 'all(r["high_water_bytes"] <= r["proved_bytes"] <= r["pool_bytes"] for r in d["per_rank"])'
expect_json 'd["measured_step_ns"] > 0 and d["simulated_step_ns"] > 0'
python3 -c 'import json; assert json.load(open("trace.json"))["traceEvents"]' || fail "no trace"
expect_exit 0 simulate program.json --costs measured.json --json
expect_json "d['program_hash'] == '$hash'"
expect_exit 0 run program.json --compare --arithmetic integer --steps 1 --json
expect_json 'd["gradients_equal"]'
expect_exit 0 show program.json "${job[@]}" --format svg -o timeline.svg
grep -q "</svg>" timeline.svg || fail "no picture"

expect_exit 0 doctor --json
expect_json 'd["good"] and all(c["good"] for c in d["checks"])'
for what in schedules models clusters properties policies; do
  expect_exit 0 list $what --json
  expect_json "list(d) == ['$what'] and len(d['$what']) >= 4 and all(i['name'] for i in d['$what'])"
  expect_exit 0 list $what
  [ "$(awk '{ if (length > n) n = length } END { print n }' stdout)" -le 160 ] || fail "a table for nobody's terminal"
done

# Parameters are what a rank holds at once: p versions on the first rank of PipeDream, two with 2BW.
expect_exit 0 compare 1f1b pipedream pipedream-2bw --model llama3-70b --cluster dgx-h100 --nodes 4 --tp 8 --pp 4 \
  --global-batch-size 64 --json
expect_json '[round(s["parameter_bytes"] / d["schedules"][0]["parameter_bytes"], 2) for s in d["schedules"]] == [1, 4, 2]'

# The list says of which models --model knows the costs.
expect_exit 0 list models --json
python3 -c 'import json; [print(m["name"], m["costs"]) for m in json.load(open("stdout"))["models"]]' >models
while read -r name costs; do
  code=2
  [ "$costs" != analytic ] || code=0
  expect_exit $code show 1f1b --model "$name" --cluster dgx-h100 --nodes 1 --tp 1 --pp 8 --global-batch-size 8
done <models
grep -q "^vit-b only --costs" models || fail "a vision transformer has no analytic costs"
