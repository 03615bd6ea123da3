#include <array>

#include "ppsim/workload/stack.hpp"

namespace ppsim::workload {
namespace {

// Sources: megatron-2021: 2104.04473 (sections 3.2, 4.1, 4.2). megatron-2022: 2205.05198 (sections 4.2, 5)
// and Megatron-LM's --sequence-parallel, --recompute-activations and gradient accumulation fusion.
// megatron-core: Megatron-LM's and NeMo's performance guides (--overlap-grad-reduce, --overlap-param-gather,
// --tp-comm-overlap, --use-distributed-optimizer, p2p overlap with interleaving). megatron-core-no-overlap:
// the same library without overlap and with context parallelism by all-to-all, as SimuMax's measurements ran
// it. nemo-mixture: NeMo 1.0's recipe of Grok-1 (NVIDIA/dgxc-benchmarking v25.01, grok1/grok1_314b.yaml): no
// tp overlap, gradients reduced in bf16, and a Megatron-Core whose experts have the tensor-parallel size of
// all layers. megatron-bridge: Megatron-Bridge, iterations as CUDA graphs for dense models, of mixtures
// attention and routing (docs/training/cuda-graphs.md). megatron-bridge-graphed-experts: its recipes of
// mixtures in MXFP8 on Blackwell since release 26.06 (pull requests 4249 and 4606): iterations as CUDA
// graphs, the exchange with experts beside another microbatch, products of experts fused with what is between
// them, and attention in FP8 (fp8_dot_product_attention). deepseek-v3: 2412.19437, sections 3.2.3 and 3.3.
// torchtitan: its docs/fsdp.md and composability.md. llm-foundry: PyTorch FSDP by Composer as its benchmarks
// of 2023 ran (scripts/train/benchmarking), attention by the Triton kernel of FlashAttention's first version.
// deepspeed: Megatron-DeepSpeed with fp16 gradients, ZeRO stage 0. Copies of tokens: Megatron-Core's
// get_batch_on_this_tp_rank, broadcast_data in Megatron-LM until 2022 and Megatron-DeepSpeed, torchtitan's
// batch_generator; JAX dispatches a step and places the next batch meanwhile. Layers that keep nothing:
// CheckpointFunction of Megatron-Core (tensor_parallel/random.py) and of Megatron-DeepSpeed call the whole
// function again, torchtitan wraps layers with early_stop = false (its activation_checkpoint); XLA drops what
// no gradient needs.
const auto kStacks = std::to_array<SoftwareStack>({
    {.name = "megatron-2021",
     .attention = AttentionKernel::unfused,
     .sequence_parallel = false,
     .overlap_tensor = false,
     .overlap_data = false,
     .overlap_pipeline = false,
     .sharded_optimizer = false,
     .fused_weight_gradient = false,
     .fused_cross_entropy = false,
     .selective = SelectiveRecompute::attention_core,
     .inputs = InputCopies::broadcast},
    {.name = "megatron-2022",
     .attention = AttentionKernel::unfused,
     .sequence_parallel = false,
     .overlap_tensor = false,
     .overlap_data = false,
     .overlap_pipeline = false,
     .sharded_optimizer = false,
     .fused_cross_entropy = false,
     .selective = SelectiveRecompute::attention_core,
     .inputs = InputCopies::broadcast},
    {.name = "megatron-core"},
    {.name = "megatron-core-no-overlap",
     .overlap_tensor = false,
     .overlap_data = false,
     .overlap_pipeline = false,
     .context = ContextExchange::all_to_all},
    {.name = "nemo-mixture", .overlap_tensor = false, .split_experts = true, .gradient_bytes = 2},
    {.name = "megatron-bridge", .graphs = true, .graphed_experts = false},
    {.name = "megatron-bridge-graphed-experts",
     .overlap_experts = true,
     .graphs = true,
     .fused_experts = true,
     .quantised_attention = true},
    {.name = "deepseek-v3",
     .moment_bytes = 2,
     .quantised_gates = true,
     .selective = SelectiveRecompute::up_projections,
     .weights = QuantisedWeights::primary},
    {.name = "torchtitan",
     .fused_weight_gradient = false,
     .gradient_bytes = 2,
     .weights = QuantisedWeights::transient,
     .inputs = InputCopies::pageable},
    {.name = "llm-foundry",
     .attention = AttentionKernel::flash_1,
     .fused_weight_gradient = false,
     .fused_cross_entropy = false,
     .weights = QuantisedWeights::transient,
     .inputs = InputCopies::pageable},
    {.name = "deepspeed",
     .attention = AttentionKernel::unfused,
     .sequence_parallel = false,
     .overlap_tensor = false,
     .overlap_data = false,
     .overlap_pipeline = false,
     .sharded_optimizer = false,
     .fused_weight_gradient = false,
     .fused_cross_entropy = false,
     .gradient_bytes = 2,
     .selective = SelectiveRecompute::attention_core,
     .inputs = InputCopies::broadcast},
    {.name = "maxtext",
     .fused_weight_gradient = false,
     .graphs = true,
     .compiled = true,
     .reruns_layers = false,
     .inputs = InputCopies::prefetched},
});

}  // namespace

std::span<const SoftwareStack> stack_presets() { return kStacks; }

}  // namespace ppsim::workload
