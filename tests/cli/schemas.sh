#!/usr/bin/env bash
# The JSON of every command follows its schema in `ppsim schema`, and every key is in the schema.
source "$(dirname "$0")/support/lib.sh"

expect_exit 0 schema
cp stdout names
for name in error schedule program tables certificate cluster stack calibration algorithms; do
  grep -qx "$name" names || fail "no schema $name"
done
"$ppsim" --help | grep -oE '^  [a-z][a-z-]*  ' | tr -d ' ' >commands
while read -r command; do grep -qx "$command" names || fail "no schema of ppsim $command"; done <commands
expect_error 2 'unknown schema (did you mean "simulate"?)' "found simulat" schema simulat
while read -r name; do
  expect_exit 0 schema "$name"
  mv stdout "$name.schema"
  python3 -m json.tool "$name.schema" >/dev/null || fail "the schema $name is no JSON"
done <names

# follows SCHEMA CODE ARGUMENTS...: the output is what the schema says; one Python looks at all of them in the end.
touch asked
mkdir answers
follows() {
  local schema=$1
  shift
  expect_exit "$@" --json
  echo "$schema" >>asked
  local answer=answers/$(wc -l <asked)
  cp stdout "$answer"
  printf '%s\tppsim %s --json\n' "$schema.schema $answer" "${*:2}" >>documents
}
size=(--ranks 4 --microbatches 8)
small=(--ranks 2 --microbatches 4)
unit=(--unit F=1,B=2,c=0.1,A=1e9)
job=(--model llama3-70b --cluster dgx-h100 --nodes 4 --tp 8 --pp 4 --global-batch-size 16)
for list in schedules models clusters stacks jobs properties policies transports; do follows list 0 list $list; done
follows generate 0 generate 1f1b "${size[@]}" -o s.json
follows convert 0 convert s.json s.csv
follows export 0 export torchtitan zb-v "${size[@]}" -o titan
follows lower 0 lower s.json -o p.json
follows lower 0 lower 1f1b "${small[@]}" --dump-passes
follows show 0 show 1f1b "${small[@]}"
follows show 0 show 1f1b "${small[@]}" -o picture.svg
follows simulate 0 simulate 1f1b "${size[@]}" --unit F=1,B=2
follows simulate 0 simulate 1f1b "${size[@]}" "${unit[@]}" --trace run.csv
follows simulate 0 simulate 1f1b "${size[@]}" "${unit[@]}" --compare-trace run.csv
follows simulate 0 simulate 1f1b "${job[@]}"
follows compare 0 compare gpipe forward-only "${size[@]}" "${unit[@]}"
follows sensitivity 0 sensitivity 1f1b "${size[@]}" "${unit[@]}" --by rank
follows sensitivity 0 sensitivity 1f1b "${size[@]}" "${unit[@]}" --against zb-h1
follows sensitivity 0 sensitivity 1f1b "${size[@]}" --unit F=1,B=2,c=0 --against 1f1b
follows sensitivity 0 sensitivity 1f1b "${job[@]}"
follows jitter 0 jitter 1f1b "${size[@]}" "${unit[@]}" --vary compute=lognormal:0.05 --samples 50
follows contention 0 contention 1f1b "${size[@]}" "${unit[@]}" --replicas 2 --ranks-per-node 4
follows checkpoint 0 checkpoint 1f1b "${job[@]}" --storage 100GB --hours-between-failures 10
follows simulate 0 simulate 1f1b "${size[@]}" "${unit[@]}" --transfer-slowdown 0.1
follows validate 0 validate "$data"/../../studies/accuracy/data/stage_times_1f1b_pp8_a100.csv --effects links
follows replay 0 replay 1f1b "${size[@]}" "${unit[@]}" --trace run.csv --change F=2
follows calibrate 0 calibrate 1f1b "${size[@]}" "${unit[@]}" --trace run.csv --costs-out measured.json
follows calibrate 0 calibrate 1f1b "${size[@]}" "${unit[@]}" --trace run.csv --ranks-per-device 2
expect_exit 0 simulate 1f1b "${job[@]}" --trace job.csv
follows calibrate 0 calibrate 1f1b "${job[@]}" --trace job.csv --fit both -o calibration.json
follows simulate 0 simulate 1f1b "${job[@]}" --calibration calibration.json
follows compare 0 compare 1f1b gpipe "${job[@]}" --calibration calibration.json
expect_exit 0 export chakra 1f1b "${job[@]}" -o chakra
follows chakra 0 chakra chakra
follows verify 0 verify p.json "${unit[@]}" --certificate p.cert
follows verify 3 verify p.json "${unit[@]}" --memory-limit 2GB
follows verify 4 verify "$data/deferred_receives.csv" --communicators per-rank
follows verify 4 verify "$data/deferred_receives.csv" --communicators all
follows verify 0 verify 1f1b --ranks 4 --all-microbatches
follows verify 4 verify 1f1b "${size[@]}" --unit F=1,B=2 --makespan-limit 32ms
follows verify 0 verify zb-h1 --never-slower-than 1f1b "${size[@]}" --for-all F=0.5..2,I=0.5..2,W=0.5..2
follows check-certificate 0 check-certificate p.json p.cert "${unit[@]}" --memory-limit 80GB
follows synthesize 0 synthesize "${size[@]}" --activation-limit 4 --unit F=1,I=1,W=1 -o best.json
follows run 0 run 1f1b "${small[@]}" --compare
follows run 0 run 1f1b "${small[@]}" --backend emulated --unit F=2,B=4,c=0.2,A=1e6 --compare
follows run 0 run 1f1b "${small[@]}" --unit F=2,B=4,c=0.2 --vary compute=lognormal:0.05
follows profile 0 profile 1f1b "${small[@]}" -o table.json
follows predict 0 predict gpipe "${small[@]}" --steps 2
follows validate 0 validate "$data/../../studies/accuracy/data/stage_times_1f1b_pp8_a100.csv"
follows plan 0 plan --model llama3-8b --cluster dgx-h100 --nodes 1 --global-batch-size 16 --top 2
cat >study.json <<END
{"base": {"model": "llama3-8b", "cluster": "dgx-h100", "nodes": 1, "global_batch_size": 16},
 "axes": {"tp": [2, 4], "pp": [2], "schedule": ["1f1b"]}, "constraints": ["tp*pp <= 8"]}
END
follows study 0 study run study.json
follows study 0 study status study.json
follows study 0 study export study.json -o points.csv
follows study 0 study diff study.json --baseline study.json.sqlite
follows doctor 0 doctor
follows help 0 help
follows completion 0 completion bash
follows man 0 man
follows schema 0 schema
follows schema 0 schema tables
follows error 2 simulate 1f1b
while read -r command; do grep -qx "$command" asked || fail "no output of ppsim $command is checked"; done <commands
python3 "$support/check_schema.py" <documents 2>stderr || fail "not what its schema says"
