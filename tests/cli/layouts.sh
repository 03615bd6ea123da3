#!/usr/bin/env bash
# Layouts: which layers stand on which stage, as Megatron writes it, and what that does to a step.
source "$(dirname "$0")/support/lib.sh"
job=(--cluster dgx-h100 --nodes 16 --tp 8 --pp 16 --global-batch-size 64)  # which takes recompute to fit: exit 3

# figure KEY: a number of the last JSON.
figure() { python3 -c 'import json, sys; print(json.load(open("stdout"))[sys.argv[1]])' "$1"; }
# first_peak: the peak of rank 0 in the last JSON.
first_peak() { python3 -c 'import json; print(json.load(open("stdout"))["per_rank"][0]["peak_bytes"])'; }

# Llama 3 (2407.21783, section 3.3.2) has 126 layers instead of 128, one fewer on the first and on the last stage: the step
# gets shorter by more than the work does, and the first rank's memory lower.
expect_exit 3 simulate 1f1b --model llama3.1-405b:layers=128 "${job[@]}" --json
expect_json 'd["layout"] == "Et*8|(t*8|)*14,t*8,L"'
even_use=$(figure model_flops_utilization)
even_peak=$(first_peak)
expect_exit 3 simulate 1f1b --model llama3.1-405b "${job[@]}" --layout 'Et*7|(t*8|)*14,t*7,L' --json
expect_json "d['model_flops_utilization'] > 1.03 * $even_use"
expect_json "d['per_rank'][0]['peak_bytes'] < $even_peak"
llama_step=$(figure makespan_ns)

# It is also the best cut of the 126 layers, and with 8 stages a rank it leaves embedding and loss alone.
expect_exit 3 simulate 1f1b --model llama3.1-405b "${job[@]}" --layout auto --json
expect_json "d['layout'] == 'Et*7|(t*8|)*14,t*7,L' and d['makespan_ns'] == $llama_step"
expect_exit 3 simulate interleaved-1f1b --chunks 8 --model llama3.1-405b "${job[@]}" --layout auto
expect_out 'layout E|(t|)*126,L'

# A worse cut is a slower step; the default is the even one; every command with costs takes a layout.
expect_exit 3 simulate 1f1b --model llama3.1-405b "${job[@]}" --layout 'Et*15|(t*8|)*13,t*7|L' --json
expect_json "d['makespan_ns'] > 1.3 * $llama_step"
expect_exit 3 simulate 1f1b --model llama3.1-405b "${job[@]}" --json
expect_json 'd["layout"] == "Et*8|(t*8|)*13,t*7|t*7,L"'
expect_exit 0 compare 1f1b zb-h1 --model llama3.1-405b "${job[@]}" --recompute full --layout auto --json
expect_json 'all(s["layout"] == "Et*7|(t*8|)*14,t*7,L" for s in d["schedules"])'
expect_exit 0 lower 1f1b --model llama3.1-405b "${job[@]}" --layout auto -o program.json --json
expect_exit 3 simulate program.json --model llama3.1-405b "${job[@]}" --layout auto --json
expect_json "d['makespan_ns'] == $llama_step"

# Megatron's own example: DeepSeek-V3 with a multi-token prediction layer.
expect_exit 3 simulate interleaved-1f1b --chunks 2 --model deepseek-v3 --cluster dgx-h100 --nodes 128 --pp 16 --dp 64 \
  --ep 64 --global-batch-size 2048 --layout 'Et*3|(tt|)*29,m|L' --json
expect_json 'd["layout"] == "Et*3|(tt|)*29,m|L"'

# Mistakes, with place, found and expected.
small=(simulate 1f1b --model llama3-70b --cluster dgx-h100 --nodes 4 --tp 8 --pp 4 --global-batch-size 16)
expect_error 2 "layout:5: " "found x" "${small[@]}" --layout 'Et*2x|L'
expect_json 'd["error"]["file"] == "layout" and d["error"]["column"] == 5 and d["error"]["found"] == "x"'
expect_error 2 "layout:3: " "found t after m" "${small[@]}" --layout 'Emt|L'
expect_error 2 "stages of the pipeline" "found 2 stages, expected 4" "${small[@]}" --layout 'Et*40|t*40,L'
expect_error 2 "layers of the model" "found 8 layers, expected 80" "${small[@]}" --layout 'Ett|tt|tt|ttL'
expect_error 2 "needs a layer" "found 128 stages, expected at most 80, or a layout" "${small[@]/1f1b/interleaved-1f1b:chunks=32}"
expect_exit 2 simulate 1f1b --ranks 4 --microbatches 4 --unit F=1 --layout auto
expect_err "--layout requires --model"
