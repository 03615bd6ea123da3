#!/usr/bin/env bash
# plan --emit: settings start in their framework and run what was costed, or the next plan is taken, or none is written.
source "$(dirname "$0")/support/lib.sh"
echo '{"model_type": "mixtral", "hidden_size": 1024, "num_hidden_layers": 12, "num_attention_heads": 16,
"num_key_value_heads": 8, "intermediate_size": 4096, "vocab_size": 32000, "max_position_embeddings": 2048, "num_local_experts": 12,
"num_experts_per_tok": 2}' >mixture.json
echo '{"gpus_per_node": 6, "node_gbytes_per_s": 200, "gpu": "h100-sxm-80gb"}' >six.json
mixture=(--model mixture.json --cluster six.json --nodes 2 --global-batch-size 36 --fix tp=2 --fix pp=2 --fix cp=1 --fix microbatch-size=1
  --fix recompute=none --fix layout=even)
dense=(--model llama3-8b:layers=8,sequence=2048 --cluster dgx-h100 --nodes 1 --fix cp=1)
# expect_refusal WHERE FOUND ARGUMENTS...
expect_refusal() {
  local where=$1 found=$2
  shift 2
  expect_exit 4 plan "$@"
  expect_err "$where"
  expect_err "$found"
  [ ! -s stdout ] || fail "settings are printed"
}
has() { grep -qxF -- "$1" stdout || fail "no line '$1'"; }
has_not() { ! grep -q -- "$1" stdout || fail "a line with '$1'"; }

# Experts that are whole on a GPU: Megatron-LM's have the tensor parallelism of all layers unless it is told.
expect_exit 0 plan "${mixture[@]}" --fix ep=6 --fix schedule=1f1b --emit megatron
has "--expert-model-parallel-size 6"
has "--expert-tensor-parallel-size 1"
expect_exit 0 plan "${mixture[@]}" --fix ep=3 --fix schedule=1f1b --stack nemo-mixture --emit megatron
has "--expert-model-parallel-size 3"
has_not expert-tensor
expect_exit 0 plan "${mixture[@]}" --fix ep=1 --fix schedule=1f1b --emit megatron
has_not expert-tensor

# Megatron-LM interleaves multiples of the ranks: the next plan that it takes, or none.
odd=("${dense[@]}" --global-batch-size 12 --fix pp=2 --fix tp=1 --fix microbatch-size=1)
expect_refusal "Megatron-LM interleaves only a multiple of the ranks" "3 microbatches, pp=2" "${odd[@]}" --fix schedule=interleaved-1f1b \
  --emit megatron
expect_exit 0 plan "${odd[@]}" --fix schedule=interleaved-1f1b+1f1b --emit megatron
expect_out "# not the best plan, interleaved-1f1b"
expect_out "# the next best: 1f1b"
has "--pipeline-model-parallel-size 2"
expect_exit 0 plan "${dense[@]}" --global-batch-size 16 --fix pp=2 --fix tp=1 --fix microbatch-size=1 --fix schedule=interleaved-1f1b --emit megatron
has_not "not the best"

# Selective recompute makes norms and activation functions again, and no products.
selective=(--fix recompute=selective --fix schedule=1f1b --emit megatron)
expect_exit 0 plan "${dense[@]}" --global-batch-size 16 --fix pp=2 "${selective[@]}"
has "--recompute-granularity selective --recompute-modules layernorm"
has "# not written: recompute of the activation functions of dense layers, for which Megatron-LM has no module without their products"
expect_exit 0 plan "${dense[@]}" --global-batch-size 16 --fix pp=2 --stack megatron-2022 "${selective[@]}"
has "--recompute-granularity selective --recompute-modules core_attn"
mixed=(--cluster six.json --nodes 2 --global-batch-size 36 --fix tp=1 --fix pp=2 --fix ep=1 --fix microbatch-size=1)
expect_exit 0 plan --model mixture.json "${mixed[@]}" "${selective[@]}"
has "--recompute-granularity selective --recompute-modules layernorm moe_act --moe-grouped-gemm"
has_not "not written"
expect_exit 0 plan --model deepseek-v3:layers=4,sequence=1024 --cluster dgx-h100 --nodes 2 --global-batch-size 32 --fix tp=1 --fix pp=2 --fix ep=8 \
  --fix cp=1 --fix microbatch-size=1 --stack deepseek-v3 "${selective[@]}"
has "--recompute-granularity selective --recompute-modules layernorm mla_up_proj moe_act --moe-grouped-gemm"
expect_out "activation functions of dense layers and shared experts"

# Full recompute is of a whole stage, which is a chunk of Megatron-LM's where all have as many layers; the rest is told.
full=("${dense[@]}" --global-batch-size 16 --fix pp=2 --fix tp=1 --fix recompute=full)
expect_exit 0 plan "${full[@]}" --fix schedule=1f1b --fix layout=even --emit megatron
has "--recompute-granularity full --recompute-method uniform --recompute-num-layers 4"
uneven=(--model llama3-8b --cluster dgx-h100 --nodes 1 --global-batch-size 64 --fix pp=8 --fix tp=1 --fix recompute=full)
expect_exit 0 plan "${uneven[@]}" --fix schedule=1f1b --fix layout=auto --emit megatron
has "--pipeline-model-parallel-layout 'Et*4|(t*4|)*4,t*5|t*5|ttL'"
has "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1"
grep -qE "Megatron-LM recomputes layer by layer, and keeps the input of every layer: [0-9.]+ s, [0-9.]+ GB$" stdout || fail "no price of layers"
expect_exit 0 plan "${full[@]}" --fix schedule=1f1b --fix layout=even --emit megatron
has_not "layer by layer"
# The price is that of the same plan layer by layer.
expect_exit 0 plan "${full[@]/recompute=full/recompute=nothing_saveable}" --fix schedule=gpipe --fix layout=even --json
price=$(python3 -c 'import json; d = json.load(open("stdout"))["plans"][0]; print("%g s, %g GB" % (round(d["step_ns"] / 1e9, 3), round(d["peak_bytes"] / 1e9, 2)))')
for framework in torchtitan maxtext; do
  expect_exit 0 plan "${full[@]}" --fix schedule=gpipe --fix layout=even --emit "$framework"
  expect_out "# costed as recompute of a whole stage at once; "
  expect_out " recomputes layer by layer, and keeps the input of every layer: $price"
done

expect_exit 0 plan "${full[@]/pp=2/pp=8}" --fix schedule=gpipe --fix layout=even --emit torchtitan
has_not "layer by layer"
expect_exit 0 plan "${mixture[@]/recompute=none/recompute=full}" --fix ep=1 --fix schedule=1f1b --emit torchtitan
has "# costed as recompute of a whole stage at once; torchtitan recomputes layer by layer, and keeps the input of every layer, which is not priced"

# What fits as a whole stage and not layer by layer is not written.
expect_exit 0 plan "${full[@]}" --fix schedule=gpipe --fix layout=even --json
spare=$(python3 -c 'import json; d = json.load(open("stdout"))["plans"][0]; print(d["memory_limit_bytes"] - d["peak_bytes"])')
expect_exit 0 plan "${full[@]}" --fix schedule=gpipe --fix layout=even --min-spare-memory "${spare}B" --json
expect_refusal "MaxText recomputes layer by layer, and keeps the input of every layer" " GB, which --min-spare-memory leaves" \
  "${full[@]}" --fix schedule=gpipe --fix layout=even --min-spare-memory "${spare}B" --emit maxtext

# Recompute layer by layer is what frameworks call full, and simulate calls nothing_saveable.
layers=("${full[@]/recompute=full/recompute=nothing_saveable}")
expect_exit 0 plan "${layers[@]}" --fix schedule=1f1b --fix layout=even --emit megatron
has "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1"
has_not "layer by layer"
expect_exit 0 plan "${layers[@]}" --fix schedule=gpipe --emit torchtitan
has 'mode = "full"'
has_not "layer by layer"
expect_exit 0 plan "${layers[@]}" --fix schedule=gpipe --emit maxtext
has "remat_policy: full"
has_not "layer by layer"
expect_exit 0 plan "${layers[@]}" --fix schedule=1f1b --json
expect_json '"recompute nothing_saveable" in d["plans"][0]["plan"] and "--recompute nothing_saveable" in d["plans"][0]["command"]'
expect_exit 2 plan "${mixture[@]/recompute=none/recompute=nothing_saveable}" --fix ep=1 --fix schedule=1f1b
expect_err "checkpoint policies are priced for dense decoders"

# torchtitan's experts divide data_parallel_shard_degree x cp x tp, and its optimizer is sharded with parameters.
expect_exit 0 plan "${mixture[@]}" --fix ep=6 --fix schedule=1f1b --emit torchtitan
has "data_parallel_replicate_degree = 1"
has "data_parallel_shard_degree = 3"
has 'fsdp_reshard_after_forward = "never"'
has "expert_parallel_degree = 6"
expect_out "it gathers parameters once a step"
echo '{"base": "megatron-core", "sharded_optimizer": false}' >replicas.json
expect_refusal "torchtitan spreads experts over" "ep=6" "${mixture[@]}" --fix ep=6 --fix schedule=1f1b --stack replicas.json --emit torchtitan
expect_exit 0 plan "${mixture[@]}" --fix ep=2 --fix schedule=1f1b --stack replicas.json --emit torchtitan
has "data_parallel_replicate_degree = 3"
has "data_parallel_shard_degree = 1"
has_not fsdp_reshard
expect_exit 0 plan "${mixture[@]}" --fix ep=6 --fix fsdp=on --fix schedule=1f1b --emit torchtitan
has 'fsdp_reshard_after_forward = "always"'
has_not "FSDP stands for"

# Without a pipeline torchtitan computes its local batch at once.
expect_exit 0 plan "${dense[@]}" --global-batch-size 64 --fix pp=1 --fix tp=2 --fix microbatch-size=2 --fix dtype=fp8 --emit torchtitan
has "local_batch_size = 2"
has "global_batch_size = 64"
expect_out "and reduces gradients in every microbatch"
has "# not written: the number format of products, which is not bf16"
expect_exit 0 plan "${dense[@]}" --global-batch-size 64 --fix pp=2 --fix tp=2 --fix microbatch-size=2 --emit torchtitan
has "local_batch_size = 32"
has "pipeline_parallel_microbatch_size = 2"

# MaxText's ici_ axes multiply to the GPUs of a node, its dcn_ axes to the nodes.
multiply() { python3 - "$1" "$2" <<'PY' || fail "the mesh is not $1 x $2"
import math, re, sys
text = open("stdout").read()
degrees = {kind: [int(d) for d in re.findall(rf"^{kind}_\w+_parallelism: (\d+)$", text, re.M)] for kind in ("ici", "dcn")}
sys.exit([math.prod(degrees["ici"]), math.prod(degrees["dcn"])] != [int(n) for n in sys.argv[1:]])
PY
}
loop=(--fix schedule=gpipe --emit maxtext)
expect_exit 0 plan "${dense[@]}" --global-batch-size 64 --fix tp=1 --fix pp=4 --fix layout=even "${loop[@]}"
multiply 8 1
has "ici_pipeline_parallelism: 4"
has "ici_fsdp_parallelism: 1"
has "num_pipeline_repeats: 1"
has "num_layers_per_pipeline_stage: 2"
has "shard_optimizer_over_data: true"
expect_exit 0 plan --model llama3-8b:layers=8,sequence=2048 --cluster dgx-h100 --nodes 2 --global-batch-size 64 --fix tp=4 --fix pp=4 "${loop[@]}"
multiply 8 2
has "ici_pipeline_parallelism: 2"
has "dcn_pipeline_parallelism: 2"
expect_exit 0 plan "${dense[@]}" --global-batch-size 64 --fix pp=1 --fix tp=2 --fix fsdp=on --fix microbatch-size=2 --emit maxtext
multiply 8 1
has "ici_fsdp_parallelism: 4"
has "gradient_accumulation_steps: 8"
has "per_device_batch_size: 1"
expect_exit 0 plan "${mixture[@]}" --fix ep=3 "${loop[@]}"
multiply 6 2
has "ici_expert_parallelism: 3"
expect_out "# not written: experts that are whole on a GPU"
expect_refusal "MaxText takes its expert parallelism from data parallelism" "ep=6, dp=3" "${mixture[@]}" --fix ep=6 "${loop[@]}"
expect_exit 0 plan --model mixture.json --cluster six.json --nodes 2 --global-batch-size 36 --fix tp=4 --fix ep=1 --fix pp=1 --fix dp=3 --emit maxtext
multiply 6 2
expect_out "# groups lie over nodes otherwise than in the plan"
