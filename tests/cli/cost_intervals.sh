#!/usr/bin/env bash
# The time of a step for all costs in intervals, alone and against another schedule.
source "$(dirname "$0")/support/lib.sh"
job=(--ranks 4 --microbatches 8)

# 1F1B takes (m + p - 1) (F + B): 33 at F = 1, B = 2.
expect_exit 0 verify 1f1b "${job[@]}" --unit F=1,B=2 --makespan-limit 33ms --json
expect_json 'd["properties"]["makespan"]["verdict"] == "proved" and d["properties"]["makespan"]["method"] == "longest path"'
expect_json 'd["makespan_ns"] == {"least": 33000000, "most": 33000000} and d["makespan_limit_ns"] == 33000000'
expect_exit 4 verify 1f1b "${job[@]}" --unit F=1,B=2 --makespan-limit 33ms --spread 10% --json
expect_json 'd["makespan_ns"] == {"least": 29700000, "most": 36300000}'
expect_json 'd["properties"]["makespan"]["counterexample"]["costs_ns"]["F"] == 1100000'
expect_json 'd["properties"]["makespan"]["counterexample"]["makespan_ns"] == 36300000'
expect_json 'd["properties"]["makespan"]["counterexample"]["critical_path"][0] == {"rank": 0, "index": 0, "action": "0F0", "start_ns": 0, "end_ns": 1100000}'
expect_exit 4 verify 1f1b "${job[@]}" --for-all F=1..1.5,B=2 --makespan-limit 33ms
expect_out "the step takes 38500000 ns, limit 33000000"
expect_out "rank 0: 0F0 from 0 to 1500000 ns"
expect_out "The step takes from 33.00 ms to 38.50 ms"
expect_out "can take longer than the limit"
expect_exit 0 verify 1f1b "${job[@]}" --for-all F=1..1.5,B=2 --properties makespan --json
expect_json 'list(d["properties"]) == ["makespan"] and d["makespan_ns"]["most"] == 38500000'
expect_exit 4 verify 1f1b "${job[@]}" --unit F=1,B=2,A=1 --properties memory --makespan-limit 1ms --json
expect_json 'list(d["properties"]) == ["memory", "makespan"]'
expect_exit 0 verify 1f1b "${job[@]}" --unit F=1,B=2 --json
expect_json '"makespan" not in d["properties"] and "makespan_ns" not in d'

# The counterexample is what the simulator says.
expect_exit 0 simulate 1f1b "${job[@]}" --unit F=1.1,B=2.2 --json
expect_json 'd["makespan_ns"] == 36300000'

# Tables: each entry for itself.
echo '{"format":"ppsim-tables","version":1,"costs":[{"kind":"F","ns":1000000},{"kind":"B","ns":2000000},{"kind":"SEND_F","ns":0},{"kind":"SEND_B","ns":0}],"sizes":[]}' >costs.json
expect_exit 0 verify 1f1b "${job[@]}" --costs costs.json --makespan-limit 36.3ms --spread 10%

wide=(--for-all F=0.5..2,I=0.5..2,W=0.5..2,c=0..0.1)
expect_exit 0 verify zb-h1 --never-slower-than 1f1b --ranks 16 --microbatches 32 "${wide[@]}" --json
expect_json 'd["never_slower"]["verdict"] == "proved" and d["never_slower"]["method"] == "vertices"'
expect_json 'd["never_slower"]["than"] == "1f1b" and abs(d["never_slower"]["largest_ratio"]["at_most"] - 196.5 / 211.5) < 1e-9'
expect_json 'd["never_slower"]["largest_difference_ns"]["at_most"] == -15000000'
expect_exit 0 verify zb-h1 --never-slower-than 1f1b "${job[@]}" "${wide[@]}"
expect_out "proved: zb-h1 is never slower than 1f1b"
expect_exit 4 verify 1f1b --never-slower-than zb-h1 "${job[@]}" "${wide[@]}"
expect_out "refuted: 1f1b is slower than zb-h1"
expect_exit 4 verify zb-h1 --never-slower-than 1f1b --ranks 4 --microbatches 8 "${wide[@]}" --per-stage --json
expect_json 'd["never_slower"]["counterexample"]["makespan_ns"] > d["never_slower"]["counterexample"]["other_makespan_ns"]'
expect_json 'all(500000 <= d["never_slower"]["counterexample"]["costs_ns"][f"F{s}"] <= 2000000 for s in range(4))'
expect_exit 0 verify 1f1b --never-slower-than gpipe "${job[@]}" --unit F=1,B=2
expect_exit 0 generate gpipe "${job[@]}" -o gpipe.json
expect_exit 0 verify 1f1b --never-slower-than gpipe.json "${job[@]}" --unit F=1,B=2 --spread 5%
expect_exit 5 verify 1f1b --never-slower-than 1f1b --ranks 8 --microbatches 16 "${wide[@]}" --per-stage --timeout 20

# The queries of the comparison are files for other solvers, too.
expect_exit 0 verify 1f1b --never-slower-than gpipe --ranks 3 --microbatches 4 --for-all F=1..2,I=1..2,W=1..2 --per-stage --smt2 queries
ls queries/*path-is-longest.smt2 >/dev/null || fail "no query"
if command -v cvc5 >/dev/null; then
  for query in queries/*.smt2; do
    [ "$(cvc5 -q "$query")" = "$(sed -n 's/(set-info :status \(.*\))/\1/p' "$query")" ] || fail "cvc5 says otherwise: $query"
  done
fi

expect_error 2 "needs costs" "" verify 1f1b "${job[@]}" --makespan-limit 33ms
expect_error 2 "not a time" "33" verify 1f1b "${job[@]}" --unit F=1 --makespan-limit 33
expect_error 2 "not a spread" "10" verify 1f1b "${job[@]}" --unit F=1 --makespan-limit 33ms --spread 10
expect_error 2 "cannot be read" "2..1" verify 1f1b "${job[@]}" --for-all F=2..1 --makespan-limit 33ms
expect_error 2 "--for-all and --spread" "" verify 1f1b "${job[@]}" --for-all F=1..2 --spread 1% --makespan-limit 1ms
expect_error 2 "intervals of costs" "F=1..2" verify 1f1b "${job[@]}" --for-all F=1..2
expect_error 2 "--per-stage" "" verify 1f1b "${job[@]}" --for-all F=1..2 --makespan-limit 1ms --per-stage
expect_error 2 "--all-microbatches" "" verify 1f1b --ranks 4 --all-microbatches --unit F=1 --makespan-limit 1ms
expect_error 2 "question of its own" "" verify 1f1b --never-slower-than gpipe "${job[@]}" "${wide[@]}" --makespan-limit 1ms
expect_error 2 "needs the same" "" verify 1f1b --never-slower-than interleaved-1f1b "${job[@]}" "${wide[@]}"
expect_error 2 "needs the same" "" verify 1f1b:ranks=4,microbatches=8 --never-slower-than gpipe:ranks=4,microbatches=4 "${wide[@]}"
expect_error 2 "needs costs" "" verify 1f1b --never-slower-than gpipe "${job[@]}"
expect_error 2 "no schedule" "nothing" verify 1f1b --never-slower-than nothing "${job[@]}" "${wide[@]}"
