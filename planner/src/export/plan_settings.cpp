#include "ppsim/planner/plan_settings.hpp"

#include "frameworks.hpp"
#include "plan/row.hpp"
#include "ppsim/core/ir/check.hpp"

namespace ppsim::planner {

std::string exporting::left_out(const CostedPlan& plan) {
  if (plan.spread().dtype == DataType::bf16) return "";
  return "# not written: the number format of products, which is not bf16\n";
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
