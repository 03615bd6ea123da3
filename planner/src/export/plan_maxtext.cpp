#include <limits>
#include <numeric>
#include <sstream>

#include "frameworks.hpp"

namespace ppsim::planner::exporting {
namespace {

/// An axis of MaxText's mesh: its GPUs within a node, and its nodes.
struct MeshAxis {
  std::string name;
  int size = 1;
  int within = 1;

  [[nodiscard]] int across() const { return size / within; }
};

/// From the innermost on. Experts lie along a part of the replicas; the mesh has no other place for them.
std::vector<MeshAxis> axes_of(const Parallelism& parallelism) {
  const MeshAxis replicas{parallelism.sharded_parameters ? "fsdp" : "data",
                          parallelism.data / parallelism.expert};
  const MeshAxis pipeline{"pipeline", parallelism.pipeline};
  std::vector<MeshAxis> axes = {
      {"tensor", parallelism.tensor}, {"context", parallelism.context}, {"expert", parallelism.expert}};
  if (parallelism.rank_order == RankOrder::tp_cp_pp_dp) {
    axes.insert(axes.begin() + 2, pipeline);
    axes.push_back(replicas);
  } else {
    axes.insert(axes.end(), {replicas, pipeline});
  }
  return axes;
}

/// Fills a node from the innermost axis on. Returns whether groups lie over nodes as those of the plan do.
bool place(std::vector<MeshAxis>& axes, int node) {
  bool is_plain = true;
  for (MeshAxis& axis : axes) {
    axis.within = std::gcd(axis.size, node);
    is_plain = is_plain && (axis.within == axis.size || axis.within == node);
    node /= axis.within;
  }
  return is_plain;
}

/// MaxText takes what is left for the axes that are -1, its default for `data` across and `fsdp` within
/// nodes.
std::string mesh(const CostedPlan& plan) {
  std::vector<MeshAxis> axes = axes_of(plan.parallelism());
  const bool is_plain = place(axes, plan.work.cluster.node.gpus);
  std::string within;
  std::string across;
  bool has_data = false;
  for (const MeshAxis& axis : axes) {
    const bool is_data = axis.name == "data";
    has_data = has_data || is_data;
    if (axis.size == 1 && axis.name != "tensor" && axis.name != "pipeline" && !is_data) continue;
    within += "ici_" + axis.name + "_parallelism: " + std::to_string(axis.within) + "\n";
    if (axis.across() > 1 || is_data)
      across += "dcn_" + axis.name + "_parallelism: " + std::to_string(axis.across()) + "\n";
  }
  if (has_data || plan.parallelism().data == plan.parallelism().expert) within += "ici_fsdp_parallelism: 1\n";
  if (!has_data) across += "dcn_data_parallelism: 1\n";
  return within + across +
         (is_plain ? ""
                   : "# groups lie over nodes otherwise than in the plan: a mesh is cut along its axes\n");
}

Expected<void> check(const CostedPlan& plan) {
  const Parallelism& parallelism = plan.parallelism();
  if (parallelism.data % parallelism.expert != 0)
    return refusal("MaxText takes its expert parallelism from data parallelism",
                   "--fix ep to a divisor of dp",
                   "ep=" + std::to_string(parallelism.expert) + ", dp=" + std::to_string(parallelism.data));
  PPSIM_RETURN_IF_ERROR(check_key_heads(plan, "MaxText"));
  if (parallelism.microbatches() % parallelism.pipeline != 0)
    return refusal("MaxText runs a multiple of the ranks as microbatches",
                   "--fix of pp, dp or microbatch-size so that pp divides the microbatches",
                   std::to_string(parallelism.microbatches()) +
                       " microbatches, pp=" + std::to_string(parallelism.pipeline));
  return {};
}

/// Without a pipeline microbatches are steps of gradient accumulation, and the batch is that of one.
std::string batch(const CostedPlan& plan) {
  const Parallelism& parallelism = plan.parallelism();
  const bool pipelined = parallelism.pipeline > 1;
  const int at_once =
      pipelined ? parallelism.global_batch_size : parallelism.microbatch_size * parallelism.data;
  std::ostringstream text;
  text.precision(std::numeric_limits<double>::max_digits10);  // times the GPUs it is cut off to a whole batch
  text << (pipelined ? "num_pipeline_microbatches: " : "gradient_accumulation_steps: ")
       << parallelism.microbatches() << "\nper_device_batch_size: "
       << static_cast<double>(at_once) / static_cast<double>(parallelism.gpus()) << '\n';
  return text.str();
}

std::string stages(const CostedPlan& plan) {
  if (plan.parallelism().pipeline == 1) return "";
  std::string text = "num_pipeline_repeats: " + std::to_string(plan.chunks()) + "\n";
  const std::vector<StageContents>& all = plan.row.layout.stages;
  const auto is_alike = [&](const StageContents& stage) { return stage.layers == all.front().layers; };
  if (std::ranges::all_of(all, is_alike))
    return text + "num_layers_per_pipeline_stage: " + std::to_string(all.front().layers) + "\n";
  return text + "# MaxText's stages have equal numbers of layers; those of the plan: " +
         layout_text(plan.row.layout) + "\n";
}

/// MaxText makes a checkpoint of every layer, whatever the policy, and has none that keeps everything.
Expected<std::string> remat_policy(const CostedPlan& plan) {
  const StageRecompute& recompute = plan.parallelism().recompute;
  if (plan.recomputes_layers()) return "remat_policy: full\n";
  if (recompute.any(Recompute::full)) {
    return layerwise_recompute(plan, "MaxText").map([](const std::string& comment) {
      return "remat_policy: full\n" + comment;
    });
  }
  const std::string wanted = recompute.any(Recompute::selective) ? "selective" : "none";
  return "remat_policy: minimal_with_context\n# not written: recompute " + wanted +
         "; this policy keeps all products and makes again what is between them\n";
}

}  // namespace

Expected<std::string> maxtext_settings(const CostedPlan& plan) {
  PPSIM_RETURN_IF_ERROR(check(plan));
  const Parallelism& parallelism = plan.parallelism();
  const std::string& schedule = plan.row.choice.schedule;
  std::ostringstream text;
  text << mesh(plan);
  if (!parallelism.sharded_parameters && plan.work.stack.sharded_optimizer && parallelism.data > 1)
    text << "shard_optimizer_over_data: true\n";
  PPSIM_ASSIGN_OR_RETURN(const auto remat, remat_policy(plan));
  text << batch(plan) << stages(plan) << remat;
  if (parallelism.tensor > 1 && plan.has_whole_experts())
    text << "# not written: experts that are whole on a GPU, which MaxText splits over tp as well\n";
  if (parallelism.pipeline > 1 && schedule != "gpipe" && schedule != "looped-bfs")
    text << "# MaxText has no schedule " << schedule << ": it runs gpipe, circular with chunks\n";
  return text.str() + left_out(plan);
}

}  // namespace ppsim::planner::exporting
