#include <sstream>

#include "frameworks.hpp"

namespace ppsim::planner::exporting {
namespace {

/// As torchtitan's names of schedules are.
std::string torch_schedule(const PlanChoice& choice) {
  if (choice.schedule == "gpipe") return "GPipe";
  if (choice.schedule == "1f1b") return "1F1B";
  if (choice.schedule == "interleaved-1f1b") return "Interleaved1F1B";
  if (choice.schedule == "looped-bfs") return "LoopedBFS";
  if (choice.schedule == "interleaved-zb") return "InterleavedZeroBubble";
  if (choice.schedule == "zb-v") return "ZBVZeroBubble";
  if (choice.schedule == "dualpipe-v") return "DualPipeV";
  return "";
}

/// Without a pipeline the local batch is computed at once, and the global batch says how often.
std::string training(const Parallelism& parallelism) {
  const int local = parallelism.pipeline > 1 ? parallelism.global_batch_size / parallelism.data
                                             : parallelism.microbatch_size;
  return "[training]\nlocal_batch_size = " + std::to_string(local) +
         "\nglobal_batch_size = " + std::to_string(parallelism.global_batch_size) + "\n";
}

/// torchtitan shards an optimizer only with its parameters.
std::string replicas(const CostedPlan& plan) {
  const Parallelism& parallelism = plan.parallelism();
  const bool shards = parallelism.sharded_parameters || plan.work.stack.sharded_optimizer;
  std::ostringstream text;
  text << "data_parallel_replicate_degree = " << (shards ? 1 : parallelism.data)
       << "\ndata_parallel_shard_degree = " << (shards ? parallelism.data : 1) << '\n';
  if (parallelism.sharded_parameters) text << "fsdp_reshard_after_forward = \"always\"\n";
  if (parallelism.sharded_parameters || !shards || parallelism.data * parallelism.context == 1)
    return text.str();
  text << "fsdp_reshard_after_forward = \"never\"\n"
       << "# FSDP stands for the plan's optimizer that is sharded over whole parameters, which torchtitan "
          "does "
          "not have:\n# it gathers parameters "
       << (parallelism.pipeline == 1 && parallelism.microbatches() > 1
               ? "and reduces gradients in every microbatch, in the plan once a step\n"
               : "once a step and keeps them\n");
  return text.str();
}

/// Errors: refused, what ParallelDims asserts.
Expected<void> check_experts(const CostedPlan& plan) {
  const Parallelism& parallelism = plan.parallelism();
  const bool shards = parallelism.sharded_parameters || plan.work.stack.sharded_optimizer;
  const int members = (shards ? parallelism.data : 1) * parallelism.context * parallelism.tensor;
  if (members % parallelism.expert == 0) return {};
  return refusal("torchtitan spreads experts over data_parallel_shard_degree x cp x tp",
                 "--fix fsdp=on, or --fix ep to a divisor of " + std::to_string(members),
                 "ep=" + std::to_string(parallelism.expert) + ", replicas that are not sharded");
}

std::string pipeline(const CostedPlan& plan) {
  const Parallelism& parallelism = plan.parallelism();
  if (parallelism.pipeline == 1) return "";
  const std::string schedule = torch_schedule(plan.row.choice);
  std::ostringstream text;
  text << "pipeline_parallel_microbatch_size = " << parallelism.microbatch_size << '\n'
       << (schedule.empty() ? "# PyTorch has no class for " + plan.row.choice.schedule +
                                  ": ppsim export torchtitan writes its CSV, or says why it cannot\n"
                            : "pipeline_parallel_schedule = \"" + schedule + "\"\n");
  // Without them it makes one stage a rank or two, and not those of the plan.
  text << "module_fqns_per_model_part = " << torchtitan_modules(plan.row.layout) << '\n';
  return text.str();
}

}  // namespace

Expected<std::string> torchtitan_settings(const CostedPlan& plan) {
  PPSIM_RETURN_IF_ERROR(check_experts(plan));
  PPSIM_RETURN_IF_ERROR(check_key_heads(plan, "torchtitan"));
  const Parallelism& parallelism = plan.parallelism();
  std::ostringstream text;
  text << training(parallelism) << "\n[parallelism]\n"
       << replicas(plan) << "tensor_parallel_degree = " << parallelism.tensor
       << "\ncontext_parallel_degree = " << parallelism.context
       << "\npipeline_parallel_degree = " << parallelism.pipeline << '\n';
  if (parallelism.expert > 1) text << "expert_parallel_degree = " << parallelism.expert << '\n';
  text << pipeline(plan);
  if (plan.row.layout.mtp() > 0)
    text << "# not written: multi-token prediction, which torchtitan does not have\n";
  if (parallelism.tensor > 1 && parallelism.expert > 1 && !plan.has_whole_experts())
    text << "# not written: experts split over tp as well, which torchtitan does not have beside ep\n";
  text << left_out(plan);
  const bool whole_stages = parallelism.recompute.any(Recompute::full);
  const char* mode = whole_stages || plan.recomputes_layers()          ? "full"
                     : parallelism.recompute.any(Recompute::selective) ? "selective"
                                                                       : "none";
  text << "\n[activation_checkpoint]\nmode = \"" << mode << "\"\n";
  if (!whole_stages) return text.str();
  PPSIM_ASSIGN_OR_RETURN(const auto comment, layerwise_recompute(plan, "torchtitan"));
  return text.str() + comment;
}

}  // namespace ppsim::planner::exporting
