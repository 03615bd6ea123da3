#!/usr/bin/env bash
# compare: the same work per rank, inputs that do not fit as rows, and the bubble of the longest rank.
source "$(dirname "$0")/support/lib.sh"
sched=(--ranks 4 --microbatches 8)

# Two chunks have half the model each: the step is that of the closed form, and 1F1B loses.
expect_exit 0 compare 1f1b gpipe --ranks 2 --microbatches 4 --unit F=1,B=2
expect_out "live (stage, microbatch) of it"
expect_exit 0 compare 1f1b seq-1f1b:slices=3 --ranks 2 --microbatches 4 --unit F=1,B=2
expect_out "live (stage, microbatch, slice) of it"
expect_exit 0 compare 1f1b interleaved-1f1b:chunks=2 zb-v dualpipe "${sched[@]}" --unit F=1,B=2,A=8 --per rank --json
expect_json 'd["best"] != "1f1b" and [round(s["relative_work"], 6) for s in d["schedules"]] == [1, 1, 1, 1]'
expect_json 'd["schedules"][0]["makespan_ns"] == 33000000 and d["schedules"][1]["makespan_ns"] == 28500000'
expect_json 'all(sum(r["busy_ns"] for r in s["per_rank"]) == 96000000 for s in d["schedules"])'
# Slices of a microbatch share its work, its activations and its messages: (m K + p - 1) (F + B) / K.
expect_exit 0 compare 1f1b seq-1f1b:slices=4 terapipe:slices=4 "${sched[@]}" --unit F=1,B=2,A=1e9 --per rank --json
expect_json '[s["makespan_ns"] for s in d["schedules"]] == [33000000, 26250000, 26250000]'
expect_json '[s["peak_bytes"] for s in d["schedules"]] == [4000000000, 1750000000, 8000000000]'
expect_exit 0 compare gpipe terapipe:slices=4 --ranks 2 --microbatches 1 --unit F=4,B=8,c=4 --per rank --json
expect_json '[s["makespan_ns"] for s in d["schedules"]] == [32000000, 17000000]'
# A third of a hundred bytes is none.
expect_exit 0 compare 1f1b interleaved-1f1b:chunks=3 "${sched[@]}" --unit F=1,B=2,A=100e6 --per rank --json
expect_json '[s["peak_bytes"] for s in d["schedules"]] == [400000000, 15 * 33333333]'
expect_exit 0 compare 1f1b interleaved-1f1b:chunks=3 "${sched[@]}" --unit F=1,B=2,A=100 --per rank
expect_out "no whole number of bytes for each action (found A=100 in 3 parts"
expect_error 2 "not a whole number of bytes" "found A=0.9" compare 1f1b "${sched[@]}" --unit F=1,A=0.9
expect_exit 0 compare 1f1b interleaved-1f1b:chunks=2 "${sched[@]}" --unit F=1,B=2
expect_out "--per rank gives every rank the same share"
expect_exit 2 compare 1f1b "${sched[@]}" --model llama3-8b --cluster dgx-h100 --pp 4 --tp 2 --global-batch-size 8 --per rank
expect_err "--per rank is for --unit"
expect_exit 2 compare 1f1b "${sched[@]}" --unit F=1 --per chunk

# gpipe does not fit whatever it recomputes, 1f1b does.
job=(--model llama3-70b --cluster dgx-h100 --nodes 4 --tp 8 --pp 4 --global-batch-size 2400 --recompute adaptive)
expect_exit 0 compare gpipe 1f1b "${job[@]}"
expect_out "gpipe: does not fit: "
expect_out "Fastest that fits: 1f1b"
expect_exit 0 compare gpipe 1f1b "${job[@]}" --json
expect_json 'd["misfits"][0]["schedule"] == "gpipe" and len(d["schedules"]) == 1 and d["best"] == "1f1b"'
expect_exit 3 compare gpipe "${job[@]}"

# Nor does a schedule that cannot be made for these ranks, or has more stages than the model has layers.
expect_exit 0 compare 1f1b chimera zb-v --ranks 3 --microbatches 6 --unit F=1,B=2
expect_out "chimera: cannot be made: "
expect_out "ranks must be even"
expect_exit 0 compare interleaved-1f1b:chunks=7 1f1b --model llama3-8b --cluster dgx-h100 --nodes 1 --pp 8 --global-batch-size 16 --json
expect_json 'd["misfits"][0]["schedule"] == "interleaved-1f1b:chunks=7" and [s["schedule"] for s in d["schedules"]] == ["1f1b"]'
# An error of the command line ends the comparison: one that all inputs have, an unknown name, an option given twice.
expect_error 2 "ranks must be even" "" compare chimera --ranks 3 --microbatches 6 --unit F=1,B=2
expect_error 2 "no schedule \"1f2b\"" "" compare 1f1b 1f2b --ranks 3 --microbatches 6 --unit F=1,B=2
expect_error 2 "given twice" "" compare 1f1b 1f1b:microbatches=4 --ranks 4 --microbatches 8 --unit F=1,B=2
