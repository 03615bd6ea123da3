#!/usr/bin/env bash
# A table of --costs has all costs and sizes: a missing entry is an error and not free.
source "$(dirname "$0")/support/lib.sh"

model=layers=4,hidden=16,heads=2,ffn=16,vocab=16,sequence=8
sched=(--ranks 2 --microbatches 4)
expect_exit 0 profile 1f1b "${sched[@]}" --transformer $model --steps 3 -o table.json
lacks() { expect_error 2 "table.json: the table lacks" "$@" --costs table.json; }

# Kinds: a table of 1F1B has neither I nor W, R nor OPT, whatever asks.
halves="no cost of I of stage 0, W of stage 0, expected an entry such as {\"kind\":\"I\",\"ns\":...} and {\"kind\":\"W\",\"ns\":...}, 0 where it is free"
expect_exit 0 generate zb-h1 "${sched[@]}" -o zb.json
expect_exit 0 lower zb.json -o zb-program.json
for input in zb.json zb-program.json "zb-h1 ${sched[*]}"; do
  for command in simulate show verify compare run "run --backend emulated" "lower -o out.json"; do
    lacks "$halves" $command $input
  done
done
lacks "$halves" compare 1f1b zb-h1 gpipe "${sched[@]}"
lacks "$halves" verify 1f1b --never-slower-than zb-h1 "${sched[@]}" --spread 10%
lacks "$halves" verify zb-h1 --ranks 2 --all-microbatches
lacks "$halves" verify zb-h1 "${sched[@]}" --smt2 queries
lacks "no cost of I of stage 0" generate zb-greedy "${sched[@]}" -o out.json
lacks "no cost of I of stage 0" synthesize "${sched[@]}" --activation-limit 2 -o out.json
lacks "no cost of R of stage 0" simulate 1f1b "${sched[@]}" --recompute full
lacks "no cost of OPT of block 0" lower 1f1b "${sched[@]}" --with opt -o out.json
lacks "no cost of REDUCE_GRAD of block 0" lower 1f1b "${sched[@]}" --replicas 2 -o out.json
lacks "no cost of OFFLOAD of stage 0, RELOAD of stage 0" verify 1f1b "${sched[@]}" --offload all
[ ! -e out.json ] || fail "written in spite of it"
expect_exit 2 verify 1f1b zb-h1 "${sched[@]}" --costs table.json
grep -q "zb-h1 .*lacks the costs" stdout || fail "one row of two"
grep -q "1f1b .*proved" stdout || fail "the other row"
expect_exit 0 verify 1f1b --ranks 2 --microbatches 8 --costs table.json --certificate proof.json
lacks "no cost of I of stage 0" check-certificate zb-program.json proof.json

# Stages, slices and pairs of stages.
for command in simulate show verify "verify --memory-limit 36MB" compare; do
  lacks "no cost of F of stage 2, B of stage 2" $command 1f1b --ranks 8 --microbatches 8
done
lacks "no cost of F of stage 0, slice 1" simulate seq-1f1b --slices 2 "${sched[@]}"
table() { printf '{"format":"ppsim-tables","version":1,"costs":[%s],"sizes":[%s]}' "$1" "${2-}" >table.json; }
table '{"kind":"F","ns":1000000},{"kind":"B","ns":2000000}'
lacks "no cost of SEND_F of stage 0 with peer 1, SEND_B of stage 1 with peer 0" simulate 1f1b "${sched[@]}"
costs='{"kind":"F","ns":1000000},{"kind":"B","ns":2000000},{"kind":"SEND_F","ns":0},{"kind":"SEND_B","ns":0}'
table "$costs"
expect_exit 0 simulate 1f1b "${sched[@]}" --costs table.json --json
expect_json 'd["makespan_ns"] == 15000000'
lacks "no cost of COLL of collective 0" simulate vocab-1 "${sched[@]}"

# Sizes: none is unknown, one of a stage asks for those of the others.
for known in "--costs table.json null" "--unit F=1 null" "--unit F=1,A=1000 2000"; do
  expect_exit 0 simulate 1f1b "${sched[@]}" ${known% *} --json
  case $known in
    *null) expect_json 'all(r[k] is None for r in d["per_rank"] for k in ("peak_bytes", "peak_at_ns", "sent_bytes", "reserved_bytes"))' ;;&
    *null) expect_json 'd["peak_bytes"] is None and d["p2p_bytes"] is None' ;;
    *) expect_json 'd["peak_bytes"] == 2000 and d["per_rank"][1]["peak_bytes"] == 1000' ;;
  esac
done
expect_exit 0 simulate 1f1b "${sched[@]}" --costs table.json
[ "$(grep -cE ' -  +[12]  +-$' stdout)" -eq 2 ] || fail "sizes that nothing says"
expect_exit 0 compare 1f1b gpipe "${sched[@]}" --costs table.json --report sizes.html
[ "$(grep -cE ' -  +[0-9]+  +-  +-$' stdout)" -eq 2 ] || fail "sizes that nothing says"
[ "$(grep -o '"sizesKnown":false' sizes.html | wc -l)" -eq 2 ] || fail "sizes that nothing says on the page"
expect_exit 0 compare 1f1b gpipe "${sched[@]}" --costs table.json --json
expect_json 'all(s[k] is None for s in d["schedules"] for k in ("peak_bytes", "p2p_bytes", "parameter_bytes"))'
# Sizes of activations say nothing of messages and parameters.
expect_exit 0 compare 1f1b gpipe "${sched[@]}" --unit F=1,A=1000 --json
expect_json 'all(s["peak_bytes"] and s["p2p_bytes"] is None and s["parameter_bytes"] is None and s["per_rank"][0]["sent_bytes"] is None for s in d["schedules"])'
expect_exit 0 compare 1f1b gpipe "${sched[@]}" --unit F=1,A=1000
[ "$(grep -cE ' kB +[0-9]+  +-  +-$' stdout)" -eq 2 ] || fail "bytes of messages that nothing says"
# One rank sends nothing.
expect_exit 0 simulate 1f1b --ranks 1 --microbatches 2 --unit F=1,A=1000 --json
expect_json 'd["p2p_bytes"] == 0'
# Nor are they known from what was written without.
expect_exit 0 generate 1f1b "${sched[@]}" --unit F=1 -o s.json --costs-out unit.json
expect_exit 0 simulate s.json --costs unit.json --json
expect_json 'd["peak_bytes"] is None'
expect_error 2 "memory needs sizes" "" verify 1f1b "${sched[@]}" --costs table.json --memory-limit 1GB
saved='{"tensor":"saved_for_weight","stage":0,"bytes":1000}'
table "$costs" "$saved"
lacks 'no size of saved_for_weight of stage 1, expected an entry such as {"tensor":"saved_for_weight","bytes":...}' \
  verify 1f1b "${sched[@]}" --memory-limit 1GB
table "$costs" "$saved,{\"tensor\":\"saved_for_weight\",\"stage\":1,\"bytes\":0},{\"tensor\":\"workspace\",\"op\":\"B\",\"bytes\":7}"
expect_exit 0 simulate 1f1b "${sched[@]}" --costs table.json --json
expect_json '[r["peak_bytes"] for r in d["per_rank"]] == [2007, 7]'

# Tables that ppsim writes have every entry.
for saving in "--recompute full" "--offload half"; do
  expect_exit 0 run 1f1b "${sched[@]}" --transformer $model $saving --with opt --steps 2 --costs-out table.json
  expect_exit 0 run 1f1b "${sched[@]}" --backend emulated $saving --with opt --costs table.json
done
for name in zb-v dualpipe-v bpipe pipedream-2bw; do
  expect_exit 0 profile $name --ranks 4 --microbatches 8 --transformer layers=8,heads=2,hidden=16,ffn=16,vocab=16,sequence=8 \
    --steps 2 -o table.json
  expect_exit 0 verify $name --ranks 4 --microbatches 8 --costs table.json
done
expect_exit 0 generate vocab-1 "${sched[@]}" --unit F=1,B=2,c=0.1,A=1e6 -o v.json --costs-out table.json
expect_exit 0 simulate v.json --costs table.json --offload all

# With units, and with a model, actions without a cost are free: they are named.
names='UNSHARD", "RESHARD", "REDUCE_GRAD", "OPT'
line="free of cost, no price is given: UNSHARD, RESHARD, REDUCE_GRAD, OPT"
expect_exit 0 lower 1f1b "${sched[@]}" --with unshard,reduce-grad,opt -o extras.json
expect_exit 0 simulate extras.json --unit F=1
expect_out "$line"
expect_exit 0 simulate extras.json --unit F=1 --json
expect_json "d['free_of_cost'] == [\"$names\"]"
expect_exit 0 compare extras.json 1f1b "${sched[@]}" --unit F=1
expect_out "free of cost, no price is given: OPT, REDUCE_GRAD, RESHARD, UNSHARD"
expect_exit 0 compare extras.json 1f1b "${sched[@]}" --unit F=1 --json
expect_json "[s['free_of_cost'] for s in d['schedules']] == [[\"$names\"], []]"
expect_exit 0 verify extras.json --unit F=1 --properties makespan
expect_out "$line"
expect_exit 0 run extras.json --backend emulated --unit F=1 --steps 1
expect_out "$line"
expect_exit 0 run extras.json --backend emulated --unit F=1 --steps 1 --json
expect_json "d['free_of_cost'] == [\"$names\"]"
for priced in "1f1b ${sched[*]} --unit F=1,B=2" "1f1b ${sched[*]} --recompute full --unit F=1"; do
  expect_exit 0 simulate $priced
  ! grep -q "free of cost" stdout || fail "free: $priced"
done
model_of=(--model llama3-8b --cluster dgx-h100 --nodes 1 --tp 2 --pp 2 --dp 2 --global-batch-size 4)
expect_exit 0 lower 1f1b "${model_of[@]}" --with unshard,reduce-grad,opt -o extras.json
expect_exit 0 simulate extras.json "${model_of[@]}"
expect_out "free of cost, no price is given: "

# A transfer's cost stands under its SEND, and computation alone has a workspace: what nothing would count is refused.
tables() { printf '{"format": "ppsim-tables", "version": 1, "costs": [{"kind": "F", "ns": 1}, {"kind": "B", "ns": 1}%s], "sizes": [%s]}\n' "$1" "$2" >own.json; }
tables ', {"kind": "RECV_F", "ns": 5}' ''
expect_error 2 "own.json:1:" "found \"RECV_F\"" simulate 1f1b "${sched[@]}" --costs own.json
for op in SEND_F RECV_F OFFLOAD OVERLAP_F_B; do
  tables '' '{"tensor": "workspace", "op": "'$op'", "bytes": 7}'
  expect_error 2 "own.json:1:" "found \"$op\"" simulate 1f1b "${sched[@]}" --costs own.json
done
