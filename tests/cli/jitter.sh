#!/usr/bin/env bash
# Steps whose costs vary: closed forms, the same bits again, and which rank to replace.
source "$(dirname "$0")/support/lib.sh"

# Computation for padding is idle time, as in simulate, and the bubble is that of the pipeline.
bubble_of() { python3 -c 'import json; d = json.load(open("stdout")); print(d["bubble_fraction"]["mean"] if "bubble_fraction" in d and isinstance(d["bubble_fraction"], dict) else d["bubble_fraction"])'; }
padded=(spmd-gpipe --ranks 4 --microbatches 8 --unit F=1,B=2,c=0.1)
modelled=(1f1b --model llama3-8b --cluster dgx-h100 --tp 2 --pp 4 --global-batch-size 8)
for what in padded modelled; do
  declare -n words=$what
  expect_exit 0 simulate "${words[@]}" --json
  plain=$(bubble_of)
  expect_exit 0 jitter "${words[@]}" --slow-rank 0=1 --json
  expect_json "abs(d['bubble_fraction']['mean'] - $plain) < 1e-9"
done

step=(--ranks 4 --microbatches 8 --unit F=1,B=2,c=0.1)

# A spread of nothing is the plan, to the nanosecond, whatever its shape.
for spread in normal:0 lognormal:0 gamma:0 list:1 lognormal:0:0.9; do
  expect_exit 0 jitter 1f1b "${step[@]}" --vary all=$spread --samples 20 --json
  expect_json 'd["planned_step_ns"] == 34600000 and {d["step_ns"][k] for k in d["step_ns"]} == {34600000}'
done

# One rank: its step is the sum of its actions, so of 64 that vary by 10 % the sum varies by 10 % / 8 of the mean.
# The interval of the mean holds it for 95 of 100 seeds: of 20, for 19 in the mean.
held=0
for seed in $(seq 20); do
  expect_exit 0 jitter 1f1b --ranks 1 --microbatches 64 --unit F=1,B=0 --vary F=lognormal:0.1 --samples 4000 --seed "$seed" --json
  expect_json 'abs(d["step_ns"]["mean"] / 64e6 - 1) < 0.001'
  python3 -c 'import json, sys; d = json.load(open("stdout"))["step_ns"]; sys.exit(not d["mean_low"] < 64e6 < d["mean_high"])' && held=$((held + 1))
done
[ "$held" -ge 17 ] || fail "the interval of the mean held it for $held of 20 seeds"
expect_json 'abs((d["step_ns"]["p95"] / 64e6 - 1) / (1.645 * 0.1 / 8) - 1) < 0.1'
# Fully correlated factors do not average out.
expect_exit 0 jitter 1f1b --ranks 1 --microbatches 64 --unit F=1,B=0 --vary F=lognormal:0.1:0.999 --samples 2000 --json
expect_json 'd["step_ns"]["p95"] / 64e6 > 1.12'
# A list: half of the actions take twice as long.
expect_exit 0 jitter 1f1b --ranks 1 --microbatches 64 --unit F=1,B=0 --vary F=list:1,2 --samples 2000 --json
expect_json 'abs(d["step_ns"]["mean"] / 96e6 - 1) < 0.01'

# The same seed, the same bits, on one thread and on three.
varied=(jitter 1f1b "${step[@]}" --vary compute=gamma:0.2:0.5 --vary transfers=lognormal:1 --vary-ranks normal:0.05 --samples 300)
expect_exit 0 "${varied[@]}" --jobs 1 --json
cp stdout one
expect_exit 0 "${varied[@]}" --jobs 3 --json
cmp -s stdout one || fail "three threads gave other bits"
expect_exit 0 "${varied[@]}" --seed 2 --json
cmp -s stdout one && fail "another seed gave the same bits"
# These are the numbers of every machine.
expect_exit 0 jitter 1f1b --ranks 2 --microbatches 2 --unit F=1,B=2 --vary F=gamma:0.2:0.5 --vary B=lognormal:0.1 \
  --vary-ranks normal:0.05 --samples 3 --json
expect_json '[round(d["step_ns"][k]) for k in ("mean", "p50", "p99")] == [8427973, 8169068, 9362059]'

# A slow rank: the last one takes every action in turn. Replaced, the step is as planned.
expect_exit 0 jitter 1f1b "${step[@]}" --slow-rank 3=1.2 --json
expect_json 'd["samples"] == 1 and d["replace_rank"] == 3 and d["per_rank"][3]["factor"] == 1.2'
expect_json 'd["step_ns"]["mean"] - d["per_rank"][3]["gain_ns"] == 34600000'
expect_json '[r["gain_ns"] for r in d["per_rank"]][:3] == [0, 0, 0]'
expect_exit 0 jitter 1f1b "${step[@]}" --slow-rank 3=1.2
expect_out "Replace rank 3: without its factor of 1.2 the mean step is"
expect_exit 0 jitter 1f1b "${step[@]}" --vary-ranks lognormal:0.1 --slow-rank 3=1.5
expect_out "with a factor that is always 1 the mean step is"
# Ranks that are alike are not told apart by chance, and a gain may be chance.
for seed in 1 2 3 4 5 6; do
  expect_exit 0 jitter 1f1b "${step[@]}" --vary-ranks lognormal:0.1 --seed $seed --json
  expect_json 'd["replace_rank"] is None and all(r["gain_error_ns"] > 0 for r in d["per_rank"])'
done
expect_exit 0 jitter gpipe --ranks 1 --microbatches 1 --unit F=1,B=2 --vary-ranks normal:0.1 --seed 2 --json
expect_json 'd["replace_rank"] is None and abs(d["per_rank"][0]["gain_ns"]) <= 2 * d["per_rank"][0]["gain_error_ns"]'
# One sample tells nothing, and of two ranks that are as slow none stands out.
expect_exit 0 jitter 1f1b "${step[@]}" --vary-ranks lognormal:0.1 --samples 1 --seed 3 --json
expect_json 'd["replace_rank"] is None'
expect_exit 0 jitter forward-only "${step[@]}" --slow-rank 0=1.2 --slow-rank 1=1.2 --json
expect_json 'd["replace_rank"] is None and d["per_rank"][0]["gain_ns"] == d["per_rank"][1]["gain_ns"]'
# Idle times are the bubble's, without the end of the step.
expect_exit 0 jitter 1f1b --model llama3-8b --cluster dgx-h100 --nodes 2 --pp 1 --tp 2 --dp 8 --global-batch-size 64 --slow-rank 0=1 --json
expect_json 'd["per_rank"][0]["mean_idle_ns"] == 0 and d["bubble_fraction"]["mean"] == 0'
# A slow link is its transfers' alone: as a table says it.
expect_exit 0 jitter gpipe "${step[@]}" --slow-link 1-2=3 --json
expect_json 'd["step_ns"]["mean"] == 33000000 + 6 * 100000 + 2 * 200000 and d["replace_rank"] is None'
# Factors multiply, and a faster rank is one, too.
expect_exit 0 jitter 1f1b "${step[@]}" --slow-rank 0=1.5 --slow-rank 0=2 --json
expect_json 'd["per_rank"][0]["factor"] == 3'

expect_exit 0 jitter 1f1b --ranks 2 --microbatches 2 --unit F=0,B=0 --vary all=normal:1 --samples 2
expect_out "A step that takes no time has nothing that varies."

# Invalid options.
expect_error 2 "nothing differs from the plan" "" jitter 1f1b "${step[@]}"
expect_error 2 "no spread of factors" "found uniform:1" jitter 1f1b "${step[@]}" --vary F=uniform:1
expect_error 2 "no spread of factors" "found lognormal:3" jitter 1f1b "${step[@]}" --vary-ranks lognormal:3
expect_error 2 "no cost group" "found X" jitter 1f1b "${step[@]}" --vary X=normal:1
expect_error 2 "nothing of this cost group" "found W" jitter 1f1b "${step[@]}" --vary W=normal:1
expect_error 2 "a slow rank that the Program does not have" "found 4" jitter 1f1b "${step[@]}" --slow-rank 4=2
expect_error 2 "a slow link that the Program does not have" "found 0-3" jitter 1f1b "${step[@]}" --slow-link 0-3=2
expect_error 2 "needs a value" "found 3" jitter 1f1b "${step[@]}" --slow-rank 3
expect_error 2 "a factor out of range" "" jitter 1f1b "${step[@]}" --slow-rank 3=-1
expect_error 2 "needs costs" "" jitter 1f1b --ranks 2 --microbatches 2 --vary all=normal:0.1
