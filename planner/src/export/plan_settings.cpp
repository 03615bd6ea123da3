#include "ppsim/planner/plan_settings.hpp"

#include <algorithm>
#include <cmath>

#include "frameworks.hpp"
#include "plan/row.hpp"
#include "ppsim/core/ir/check.hpp"
#include "ppsim/core/text/as_text.hpp"

namespace ppsim::planner {
namespace {

std::string gigabytes(Bytes bytes) {
  return as_text(std::round(static_cast<double>(bytes) / 1e7) / 100) + " GB";
}

}  // namespace

Expected<std::string> exporting::layerwise_recompute(const CostedPlan& plan, const std::string& framework) {
  const auto has_several = [](const StageContents& stage) { return stage.layers > 1; };
  if (std::ranges::none_of(plan.row.layout.stages, has_several)) return "";
  const std::string does = framework + " recomputes layer by layer, and keeps the input of every layer";
  const std::string comment = "# costed as recompute of a whole stage at once; " + does;
  PlanChoice layers = plan.row.choice;
  layers.parallelism.recompute = Recompute::selective;  // by the policy
  layers.checkpoints = checkpoint_policy_from_name("nothing_saveable");
  if (!workload::check_checkpoints(workload_of(plan.request, layers)))
    return comment + ", which is not priced\n";
  PPSIM_ASSIGN_OR_RETURN(const auto step, evaluate_choice(plan.request, layers, &plan.row.layout));
  const PlanRow row = row_of(step, layers);
  const std::string memory = gigabytes(row.peak_bytes);
  const Bytes spare = plan.request.min_spare_bytes;
  if (row.spare_bytes() < spare) {
    return refusal(does, "--fix recompute=nothing_saveable, or less memory",
                   memory + " of " + gigabytes(row.memory_limit - spare) +
                       (spare > 0 ? ", which --min-spare-memory leaves" : ""));
  }
  return comment + ": " + as_text(std::round(static_cast<double>(row.step) / 1e6) / 1e3) + " s" + ", " +
         memory + "\n";
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
  const exporting::CostedPlan plan{request, row, work};
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
