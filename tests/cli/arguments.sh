#!/usr/bin/env bash
# A bad command line: exit 2 at once, naming the found and the expected word and the nearest name.
source "$(dirname "$0")/support/lib.sh"
limit_s=60  # impossible requests are refused before they are tried
bad() { expect_error 2 "$@"; }
sched=(--ranks 4 --microbatches 8)

bad "no subcommand" "one of list, generate"
bad 'did you mean "simulate"' "found simulat" simulat 1f1b
bad "unknown subcommand" "frobnicate" frobnicate
bad 'did you mean "models"' "found model," list model
bad "1f2b" 'did you mean "1f1b"' generate 1f2b "${sched[@]}" -o x.json
bad "unknown model" 'did you mean "llama3-70b"' simulate 1f1b --model llama3-70c --cluster dgx-h100
bad "unknown cluster" 'did you mean "dgx-h100"' simulate 1f1b --model llama3-70b --cluster dgx-h101
bad "unknown property" 'did you mean "deadlock_free"' verify 1f1b "${sched[@]}" --properties deadlock_fre
bad "--nodez" "" simulate 1f1b --nodez 3
bad "--ranks" "99999999999999999999" generate 1f1b --ranks 99999999999999999999 --microbatches 4 -o x.json
bad "--ranks" "four" generate 1f1b --ranks four --microbatches 4 -o x.json

bad 'no schedule "gone"' "nor is there such a file" show gone
mkdir folder
bad "a folder is no schedule" "found folder" show folder
# Nothing is suggested that is far off.
expect_exit 2 simulate 1f1b "${sched[@]}" --unit F=1 --replicas 2
expect_err "unknown option --replicas"
! grep -q "did you mean" stderr || fail "a name that is not similar"
bad "standard input can be read once" "INPUTS - and INPUTS -" compare - - --unit F=1
bad "standard input can be read once" "" simulate - --costs -

# Parameters that no schedule has.
for ranks in 0 -1 1000000000; do bad "ranks" "$ranks" generate 1f1b --ranks $ranks --microbatches 4 -o x.json; done
for count in 0 -1 1000000000; do bad "microbatches" "$count" generate 1f1b --ranks 4 --microbatches $count -o x.json; done
bad "must be at most" "" generate 1f1b --ranks 65536 --microbatches 16777216 -o x.json
bad "must be at most" "" generate 1f1b --ranks 32 --microbatches 16777216 -o x.json
bad "stages must be" "" generate interleaved-1f1b --ranks 4096 --microbatches 4096 --chunks 1024 -o x.json
bad "--chunks" "found 0" generate interleaved-1f1b "${sched[@]}" --chunks 0 -o x.json
bad "chunks must be 1" "found 2" generate 1f1b "${sched[@]}" --chunks 2 -o x.json
bad "slices must be 1" "found 2" generate 1f1b "${sched[@]}" --slices 2 -o x.json
for group in 3 9 0 -1 x ''; do
  bad "group must be" "found \"$group\"" generate interleaved-1f1b "${sched[@]}" --chunks 2 --set group=$group -o x.json
done
bad 'did you mean "group"' "groop" generate interleaved-1f1b "${sched[@]}" --set groop=4 -o x.json
bad "--set" "found group" generate interleaved-1f1b "${sched[@]}" --set group -o x.json
bad "1f1b:ranks=4,,microbatches=8" "key=value" generate 1f1b:ranks=4,,microbatches=8 -o x.json
bad "given twice" "ranks" generate 1f1b:ranks=4,ranks=5,microbatches=8 -o x.json
bad "whole number" "x" generate 1f1b:ranks=x,microbatches=8 -o x.json
bad "1f1b needs ranks and microbatches" "0 microbatches" verify 1f1b --ranks 4
bad "1f1b needs ranks and microbatches" "--model" simulate 1f1b --unit F=1
expect_exit 0 generate 1f1b --ranks 4 --microbatches 2 -o few.json  # fewer microbatches than ranks are fine

# Costs.
for unit in F=x F=-1 F=1e10 F=nan F= F =1 G=1 F=1, ,F=1 F=1,,B=2 F=1,F=2 'F=1;B=2'; do
  bad "unit cost" "found" simulate 1f1b "${sched[@]}" --unit "$unit"
done
bad "simulate needs costs" "" simulate 1f1b "${sched[@]}"
bad "compare needs costs" "" compare gpipe 1f1b "${sched[@]}"
bad "several of --unit, --costs and --model" "" simulate 1f1b "${sched[@]}" --unit F=1 --costs c.json
bad "several of --unit, --costs and --model" "" simulate 1f1b --unit F=1 --model llama3-70b --cluster dgx-h100
for option in --cluster=dgx-h100 --nodes=8 --tp=8 --global-batch-size=4 --dtype=fp8; do
  bad "${option%=*}" "--model" simulate 1f1b "${sched[@]}" --unit F=1 $option
done
llama=(--model llama3-70b --cluster dgx-h100 --nodes 8 --tp 8 --pp 4 --dp 2 --global-batch-size 128)
expect_exit 0 simulate 1f1b "${llama[@]}"
bad "--model needs a --cluster" "" simulate 1f1b --model llama3-70b
for change in "--nodes 0" "--nodes -1" "--nodes 1000000000" "--tp 7" "--tp 0" "--pp -4" "--dp 1048576" "--cp 2" \
  "--ep 3" "--global-batch-size 127" "--global-batch-size 0" "--microbatch-size 3" "--sequence-length -5" \
  "--sequence-length 99999999999" "--dtype int4" "--rank-order x" "--recompute some" "--ranks 8" "--microbatches 8" \
  "--model llama3-70b:layers=x" "--model llama3-70b:lay=4" "--model llama3-70b:layers=0" "--nodes x"; do
  words=("${llama[@]}" $change)
  # An option that the command already has is replaced, not given twice.
  option=${change%% *}
  for i in "${!llama[@]}"; do
    if [ "${llama[$i]}" = "$option" ]; then
      words=("${llama[@]}")
      words[$((i + 1))]=${change#* }
    fi
  done
  bad "" "" simulate 1f1b "${words[@]}"
done
bad "microbatches must be those of the batch" "expected 64" simulate few.json "${llama[@]}"

# Verify, lower, run, convert.
for limit in -1 40XB GB 1e999 ''; do
  [ -n "$limit" ] || continue
  bad "not a size" "" verify 1f1b "${sched[@]}" --unit A=1 --memory-limit=$limit
done
bad "the size is too large" "found 99999999999GB" verify 1f1b "${sched[@]}" --unit A=1 --memory-limit=99999999999GB
bad "memory needs sizes" "" verify 1f1b "${sched[@]}" --memory-limit 1GB
bad "memory needs sizes" "" verify 1f1b "${sched[@]}" --properties memory
bad "--communicators" "per-stage-edge, several or all" verify 1f1b "${sched[@]}" --communicators per-planet
bad "--communicators" "per-stage-edge, several or all" verify 1f1b "${sched[@]}" --communicators per-rank,x
bad "--communicators names a policy twice" "per-edge,per-edge" verify 1f1b "${sched[@]}" --communicators per-edge,per-edge
for buffers in 0 -1 some 1.5; do bad "--buffers" "rendezvous" verify 1f1b "${sched[@]}" --buffers=$buffers; done
bad "--resident" "found 0" verify 1f1b "${sched[@]}" --resident 0
for timeout in 0 -1 soon nan; do bad "--timeout" "" verify 1f1b "${sched[@]}" --timeout=$timeout; done
for order in sorted early early: early:-1 early:x; do
  bad "order" "" lower 1f1b "${sched[@]}" --order $order -o x.json
done
bad "--with" "found sugar" lower 1f1b "${sched[@]}" --with load,sugar -o x.json
bad "twice" "found opt,opt" lower 1f1b "${sched[@]}" --with opt,opt -o x.json
for extra in opt reduce-grad load,opt clip; do
  bad "needs a backward" "found $extra" lower forward-only "${sched[@]}" --with $extra -o x.json
  bad "needs a backward" "found $extra" run forward-only "${sched[@]}" --with $extra
done
expect_exit 0 lower forward-only "${sched[@]}" --with load,unshard -o inference.json
bad "--grouping" "" lower 1f1b "${sched[@]}" --grouping all -o x.json
bad "" "" lower 1f1b "${sched[@]}" --receive-buffers 0 -o x.json
expect_exit 0 lower 1f1b "${sched[@]}" -o p.json
bad "a Program already" "" lower p.json --order global -o x.json
bad "for a NAME" "p.json" verify p.json --ranks 8
bad "for a NAME" "p.json" run p.json --set group=4
bad "generate makes a schedule" "p.json" generate p.json -o x.json
bad "--flavor" "found both" convert p.json x.csv --flavor both
bad "--dialect" "found latin" convert p.json x.csv --dialect latin
bad "bf16 and fp8 on a GPU only" "found a CPU" run p.json --arithmetic bf16
bad "bf16 and fp8 on a GPU only" "found a CPU" run p.json --arithmetic fp8
# The alternatives that the message offers work.
for arithmetic in float32 float64 integer; do
  bad "bf16 and fp8 on a GPU only" "$arithmetic" run p.json --arithmetic bf16
  expect_exit 0 run 1f1b --ranks 2 --microbatches 2 --steps 1 --arithmetic $arithmetic
done
bad "fp8 needs hidden, ffn and the tokens" "" run p.json --arithmetic fp8 --transformer hidden=24
bad "unknown backend" "found hip" run p.json --backend hip
bad "needs costs" "" run p.json --backend emulated
for scale in 0 -1 nan inf; do
  bad "--time-scale" "a number above 0" run p.json --backend emulated --unit F=1 --time-scale=$scale
done
# Options of other backends are refused, not ignored.
bad "--time-scale" "found --backend cpu" run p.json --time-scale 2
bad "--time-scale" "found --backend cpu" run p.json --time-scale 2 --emit-sbatch
bad "events per action are of CUDA" "found --no-profile" run p.json --no-profile
bad "events per action are of CUDA" "found --algorithms" run p.json --algorithms a.json
bad "has no transformer" "--arithmetic" run p.json --backend emulated --unit F=1 --arithmetic integer
bad "has no transformer" "--transformer" run p.json --backend emulated --unit F=1 --transformer hidden=32
bad "--state-limit requires --resident" "" verify p.json --state-limit 10
bad "--sample-limit requires --all-microbatches" "" verify p.json --sample-limit 10
bad "for a NAME" "found --certificate" verify 1f1b --ranks 2 --all-microbatches --certificate x.json
bad "before it is lowered" "found --recompute full" generate 1f1b "${sched[@]}" --recompute full -o x.json
bad "--nic-speed" "found nan" contention p.json --unit F=1 --nic-speed nan
for moved in --runs=2 --jitter=0.1 --seed=1; do
  bad "simulate has no ${moved%=*}" "expected ppsim jitter INPUT --vary all=normal:0.05" simulate p.json --unit F=1 $moved
done
bad "--ranks-per-node requires --emit-sbatch" "" run p.json --ranks-per-node 2
bad "unknown backend" "found hip" run p.json --backend hip --emit-sbatch
bad "between processes by MPI" "found pigeon" run p.json --transport pigeon --emit-sbatch
bad "lower its schedule with --with" "a Program" run p.json --with opt
bad "lower its schedule with --offload" "a Program" simulate p.json --unit F=1 --offload all
bad "unknown --with" "found adam" run 1f1b --ranks 2 --microbatches 2 --with adam
bad "nothing is measured" "found emulated" profile --backend emulated -o c.json
bad "between processes by MPI" "found pigeon" run p.json --transport pigeon
bad "--transformer" "found hidden=x" run p.json --transformer hidden=x
bad "" "" run p.json --transformer hidden=0
bad "--steps" "" run p.json --steps 0
bad "--deadline" "" run p.json --deadline=-1
bad "--palette" "found grey" show p.json --palette grey
bad "--format" "png" show p.json --format png
bad "same ranks and microbatches" "" compare p.json few.json --unit F=1
bad "interval: column 1" 'found "i"' generate building-block "${sched[@]}" --set interval=i+3 --set "offsets=F: i; B: 3p-2-2i" -o x.json
# One of several inputs that cannot be made is a row that says why.
expect_exit 0 compare 1f1b seq-1f1b:slices=4 --model llama3-8b --cluster dgx-h100 --tp 2 --pp 4 --global-batch-size 8
expect_out "seq-1f1b:slices=4: cannot be made: seq-1f1b:slices=4: the analytic cost model covers whole sequences (found 4 slices"
[ ! -e x.json ] && [ ! -e x.csv ] || fail "a bad command line wrote a file"

# Bytes that are no UTF-8 are refused like others, in JSON too.
bad "graph" "" simulate gpipe "${sched[@]}" --set $'graph=\xff' --unit F=1
# Sizes that would take all memory are refused before they are tried.
bad "v-half: ranks must be in [1, 1024]" "65536" generate v-half --ranks 65536 --microbatches 1 -o x.json

# A size beyond all limits, of which another one would be a multiple.
printf '{"model_type":"gpt2","hidden_size":7177777777777779280,"num_hidden_layers":2,"num_attention_heads":2,"vocab_size":100,"max_position_embeddings":128}' >wide.json
bad "hidden is out of range" "7177777777777779280" simulate 1f1b --model wide.json --cluster dgx-h100 --tp 2 --pp 4 --global-batch-size 8

# Schedules that do other work are not called faster: stages whose cost does not depend on what is in them, and no backward.
expect_exit 0 compare 1f1b interleaved-1f1b:chunks=2 forward-only gpipe "${sched[@]}" --unit F=1,B=2 --json
expect_json '[s["relative_work"] for s in d["schedules"]] == [1, 2, 1, 1] and d["best"] == "1f1b"'
expect_json '[s["has_backward"] for s in d["schedules"]] == [True, True, False, True]'
# So does the page, on which only what does the work of the first can be the best.
expect_exit 0 compare 1f1b zb-v "${sched[@]}" --unit F=1,B=2 --report works.html
grep -o '"work":"[^"]*","sameWork":[a-z]*' works.html >works
printf '"work":"%s\n' '1.00x","sameWork":true' '2.00x","sameWork":false' | diff - works >&2 || fail "the works of the page"
expect_exit 0 compare 1f1b zb-h1 "${sched[@]}" --unit F=1,B=2 --report works.html
[ "$(grep -o '"work":"","sameWork":true' works.html | wc -l)" -eq 2 ] || fail "the same work, and more said of it"
expect_exit 0 compare 1f1b forward-only "${sched[@]}" --unit F=1,B=2
expect_out "1.00x, no backward"
expect_out "Fastest that does the work of the first: 1f1b."
expect_exit 0 compare 1f1b gpipe zb-h1 "${sched[@]}" --unit F=1,B=2
expect_out "Fastest: zb-h1."
expect_exit 0 compare 1f1b zb-h1 "${llama[@]}"
expect_out "Fastest that fits: zb-h1."
expect_exit 0 compare 1f1b interleaved-1f1b:chunks=2 "${llama[@]}" --json
expect_json 'd["best"] == "interleaved-1f1b:chunks=2" and all(s["relative_work"] == 1 for s in d["schedules"])'
# Slices that are priced by their tokens.
expect_exit 0 compare terapipe:slices=4 terapipe:slices=2 --ranks 4 --microbatches 2 --unit F=1 --token-costs length=1024,linear=0.001 --json
expect_json 'all(s["relative_work"] == 1 for s in d["schedules"])'
expect_exit 0 compare terapipe:slices=2 terapipe:slices=4 --ranks 4 --microbatches 2 --unit F=1 --json
expect_json '[s["relative_work"] for s in d["schedules"]] == [1, 2]'
