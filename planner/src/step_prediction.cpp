#include "step_prediction.hpp"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "ppsim/core/execution/analyzed_program.hpp"
#include "ppsim/gpu_backend/executor/measured_costs.hpp"
#include "ppsim/planner/effects/disturbed_steps.hpp"
#include "ppsim/simulator/engine/compiled_program.hpp"
#include "ppsim/simulator/engine/simulate.hpp"

namespace ppsim::planner {
namespace {

/// Steps of one Program from costs.
class StepSimulator {
 public:
  StepSimulator(const AnalyzedProgram& analyzed, CompiledProgram compiled)
      : analyzed_(analyzed), compiled_(std::move(compiled)) {}

  /// The mean time of everything in one step: nothing is left out, so that it adds up to the step.
  [[nodiscard]] CostTable costs_of(const TimedTrace& step) const {
    return mean_costs(measured_durations(analyzed_, {&step, 1}), 0);
  }

  Expected<Nanoseconds> makespan(const CostTable& costs) {
    PPSIM_ASSIGN_OR_RETURN(const auto bound, bind_costs(compiled_, costs));
    return simulate(compiled_, bound, scratch_).makespan;
  }

  [[nodiscard]] Expected<TimedTrace> trace(const CostTable& costs) const {
    PPSIM_ASSIGN_OR_RETURN(const auto bound, bind_costs(compiled_, costs));
    return simulate_trace(compiled_, analyzed_.timed_graph(), bound);
  }

 private:
  const AnalyzedProgram& analyzed_;
  CompiledProgram compiled_;
  SimulationScratch scratch_;
};

/// Of a run's kept traces, oldest first, those that the one before them predicts: every other one from the
/// last on. The oldest predicts none where there are three or more, for in a first step caches are cold.
std::vector<std::size_t> predicted_by_the_one_before(std::size_t kept) {
  std::vector<std::size_t> predicted;
  const std::size_t first = kept > 2 ? 2 : 1;
  for (std::size_t i = kept; i > first; i -= 2) predicted.push_back(i - 1);
  return predicted;
}

/// The one of a middle value, of two the smaller.
std::size_t median(std::vector<std::pair<double, std::size_t>> candidates) {
  const auto middle = candidates.begin() + static_cast<std::ptrdiff_t>((candidates.size() - 1) / 2);
  std::nth_element(candidates.begin(), middle, candidates.end());
  return middle->second;
}

/// Given costs predict every step.
void choose_by_time(VerifiedRun& result, std::span<const Nanoseconds> times) {
  std::vector<std::pair<double, std::size_t>> steps;
  for (std::size_t i = 0; i < times.size(); ++i) steps.emplace_back(static_cast<double>(times[i]), i);
  result.predicted_steps = steps.size();
  result.compared = median(std::move(steps));
}

/// The costs of a step predict the next, so that a machine that changes its speed changes it for both.
Expected<void> choose_by_ratio(StepSimulator& simulator, VerifiedRun& result,
                               std::span<const Nanoseconds> times) {
  const std::vector<TimedTrace>& traces = result.run.traces;
  std::vector<std::pair<double, std::size_t>> steps;
  for (const std::size_t i : predicted_by_the_one_before(traces.size())) {
    PPSIM_ASSIGN_OR_RETURN(const auto simulated, simulator.makespan(simulator.costs_of(traces[i - 1])));
    steps.emplace_back(static_cast<double>(times[i]) / std::max(1.0, static_cast<double>(simulated)), i);
  }
  result.predicted_steps = std::max<std::size_t>(steps.size(), 1);
  result.compared = steps.empty() ? 0 : median(std::move(steps));
  result.costs = simulator.costs_of(traces[result.compared - (traces.size() > 1 ? 1 : 0)]);
  return {};
}

/// Chooses the step that is shown, and the costs that predict it.
Expected<void> choose(StepSimulator& simulator, const CostTable* given, VerifiedRun& result) {
  const auto times = std::span<const Nanoseconds>(result.run.step_ns).last(result.run.traces.size());
  if (given == nullptr && result.timed()) {
    PPSIM_RETURN_IF_ERROR(choose_by_ratio(simulator, result, times));
  } else {
    choose_by_time(result, times);
    if (given != nullptr) result.costs = *given;
  }
  result.measured_step_ns = times[result.compared];
  return {};
}

/// The chosen step with the costs of its own actions.
Expected<void> repeat(StepSimulator& simulator, VerifiedRun& result) {
  PPSIM_ASSIGN_OR_RETURN(const auto repeated,
                         simulator.makespan(simulator.costs_of(result.compared_trace())));
  result.repeated_step_ns = repeated;
  return {};
}

/// The chosen step with the costs that predict it.
Expected<void> foretell(const StepSimulator& simulator, const DisturbedSteps* disturbed,
                        VerifiedRun& result) {
  if (disturbed != nullptr) {
    const std::size_t forgotten = result.run.step_ns.size() - result.run.traces.size();
    result.simulated = disturbed->trace(forgotten + result.compared);
  } else {
    PPSIM_ASSIGN_OR_RETURN(result.simulated, simulator.trace(result.costs));
  }
  Nanoseconds last = 0;
  for (const Span& span : result.simulated.spans) last = std::max(last, span.end.time);
  result.simulated_step_ns = last;
  return {};
}

}  // namespace

Expected<void> predict_steps(const AnalyzedProgram& ran, const VerifiedRunOptions& options,
                             VerifiedRun& result) {
  // A run that was not proved may have finished although waits that may occur would have kept it from it.
  const AnalyzedProgram analyzed =
      ran.order().complete ? ran : AnalyzedProgram(ran.program(), timed(ran.capabilities()));
  auto compiled = compile(analyzed);
  if (!compiled) return make_error(ErrorCode::deadlock, "the simulator is stuck on a Program that ran");
  StepSimulator simulator(analyzed, *std::move(compiled));
  const DisturbedSteps* const disturbed = options.disturbed;
  const CostTable* const given = disturbed != nullptr ? &disturbed->costs() : options.costs;
  PPSIM_RETURN_IF_ERROR(choose(simulator, given, result));
  if (disturbed != nullptr)
    result.disturbed_steps_ns = disturbed->steps(static_cast<int>(result.run.step_ns.size()));
  if (result.timed()) {
    const std::span<const TimedTrace> traces = result.run.traces;
    const auto durations = measured_durations(analyzed, traces.subspan(traces.size() > 1 ? 1 : 0));
    result.measured = {mean_costs(durations), {}, cost_spreads(durations)};
    if (disturbed == nullptr) PPSIM_RETURN_IF_ERROR(repeat(simulator, result));
  }
  if (given == nullptr && !result.timed()) return {};
  return foretell(simulator, disturbed, result);
}

}  // namespace ppsim::planner
