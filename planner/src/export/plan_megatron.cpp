#include <cstdint>
#include <optional>
#include <sstream>

#include "frameworks.hpp"

namespace ppsim::planner::exporting {
namespace {

/// The number of microbatches that schedules.py refuses with several stages a rank.
Expected<void> check_interleaving(const CostedPlan& plan) {
  const int ranks = plan.parallelism().pipeline;
  const int microbatches = plan.parallelism().microbatches();
  if (ranks == 1 || plan.chunks() < 2 || microbatches % ranks == 0) return {};
  return refusal(
      "Megatron-LM interleaves only a multiple of the ranks as microbatches",
      "--fix schedule=1f1b, or --fix of pp, dp or microbatch-size so that pp divides the microbatches",
      std::to_string(microbatches) + " microbatches, pp=" + std::to_string(ranks) + ", " +
          std::to_string(plan.chunks()) + " stages a rank");
}

/// The modules that are recomputed as they are costed. `mlp`, `moe` and `shared_experts` make products again,
/// which selective recompute does not.
std::string selective_flags(const CostedPlan& plan) {
  const ModelDescription& model = plan.work.model;
  const workload::SelectiveRecompute selective = plan.work.stack.selective;
  const std::string start = "--recompute-granularity selective --recompute-modules ";
  if (selective == workload::SelectiveRecompute::attention_core) return start + "core_attn\n";
  std::string text = start + "layernorm";
  if (selective == workload::SelectiveRecompute::up_projections && model.kv_lora > 0) text += " mla_up_proj";
  const bool mixture = model.experts > 0;
  text += mixture ? " moe_act --moe-grouped-gemm\n" : "\n";
  std::string without;
  if (!mixture || model.first_dense_layers > 0) without = "dense layers";
  if (mixture && model.shared_experts > 0)
    without += without.empty() ? "shared experts" : " and shared experts";
  if (!without.empty())
    text += "# not written: recompute of the activation functions of " + without +
            ", for which Megatron-LM has no module without their products\n";
  return text;
}

/// The layers of every stage that has some; none: they differ.
std::optional<std::int64_t> layers_of_stages(const PipelineLayout& layout) {
  std::optional<std::int64_t> layers;
  for (const StageContents& stage : layout.stages) {
    if (stage.layers == 0) continue;
    if (layers && *layers != stage.layers) return std::nullopt;
    layers = stage.layers;
  }
  return layers;
}

/// Full recompute keeps the input of a stage, so a stage is one chunk of layers. Megatron-LM has one size of
/// chunk for all stages and fails where a stage is no multiple of it.
Expected<std::string> recompute_flags(const CostedPlan& plan) {
  const StageRecompute& recompute = plan.parallelism().recompute;
  const std::string chunks =
      "--recompute-granularity full --recompute-method uniform --recompute-num-layers ";
  if (plan.recomputes_layers()) return chunks + "1\n";
  if (recompute.any(Recompute::full)) {
    const std::optional<std::int64_t> layers = layers_of_stages(plan.row.layout);
    if (!layers) {
      return layerwise_recompute(plan, "Megatron-LM").map([&](const std::string& comment) {
        return chunks + "1\n" + comment;
      });
    }
    return chunks + std::to_string(*layers) + "\n";
  }
  return recompute.any(Recompute::selective) ? selective_flags(plan) : "";
}

std::string parallel_flags(const CostedPlan& plan) {
  const Parallelism& parallelism = plan.parallelism();
  std::ostringstream text;
  text << "--tensor-model-parallel-size " << parallelism.tensor << '\n'
       << "--pipeline-model-parallel-size " << parallelism.pipeline << '\n';
  if (parallelism.context > 1) text << "--context-parallel-size " << parallelism.context << '\n';
  if (parallelism.expert > 1) text << "--expert-model-parallel-size " << parallelism.expert << '\n';
  // It is that of all layers where nothing is said.
  if (parallelism.tensor > 1 && plan.has_whole_experts()) text << "--expert-tensor-parallel-size 1\n";
  if (parallelism.pipeline > 1)
    text << "--pipeline-model-parallel-layout '" << layout_text(plan.row.layout) << "'\n";
  return text.str();
}

}  // namespace

Expected<std::string> megatron_settings(const CostedPlan& plan) {
  PPSIM_RETURN_IF_ERROR(check_interleaving(plan));
  const Parallelism& parallelism = plan.parallelism();
  const std::string& schedule = plan.row.choice.schedule;
  PPSIM_ASSIGN_OR_RETURN(const auto recompute, recompute_flags(plan));
  std::ostringstream text;
  text << parallel_flags(plan) << "--micro-batch-size " << parallelism.microbatch_size << '\n'
       << "--global-batch-size " << parallelism.global_batch_size << '\n';
  if (parallelism.tensor > 1) text << "--sequence-parallel\n";
  text << recompute;
  text << "--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather\n";
  text << "--bf16\n";
  if (schedule != "interleaved-1f1b" && schedule != "1f1b") {
    text << "# Megatron-LM has no schedule " << schedule
         << ": it runs 1F1B, interleaved where the layout has several stages a rank.\n";
  }
  if (plan.work.model.kv_lora == 0 && parallelism.tensor > plan.work.model.kv_heads)
    text << "# tp is above the heads of keys and values, which Megatron-Core takes from 0.16 on\n";
  text << "# the stages of each rank: ppsim export megatron\n" << left_out(plan);
  if (parallelism.sharded_parameters) text << "# not written: parameters sharded over replicas\n";
  return text.str();
}

}  // namespace ppsim::planner::exporting
