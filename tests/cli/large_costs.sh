#!/usr/bin/env bash
# Costs and sizes that add up to more than 64 bits hold are a bad argument, with the limit.
source "$(dirname "$0")/support/lib.sh"

beyond() { expect_error 2 "in 64 bits" "at most 9223372036854775807 ns (292 years)" "$@"; }
long=(--ranks 1 --microbatches 100000 --unit F=1e9)
for command in simulate show "verify --properties makespan" "lower -o out.json"; do beyond $command 1f1b "${long[@]}"; done
beyond run 1f1b "${long[@]}" --backend emulated
beyond verify 1f1b --ranks 2 --microbatches 20000 --for-all F=0..1e9 --properties makespan
beyond verify zb-h1 --never-slower-than 1f1b --ranks 2 --microbatches 20000 --for-all F=0..1e9
for tokens in length=1024,quadratic=1e6,lengths=512+512 length=16777216,quadratic=1e6; do
  beyond generate terapipe --slices 2 --ranks 4 --microbatches 1 --unit F=1e9 --token-costs $tokens -o out.json
done
[ ! -e out.json ] || fail "written in spite of it"

# Each alone fits: tables, models, factors.
echo '{"format":"ppsim-tables","version":1,"costs":[{"kind":"F","ns":9223372036854775807},{"kind":"B","ns":9223372036854775807},
  {"kind":"SEND_F","ns":0},{"kind":"SEND_B","ns":0}],"sizes":[]}' >large.json
beyond simulate 1f1b --ranks 2 --microbatches 2 --costs large.json
beyond simulate 1f1b --model llama3-70b --cluster dgx-h100 --nodes 4 --tp 8 --pp 4 --global-batch-size 32 --microbatch-size 32 \
  --sequence-length 1073741824
expect_exit 0 simulate 1f1b --ranks 2 --microbatches 2000 --unit F=1e9
beyond jitter 1f1b --ranks 2 --microbatches 2000 --unit F=1e9 --slow-rank 0=5

for command in simulate verify compare; do beyond $command gpipe --ranks 2 --microbatches 20000 --unit F=1,A=1e15; done
