#!/usr/bin/env bash
# The memory of a device beside the live tensors: the pool of the static plan, and buffers of the transport.
source "$(dirname "$0")/support/lib.sh"
model=(--model llama3-8b --cluster dgx-h100 --nodes 1 --tp 2 --pp 4 --global-batch-size 16 --layout auto)

# figure EXPRESSION: a number from the JSON of the last call.
figure() { python3 -c "import json; d = json.load(open('stdout')); print($1)"; }

# verify says which pools a run will have.
expect_exit 0 verify interleaved-zb "${model[@]}" --json
expect_json 'd["fits"] and all(w["bytes"] <= w["pool_bytes"] and "transport_bytes" not in w for w in d["worst_case_memory"])'
worst=$(figure 'max(w["bytes"] for w in d["worst_case_memory"])')
pool=$(figure 'max(w["pool_bytes"] for w in d["worst_case_memory"])')
pools=$(figure '[w["pool_bytes"] for w in d["worst_case_memory"]]')
[ "$worst" -lt "$pool" ] || fail "no gap between the worst case and the pool"
expect_exit 0 run interleaved-zb "${model[@]}" --backend emulated --time-scale 0.001 --steps 1 --json
expect_json "[r['pool_bytes'] for r in d['per_rank']] == $pools"

# A limit that the proved peak keeps to and the pool does not.
expect_exit 3 verify interleaved-zb "${model[@]}" --memory-limit "$worst" --certificate proof.json --json
expect_json 'd["properties"]["memory"]["verdict"] == "proved" and not d["fits"]'
[ -s proof.json ] || fail "every property holds, so there is a proof"
expect_exit 3 verify interleaved-zb "${model[@]}" --memory-limit "$worst"
expect_out "It runs, and the proved peak fits, but the static plan of addresses does not: "
expect_out ", pool of run "
expect_exit 0 verify interleaved-zb "${model[@]}" --memory-limit "$pool" --json
expect_json 'd["fits"]'
expect_exit 3 verify interleaved-zb "${model[@]}" --memory-limit $((worst - 1)) --json
expect_json 'd["properties"]["memory"]["verdict"] == "refuted" and not d["fits"]'
expect_exit 3 verify interleaved-zb 1f1b "${model[@]}" --memory-limit "$worst"
expect_out "does not fit  pool"
expect_exit 0 verify 1f1b --ranks 4 --microbatches 8 --unit F=1,B=2,A=1 --memory-limit 4  # bytes that count

# NCCL's communicators lie beside the pool: 40 MiB for each rank that is received from, 8 MiB for each that is sent to.
nccl=(1f1b "${model[@]}" --transport nccl)
expect_exit 0 verify "${nccl[@]}" --json
expect_json '[w["communicator_bytes"] >> 20 for w in d["worst_case_memory"]] == [48, 96, 96, 48]'
both=$(figure 'max(w["pool_bytes"] + w["communicator_bytes"] for w in d["worst_case_memory"])')
expect_exit 0 verify "${nccl[@]}" --memory-limit "$both"
expect_out ", communicators 50.33 MB"
expect_exit 3 verify "${nccl[@]}" --memory-limit $((both - 1))
expect_exit 0 verify 1f1b "${model[@]}" --json
expect_json 'all("communicator_bytes" not in w for w in d["worst_case_memory"])'
expect_exit 0 simulate "${nccl[@]}" --json
expect_json '[r["communicator_bytes"] >> 20 for r in d["per_rank"]] == [48, 96, 96, 48]'
expect_exit 0 simulate "${nccl[@]}"
expect_out "Communicators take up to 100.66 MB of a rank beside its peak."
expect_exit 0 compare 1f1b zb-h1 "${model[@]}" --transport nccl
expect_out "Communicators take up to 100.66 MB"
expect_exit 0 simulate 1f1b --ranks 2 --microbatches 2 --unit F=1,B=2,A=1 --transport nccl
! grep -q Communicators stdout || fail "bytes beside sizes that count"

# An emulated run has the memory of the cluster's GPU.
large=(zb-greedy --model llama3-70b --cluster dgx-h100 --nodes 8 --tp 8 --pp 4 --dp 2 --global-batch-size 32
  --sequence-length 8192)
expect_exit 3 verify "${large[@]}"
expect_error 3 "it does not fit: the pool of rank " " of 80000000000 bytes" \
  run "${large[@]}" --backend emulated --time-scale 0.001 --steps 1
expect_exit 3 run "${large[@]}" --backend emulated --time-scale 0.001 --steps 1 --unverified

# Messages that are sent and not received.
expect_exit 0 verify 1f1b "${model[@]}" --buffers 2 --json
expect_json '[w["transport_bytes"] > 0 for w in d["worst_case_memory"]] == [True] * 4'
two=$(figure 'd["worst_case_memory"][0]["transport_bytes"]')
expect_exit 0 verify 1f1b "${model[@]}" --buffers 1 --json
expect_json "2 * d['worst_case_memory'][0]['transport_bytes'] == $two"
expect_exit 0 verify 1f1b "${model[@]}" --buffers 1
expect_out "Transport buffers beside it, of messages that are sent and not received:"
expect_out "  rank 0: up to "
