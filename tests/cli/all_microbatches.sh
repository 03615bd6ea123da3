#!/usr/bin/env bash
# verify --all-microbatches: every number of microbatches at once, and without --ranks every number of ranks.
source "$(dirname "$0")/support/lib.sh"

expect_exit 0 verify zb-h1 --ranks 4 --all-microbatches --transport in-process
expect_out "m = 1, 2, 3, ...: the periodic program that equals the generated one at m = 1.."
expect_out "as these, by how the schedule is made, where they were not compared"
expect_out "Every property holds for every number of microbatches. Those that were not compared"

expect_exit 0 verify 1f1b --ranks 4 --all-microbatches --unit F=1,B=2,A=10 --json
expect_json 'd["properties"]["deadlock_free"]["method"] == "ranking"'
expect_json '[w["bytes"] for w in d["worst_case_memory"]] == [40, 30, 20, 10]'
expect_json 'all(w["bytes_per_period"] == 0 for w in d["worst_case_memory"])'
expect_json 'd["all_microbatches"]["not_covered"] == [] and d["transport"] == "any"'
expect_json 'd["all_microbatches"]["compared_to"] >= 64 and d["all_microbatches"]["repeats_from"] == d["all_microbatches"]["compared_to"] + 1'

# Of what nothing is known beyond the numbers that were compared, nothing is proved: a period that a setting decides, an
# order searched under costs, an order of time in which one rank goes ahead of another.
unknown="it is not known that the Programs of more go on like that"
expect_exit 5 verify interleaved-1f1b --ranks 2 --set group=4 --all-microbatches --json
expect_exit 5 verify zb-greedy --ranks 2 --all-microbatches --unit F=2,I=3,W=1 --properties deadlock_free --json
expect_json 'd["properties"]["deadlock_free"]["holds_up_to"] == d["all_microbatches"]["compared_to"] >= 64'
expect_json "'$unknown' in d['properties']['deadlock_free']['reason'] and 'repeats_from' not in d['all_microbatches']"
expect_exit 5 verify eager-1f1b --ranks 2 --all-microbatches --unit F=1,B=2,A=10 --offload all
expect_out "holds for each m up to "
expect_out "and no limit changes that: verify the one you need"
expect_exit 0 verify gpipe --ranks 4 --all-microbatches --unit F=3,B=7,c=1 --properties deadlock_free
expect_exit 0 verify zb-h1 --ranks 4 --all-microbatches --unit F=3,I=2,W=4,c=0.2 --recompute full --properties deadlock_free
cat >rising.json <<'END'
{"format":"ppsim-tables","version":1,"costs":[
  {"kind":"F","stage":0,"ns":1000},
  {"kind":"F","stage":1,"ns":1001},
  {"kind":"B","stage":0,"ns":2000},
  {"kind":"B","stage":1,"ns":2001},
  {"kind":"SEND_F","stage":0,"peer":1,"ns":0},
  {"kind":"SEND_B","stage":1,"peer":0,"ns":0}
]}
END
expect_exit 5 verify gpipe --ranks 2 --all-microbatches --costs rising.json --properties deadlock_free
expect_out "$unknown"
expect_exit 0 verify gpipe --ranks 2 --all-microbatches --costs rising.json --properties deadlock_free --transport in-process
expect_exit 0 verify 1f1b --ranks 2 --all-microbatches --costs rising.json --properties deadlock_free

# Ordered launches of a rank are followed, too; what is launched behind what differs in warm-up and cool-down.
for transport in any nccl nccl-one-queue; do
  expect_exit 0 verify zb-h1 --ranks 4 --all-microbatches --transport "$transport"
  expect_out "transport $transport: "
  expect_out "deadlock_free        proved   ranking"
done

# A limit that holds up to three microbatches; the fourth has a run that needs more.
expect_exit 3 verify gpipe --ranks 4 --all-microbatches --unit F=1,B=2,A=10 --memory-limit 35
expect_out "memory is refuted, first at m = 4"
expect_exit 3 verify gpipe --ranks 4 --all-microbatches --unit F=1,B=2,A=10 --memory-limit 35 --json
expect_json 'd["properties"]["memory"]["microbatches"] == 4'
expect_json 'd["properties"]["memory"]["counterexample"]["bytes"] == 40'
expect_exit 3 verify gpipe --ranks 4 --microbatches 4 --unit F=1,B=2,A=10 --memory-limit 35
expect_exit 0 verify gpipe --ranks 4 --microbatches 3 --unit F=1,B=2,A=10 --memory-limit 35

# A proof for all ranks needs every number of them: what to do instead is said.
expect_exit 5 verify dualpipe --all-microbatches
expect_out "on 1 ranks the schedule accepts no number of microbatches"
expect_out "verify the number you need with --ranks P"

# Two resident kernels hang, three never do.
expect_exit 4 verify 1f1b --ranks 4 --all-microbatches --resident 2
expect_out "deadlock_free is refuted, first at m = 4"
expect_out "has in flight: "
expect_out " waits for rank "
expect_out "(none of the rank's places is free before it completes)"
expect_exit 4 verify 1f1b --ranks 4 --microbatches 4 --resident 2 --json
expect_json 'd["properties"]["deadlock_free"]["counterexample"]["residency"] == 2'
expect_json 'len(d["properties"]["deadlock_free"]["counterexample"]["resident"]) >= 2'
expect_json 'all(w["waits_for"]["action"] and w["why"] for w in d["properties"]["deadlock_free"]["counterexample"]["waits"])'
expect_exit 0 verify 1f1b --ranks 4 --all-microbatches --resident 3 --json
expect_json 'd["properties"]["deadlock_free"]["method"] == "smt"'
expect_exit 5 verify 1f1b --ranks 8 --all-microbatches --resident 3 --timeout 0.001

# Far more ranks than a test of every Program could take; what is left out then is the option to raise.
expect_exit 0 verify 1f1b --ranks 256 --all-microbatches --properties deadlock_free --transport in-process
expect_out "proved   ranking"
for format in "" --json; do
  expect_exit 5 verify 1f1b --ranks 64 --all-microbatches --sample-limit 1000 $format
done
expect_json '"needs more instructions than may be generated" in d["properties"]["deadlock_free"]["reason"]'
expect_exit 5 verify 1f1b --ranks 64 --all-microbatches --sample-limit 1000
expect_out "Not decided for all numbers: raise --sample-limit, or verify the one you need"
expect_exit 5 verify 1f1b --ranks 2 --all-microbatches --unit F=1,A=1 --transport mpi --buffers 2 --properties memory
expect_out "and no limit changes that: verify the one you need"

# Every number of ranks.
expect_exit 0 verify 1f1b --all-microbatches
expect_out "deadlock_free for all p and all m: proved"
expect_exit 0 verify zb-h2 --all-microbatches --json
expect_json 'd["all_ranks"]["ranks_from"] == 3 and len(d["all_ranks"]["roles"]) == 5'
expect_exit 5 verify interleaved-1f1b --all-microbatches
expect_exit 0 verify forward-only --all-microbatches --transport nccl
expect_out "transport nccl: "
expect_exit 4 verify 1f1b --all-microbatches --resident 2
expect_out "at most 2 operations of a rank in flight"
expect_out "first at p = 3, m = "
expect_exit 0 verify 1f1b --all-microbatches --resident 4
expect_exit 5 verify 1f1b --all-microbatches --transport nccl
expect_out "one periodic program for all microbatches, and on 3 ranks it begins at m = 6"
expect_out "verify the number you need with --ranks P, or ask with --transport in-process."

expect_error 2 "is for a NAME" "" verify 1f1b --ranks 4 --microbatches 8 --all-microbatches
expect_error 2 "without --ranks" "" verify 1f1b --all-microbatches --properties deadlock_free
expect_error 2 "no schedule" "" verify nosuch --ranks 4 --all-microbatches
expect_error 2 "without a method" "" verify 1f1b --ranks 4 --all-microbatches --properties well_formed
