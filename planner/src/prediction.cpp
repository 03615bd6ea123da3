#include "ppsim/planner/prediction.hpp"

#include <algorithm>
#include <cmath>

#include "percentile.hpp"
#include "ppsim/planner/costs/table_coverage.hpp"
#include "ppsim/planner/run_comparison.hpp"

namespace ppsim::planner {
double Prediction::step_error() const {
  if (measured_step_ns == 0) return 0;
  return static_cast<double>(simulated_step_ns - measured_step_ns) / static_cast<double>(measured_step_ns);
}

Expected<Prediction> predict(const Program& program, const StageModel& model, const RunOptions& run,
                             const CostTable& costs) {
  PPSIM_RETURN_IF_ERROR(check_costs(costs, program));
  const auto ran = verify_then_run(program, model, {.run = run, .costs = &costs});
  if (!ran) return tl::unexpected(ran.error());
  if (ran->run.outcome == RunOutcome::deadlock) return make_error(ErrorCode::deadlock, "the run hung");
  if (!ran->timed()) return make_error(ErrorCode::bad_argument, "a run without profile has no bubble");
  const RunComparison comparison = compare_run(program, run.capabilities, *ran);
  return Prediction{.step_ns = ran->run.step_ns,
                    .measured_step_ns = ran->measured_step_ns,
                    .simulated_step_ns = ran->simulated_step_ns.value_or(0),
                    .measured_bubble = comparison.measured.bubble(),
                    .simulated_bubble = comparison.simulated.bubble(),
                    .host = ran->run.host};
}

ErrorSummary summarize(std::vector<double> errors) {
  if (errors.empty()) return {};
  for (double& error : errors) error = std::abs(error);
  std::sort(errors.begin(), errors.end());
  return {percentile(errors, 0.5), percentile(errors, 0.95), errors.back()};
}

}  // namespace ppsim::planner
