#include "ppsim/planner/prediction.hpp"

#include <algorithm>
#include <cmath>

#include "percentile.hpp"
#include "ppsim/planner/costs/table_coverage.hpp"
#include "ppsim/planner/run_comparison.hpp"

namespace ppsim::planner {
namespace {

double share_off(Nanoseconds simulated, Nanoseconds measured) {
  if (measured == 0) return 0;
  return static_cast<double>(simulated - measured) / static_cast<double>(measured);
}

void scale_computation(CostTable& costs, double factor) {
  CostTable scaled;
  for (const auto& [key, cost] : costs.entries())
    scaled.set(key, is_compute(key.kind) ? std::llround(static_cast<double>(cost) * factor) : cost);
  costs = std::move(scaled);
}

/// Puts what the slowdowns make of the step where it was simulated without them.
Expected<void> simulate_slowed(const AnalyzedProgram& analyzed, const SlowdownFit& slowdowns,
                               Prediction& prediction) {
  PPSIM_ASSIGN_OR_RETURN(const auto slowed, simulate_under_load(analyzed, slowdowns));
  prediction.undisturbed = {prediction.simulated_step_ns, prediction.simulated_bubble};
  const SizeTable no_sizes;
  prediction.simulated_step_ns = step_times(analyzed.program(), slowed.trace).makespan;
  prediction.simulated_bubble = idle_split({analyzed, slowed.trace, slowed.costs, no_sizes}).bubble();
  return {};
}

}  // namespace

double Prediction::step_error() const { return share_off(simulated_step_ns, measured_step_ns); }

double Prediction::undisturbed_step_error() const {
  return share_off(undisturbed ? undisturbed->step_ns : simulated_step_ns, measured_step_ns);
}

Expected<Prediction> predict(const AnalyzedProgram& analyzed, const StageModel& model, const RunOptions& run,
                             const ExpectedTimes& expected) {
  PPSIM_RETURN_IF_ERROR(check_costs(expected.costs, analyzed.program()));
  const auto ran = verify_then_run(analyzed, model, {.run = run, .costs = &expected.costs});
  PPSIM_RETURN_IF_ERROR(ran);
  if (ran->run.outcome == RunOutcome::deadlock) return make_error(ErrorCode::deadlock, "the run hung");
  if (!ran->timed()) return make_error(ErrorCode::bad_argument, "a run without profile has no bubble");
  const RunComparison comparison = compare_run(analyzed, *ran);
  Prediction prediction{.step_ns = ran->run.step_ns,
                        .measured_step_ns = ran->measured_step_ns,
                        .simulated_step_ns = ran->simulated_step_ns.value_or(0),
                        .measured_bubble = comparison.measured.bubble(),
                        .simulated_bubble = comparison.simulated.bubble(),
                        .host = ran->run.host};
  if (expected.slowdowns != nullptr)
    PPSIM_RETURN_IF_ERROR(simulate_slowed(analyzed, *expected.slowdowns, prediction));
  return prediction;
}

Expected<SlowedStep> simulate_under_load(const AnalyzedProgram& analyzed, const SlowdownFit& slowdowns) {
  SlowedStep step{.costs = slowdowns.alone};
  const auto simulate_once = [&]() -> Expected<void> {
    PPSIM_ASSIGN_OR_RETURN(auto run,
                           simulate_on_devices(analyzed, {step.costs, CostTable()}, slowdowns.devices));
    if (!run) return make_error(ErrorCode::deadlock, "the simulator is stuck on a Program that ran");
    step.trace = *std::move(run);
    return {};
  };
  PPSIM_RETURN_IF_ERROR(simulate_once());
  if (slowdowns.load.exponent == 0) return step;
  // Once more is enough: one factor on all computation leaves the busy share nearly as it is.
  scale_computation(step.costs, slowdowns.load.factor(busy_share(analyzed.program(), step.trace)));
  PPSIM_RETURN_IF_ERROR(simulate_once());
  return step;
}

ErrorSummary summarize(std::vector<double> errors) {
  if (errors.empty()) return {};
  for (double& error : errors) error = std::abs(error);
  std::ranges::sort(errors);
  return {middle_of(errors), percentile(errors, 0.95), errors.back()};
}

}  // namespace ppsim::planner
