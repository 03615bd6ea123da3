#include "ppsim/planner/effects/checkpoint.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "ppsim/core/ir/inference.hpp"
#include "ppsim/core/ir/overflow.hpp"

namespace ppsim::planner {
namespace {

constexpr double kGiga = 1e9;
constexpr double kWeight = 2;  // bf16
constexpr double kMaster = 4;  // float32

Expected<void> check(const CheckpointPlan& plan, const SimulatedStep& planned) {
  if (!trains(planned.program()))
    return make_error(ErrorCode::bad_argument, "a schedule without backwards has nothing to checkpoint",
                      {.found = planned.name, .expected = "a schedule that trains, such as 1f1b"});
  const auto above_zero = [](double value) { return value > 0 && std::isfinite(value); };
  if (!above_zero(plan.storage) || !above_zero(plan.node_storage.value_or(1)))
    return make_error(ErrorCode::bad_argument, "storage writes at a rate above 0",
                      {.found = "a rate of 0", .expected = "bytes a second above 0"});
  if (plan.steps < 1 || !above_zero(plan.mean_time_between_failures.value_or(1)))
    return make_error(ErrorCode::bad_argument, "checkpoints and failures have time between them",
                      {.found = "none", .expected = "1 step or more, and a time above 0"});
  if (planned.step() <= 0)
    return make_error(ErrorCode::bad_argument, "a checkpoint is held against a step that takes time",
                      {.found = "0 ns", .expected = "costs of a model"});
  return {};
}

/// Parameters that pipeline ranks write. A stage has `gpus` of which `tensor` are the first replica of all
/// but experts.
class WrittenParameters {
 public:
  WrittenParameters(const Pipeline& pipeline, const Parallelism& parallelism, const AnalyticCosts& costs)
      : tensor_(parallelism.tensor),
        gpus_(static_cast<double>(parallelism.tensor) * parallelism.context * parallelism.data),
        held_(as_size(pipeline.ranks())) {
    std::set<std::pair<RankId, BlockId>> holdings;
    for (const StageId stage : pipeline.stage_ids()) {
      for (const BlockId block : pipeline.blocks_of(stage)) holdings.emplace(pipeline.rank_of(stage), block);
    }
    for (const auto& [rank, block] : holdings) {
      const auto found = costs.parameters.find(block);
      if (found == costs.parameters.end()) continue;
      const HeldParameters& held = found->second;
      held_[rank.index()].dense += held.dense / held.copies;
      held_[rank.index()].experts += held.experts / held.copies;
      expert_shards_ = gpus_ / held.expert_replicas;
    }
  }

  /// The largest part of all parameters that one GPU writes.
  [[nodiscard]] double largest_part(bool all_replicas) const {
    double all = 0;
    double largest = 0;
    for (const HeldParameters& held : held_) {
      const double whole = tensor_ * held.dense + expert_shards_ * held.experts;
      all += whole;
      largest = std::max(largest, all_replicas ? whole / gpus_ : held.dense + held.experts);
    }
    return largest / all;
  }

  /// Nodes with a GPU that writes.
  [[nodiscard]] int nodes(const Workload& workload, bool all_replicas) const {
    const Parallelism& parallelism = workload.parallelism;
    const int inner = parallelism.tensor * parallelism.context;
    const bool apart = parallelism.rank_order == RankOrder::tp_cp_pp_dp;
    std::set<int> nodes;
    for (std::size_t rank = 0; rank < held_.size(); ++rank) {
      const double experts = held_[rank].experts > 0 ? expert_shards_ : 0;
      const auto writers = static_cast<int>(all_replicas ? gpus_ : std::max(tensor_, experts));
      for (int i = 0; i < writers; ++i) {
        const int first = static_cast<int>(rank) * (apart ? inner : parallelism.data * inner);
        const int gpu = apart ? i / inner * inner * parallelism.pipeline + first + i % inner : first + i;
        nodes.insert(gpu / workload.cluster.node.gpus);
      }
    }
    return static_cast<int>(nodes.size());
  }

 private:
  double tensor_;
  double gpus_;
  double expert_shards_ = 1;
  std::vector<HeldParameters> held_;
};

Nanoseconds nanoseconds(double bytes, double rate) { return checked_round(bytes / rate * kGiga); }

std::optional<double> best_steps(Nanoseconds wait, Nanoseconds step, const CheckpointPlan& plan) {
  if (!plan.mean_time_between_failures) return std::nullopt;
  const double best = std::sqrt(2 * static_cast<double>(wait) * *plan.mean_time_between_failures * kGiga);
  return std::max(1.0, best / static_cast<double>(step));
}

CheckpointWait waiting(Nanoseconds each, Nanoseconds step, const CheckpointPlan& plan) {
  const auto wait = static_cast<double>(each);
  CheckpointWait result{.each = each, .a_step = wait / static_cast<double>(plan.steps), .share = 0};
  result.share = result.a_step / (result.a_step + static_cast<double>(step));
  result.best_steps = best_steps(each, step, plan);
  return result;
}

}  // namespace

Expected<CheckpointCost> checkpoint_cost(const SimulatedStep& planned, const Workload& workload,
                                         const CheckpointPlan& plan) {
  PPSIM_RETURN_IF_ERROR(check(plan, planned));
  const Nanoseconds step = planned.step();
  const NodeDescription& node = workload.cluster.node;
  const Pipeline& pipeline = planned.program().pipeline();
  PPSIM_ASSIGN_OR_RETURN(const auto costs, analytic_costs(workload, pipeline));
  const WrittenParameters written(pipeline, workload.parallelism, costs);
  CheckpointCost cost{.writing_nodes = written.nodes(workload, plan.all_replicas)};
  const double each = kWeight + kMaster + 2.0 * workload.stack.moment_bytes;
  cost.bytes = each * static_cast<double>(parameter_count(workload.model));
  cost.gpu_bytes = cost.bytes * written.largest_part(plan.all_replicas);
  const double network = node.node_gbytes.value_or(0) * kGiga;
  const double of_node = plan.node_storage.value_or(network > 0 ? network : plan.storage);
  cost.copy = nanoseconds(cost.gpu_bytes, workload.cluster.gpu.host_gbytes * kGiga);
  cost.write = nanoseconds(cost.bytes, std::min(plan.storage, of_node * cost.writing_nodes));
  cost.together = waiting(checked_add(cost.copy, cost.write), step, plan);
  // The write has the steps up to the next checkpoint, and that one's copy needs its memory.
  const double room = static_cast<double>(step) * static_cast<double>(plan.steps);
  const double late = std::max(0.0, static_cast<double>(cost.write) - room);
  cost.beside = waiting(checked_add(cost.copy, checked_round(late)), step, plan);
  // Less often than storage can take them, since then training waits for it after all.
  if (cost.beside.best_steps) {
    const double writes = std::ceil(static_cast<double>(cost.write) / static_cast<double>(step));
    cost.beside.best_steps = std::max(writes, *best_steps(cost.copy, step, plan));
  }
  return cost;
}

}  // namespace ppsim::planner
