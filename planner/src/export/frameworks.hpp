#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "ppsim/planner/plan_settings.hpp"

namespace ppsim::planner::exporting {

/// Errors: refused, bad_argument.
[[nodiscard]] Expected<Export> for_torchtitan(const Schedule& schedule, const std::vector<int>& layers);
[[nodiscard]] Expected<Export> for_megatron(const Schedule& schedule, const std::vector<int>& layers);
[[nodiscard]] Expected<Export> for_maxtext(const Schedule& schedule, const std::vector<int>& layers);

/// A plan and the workload that it was costed for.
struct CostedPlan {
  const PlanRequest& request;
  const PlanRow& row;
  const Workload& work;

  [[nodiscard]] const Parallelism& parallelism() const { return row.choice.parallelism; }
  /// Stages of each rank.
  [[nodiscard]] int chunks() const {
    return static_cast<int>(row.layout.stages.size()) / std::max(1, parallelism().pipeline);
  }
  /// True where each layer is checkpointed, and nothing but its input is kept.
  [[nodiscard]] bool recomputes_layers() const { return row.choice.checkpoints.has_value(); }
  /// True where experts have a group of their own and are not split over the tensor-parallel one as well.
  [[nodiscard]] bool has_whole_experts() const {
    return work.model.experts > 0 && parallelism().expert > 1 && !work.stack.split_experts;
  }
};

/// Errors: refused.
[[nodiscard]] Expected<std::string> megatron_settings(const CostedPlan& plan);
[[nodiscard]] Expected<std::string> torchtitan_settings(const CostedPlan& plan);
[[nodiscard]] Expected<std::string> maxtext_settings(const CostedPlan& plan);

/// Comments on what no framework is told in these settings.
[[nodiscard]] std::string left_out(const CostedPlan& plan);

/// A comment: the framework recomputes layer by layer, which holds what one layer needs instead of what a
/// stage needs, and keeps the input of every layer of each live microbatch instead of that of the stage. It
/// says what that takes, where it is priced. Empty where no stage has several layers.
/// Errors: refused where it does not fit.
[[nodiscard]] Expected<std::string> layerwise_recompute(const CostedPlan& plan, const std::string& framework);

/// True where the ranks compute what those of a schedule of the registry compute, idle steps aside.
[[nodiscard]] bool has_rows_of(const Schedule& schedule, const std::string& name, int chunks);
/// Stages of each rank; 0: not the same number on all.
[[nodiscard]] int chunks_of(const Pipeline& pipeline);
/// Errors: refused where a rank of the plan has a copy of heads of keys and values, and not heads of its own.
[[nodiscard]] Expected<void> check_key_heads(const CostedPlan& plan, const std::string& framework);
/// Errors: refused.
[[nodiscard]] tl::unexpected<Error> refusal(const std::string& why, const std::string& expected,
                                            const std::string& found = "");

}  // namespace ppsim::planner::exporting
