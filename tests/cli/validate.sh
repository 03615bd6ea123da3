#!/usr/bin/env bash
# ppsim validate: errors by row and group, every row listed, and files that are none.
source "$(dirname "$0")/support/lib.sh"

cat >node.csv <<'END'
model,layers,tp,pp,dp,cp,ep,seq,microbatches,step_ms,allocated_gib,allocated_mb_per_rank
llama3-70b,12,1,2,4,1,1,4096,4,843.0,66.55,68149.2 68147.3 68146.3 68146.3 64479.5 64478.5 64478.7 64478.5
deepseek-v2,4,1,1,8,1,8,4096,4,366.6,45.63,
END
cat >published.csv <<'END'
stack,source,model,system,gpus,precision,gbs,mbs,seq,tp,pp,metric,value
torchtitan,here,llama3-8b,dgx-h100,8,bf16,16,1,8192,1,1,tokens/s/GPU,6000
,here,mamba-3b,dgx-h100,8,bf16,16,1,8192,1,1,tokens/s/GPU,6000
,here,llama3-8b,dgx-h100,,bf16,16,1,8192,1,1,iter_seconds,3
END

expect_exit 0 validate node.csv published.csv --json
expect_json 'set(d) == {"rows", "groups", "all", "memory", "fitted_constants", "sourced_constants"}'
expect_json 'len(d["rows"]) == 5 and d["all"]["n"] == 3 and len(d["memory"]["rows"]) == 3'
expect_json 'all(("error_percent" in r) != ("reason" in r) for r in d["rows"] + d["memory"]["rows"])'
expect_json 'd["rows"][2]["source"] == "here" and d["rows"][2]["stack"] == "torchtitan" and d["rows"][2]["row"] == 2'
expect_json 'abs(d["rows"][2]["measured_s"] - 16 * 8192 / 48000) < 1e-9'
expect_json 'abs(d["rows"][0]["error_percent"] - (d["rows"][0]["simulated_s"] / 0.843 - 1) * 100) < 1e-9'
expect_json 'd["rows"][3]["reason"].startswith("the model is not a transformer")'
expect_json 'd["rows"][4]["reason"] == "not given: the number of GPUs"'
expect_json 'd["memory"]["rows"][1]["rank"] == 1 and d["memory"]["rows"][1]["measured_bytes"] == 64479.5 * 2**20'
expect_json 'set(d["all"]) == {"n", "mean_percent", "bias_percent", "median_percent", "p95_percent", "max_percent", "within_5_percent", "within_10_percent"}'
expect_json '{"B200 node dense", "mixture of experts", "source here", "dense h100-sxm-80gb bf16"} <= {g["name"] for g in d["groups"]}'
expect_json 'all(c["source"] for c in d["fitted_constants"] + d["sourced_constants"])'

expect_exit 0 validate node.csv published.csv
expect_out "Not simulated:"
expect_out "  the model is not a transformer: mamba-3b has layers of a state-space model"
expect_out "    here, mamba-3b, 8 GPUs, tp 1 pp 1, tokens/s/GPU"
expect_out "Allocated memory, GiB"
expect_out "Constants with a source:"
expect_out "Furthest off is the step of "
expect_exit 0 validate --groups node.csv
expect_out "B200 node dense"
if grep -q "Not simulated" stdout; then fail "rows in spite of --groups"; fi

# Values of the column `stack`.
expect_exit 0 list stacks --json
expect_json 'next(s for s in d["stacks"] if s["name"] == "torchtitan")["gradient_bytes"] == 2'
expect_json 'next(s for s in d["stacks"] if s["name"] == "nemo-mixture")["split_experts"]'

# The constants fitted again: to nothing of these rows but the one on H100, and without its source to none.
expect_exit 0 validate published.csv --refit --json
expect_json 'd["refit"]["fitted_to"] == 1 and [s["fitted_to"] for s in d["refit"]["sources"]] == [0]'
expect_json 'set(d["refit"]["constants"]) == {c["name"] for c in d["fitted_constants"]}'
expect_json 'd["refit"]["dense"]["n"] == 1 and "dense leave-one-source-out" in {g["name"] for g in d["groups"]}'
expect_exit 0 validate published.csv --refit --groups -o refit.md
expect_out "(constants as they are)"
grep -qF "## Without each source" refit.md || fail "refit.md"

# Effects: without them nothing is said of them; the same rows again, with how many are nearer.
expect_exit 0 validate node.csv published.csv --effects links,transfers --json
expect_json 'd["effects"]["links"] and d["effects"]["transfers"] and not d["effects"]["collectives"]'
expect_json 'len(d["effects"]["rows"]) == len(d["rows"]) and d["effects"]["all"]["n"] == d["all"]["n"]'
expect_json 'all(a["simulated_s"] is None or a["simulated_s"] <= b["simulated_s"] for a, b in zip(d["rows"], d["effects"]["rows"]))'
expect_exit 0 validate published.csv --effects collectives --refit --groups
expect_out "without -> with the effects"
expect_out "rows are at least 0.1 points nearer to what was measured, and"
expect_error 2 "unknown effect in --effects" "links, transfers, collectives" validate node.csv --effects links,jitter

# A page and a picture beside the result; no row is in the page with --groups.
expect_exit 0 validate node.csv published.csv -o page.md -o picture.svg --json
expect_json 'len(d["rows"]) == 5'
grep -qF '| here | mamba-3b, 8 GPUs, tp 1 pp 1, tokens/s/GPU | the model is not a transformer' page.md || fail "page.md"
grep -qF '| `kernel_time` |' page.md || fail "constants of page.md"
[ "$(grep -c '<title>' picture.svg)" -eq 6 ] || fail "two points for each simulated step"
expect_exit 0 validate -o page.md --groups node.csv
if grep -q "## Rows" page.md; then fail "rows in spite of --groups"; fi
sed 2d published.csv >reasons.csv
expect_exit 0 validate reasons.csv -o picture.svg
expect_error 2 "page.txt" ".svg" validate node.csv -o page.txt

expect_exit 0 validate reasons.csv
expect_out "No step could be simulated"

printf 'a,b\n1,2\n' >other.csv
expect_error 2 "other.csv:1" "tokens_per_s_per_gpu" validate node.csv other.csv
: >empty.csv
expect_error 2 "empty.csv" "the file is empty" validate empty.csv
sed 's/843.0/fast/' node.csv >bad.csv
expect_error 2 "bad.csv:2:10" "found fast" validate bad.csv
expect_error 2 "missing.csv" "missing.csv" validate missing.csv
expect_exit 2 validate

# The published measurements: nothing is fitted to stage times that are given, and no row is dropped.
measured=$data/../../studies/accuracy/data
expect_exit 0 validate "$measured"/*.csv --json
expect_json 'len(d["rows"]) + sum("rank" not in r for r in d["memory"]["rows"]) >= 4 + 27 + 22 + 46 + 55'
expect_json 'next(g for g in d["groups"] if g["name"] == "stage times given")["mean_percent"] < 0.6'
expect_json 'next(g for g in d["groups"] if g["name"] == "stage times given")["max_percent"] < 1.0'
