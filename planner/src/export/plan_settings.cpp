#include "ppsim/planner/plan_settings.hpp"

#include <algorithm>

#include "frameworks.hpp"
#include "plan/row.hpp"
#include "ppsim/core/ir/check.hpp"

namespace ppsim::planner {

std::string exporting::layerwise_recompute(const CostedPlan& plan, const std::string& framework) {
  const auto has_several = [](const StageContents& stage) { return stage.layers > 1; };
  if (std::ranges::none_of(plan.row.layout.stages, has_several)) return "";
  Workload work = plan.work;
  work.stack.checkpoints = checkpoint_policy_from_name("nothing_saveable");
  return "# costed as recompute of a whole stage at once; " + framework +
         " recomputes layer by layer, and keeps the input of every layer" +
         (workload::check_checkpoints(work) ? ": --fix recompute=nothing_saveable costs that" : "") + "\n";
}

std::string exporting::left_out(const CostedPlan& plan) {
  if (plan.parallelism().dtype == DataType::bf16) return "";
  return "# not written: the number format of products, which is not bf16\n";
}

Expected<void> exporting::check_key_heads(const CostedPlan& plan, const std::string& framework) {
  const ModelDescription& model = plan.work.model;
  const int tensor = plan.parallelism().tensor;
  if (model.kv_lora > 0 || model.kv_heads % tensor == 0) return {};
  return refusal(framework + " divides the heads of keys and values by tp",
                 "--fix tp to a divisor of " + std::to_string(model.kv_heads),
                 "tp=" + std::to_string(tensor) + ", " + std::to_string(model.kv_heads) + " such heads");
}

Expected<std::string> plan_settings(Framework framework, const PlanRequest& request, const PlanRow& row) {
  const Workload work = workload_of(request, row.choice);
  const exporting::CostedPlan plan{row, work};
  switch (framework) {
    case Framework::torchtitan:
      return exporting::torchtitan_settings(plan);
    case Framework::megatron:
      return exporting::megatron_settings(plan);
    case Framework::maxtext:
      return exporting::maxtext_settings(plan);
  }
  PPSIM_CHECK(false, "unknown framework");
}

}  // namespace ppsim::planner
