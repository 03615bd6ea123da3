#pragma once

#include <optional>
#include <vector>

#include "ppsim/planner/calibration/slowdown_fit.hpp"
#include "ppsim/planner/verified_run.hpp"

namespace ppsim::planner {

/// A run beside what the simulator made of costs that were measured before it.
struct Prediction {
  std::vector<Nanoseconds> step_ns;  ///< as measured
  Nanoseconds measured_step_ns = 0;  ///< the median of them
  Nanoseconds simulated_step_ns = 0;
  double measured_bubble = 0;  ///< idle share of the compute queues in that step
  double simulated_bubble = 0;
  /// The same where no rank slows another one down, and each action takes the mean of what it took.
  struct Undisturbed {
    Nanoseconds step_ns = 0;
    double bubble = 0;
  };
  std::optional<Undisturbed> undisturbed;  ///< where slowdowns were given
  HostTime host;

  /// The error of the simulated step, as a share of the measured one; below 0 where it is too short.
  [[nodiscard]] double step_error() const;
  /// The error where no rank slows another one down; that of the step where no slowdowns were given.
  [[nodiscard]] double undisturbed_step_error() const;
  /// The error of the simulated bubble, in shares of the step.
  [[nodiscard]] double bubble_error() const { return simulated_bubble - measured_bubble; }
};

/// Times of actions, on which a prediction rests.
struct ExpectedTimes {
  const CostTable& costs;
  const SlowdownFit* slowdowns = nullptr;  ///< null: ranks leave each other alone
};

/// A step of ranks that slow each other down, and the costs that it was simulated with.
struct SlowedStep {
  TimedTrace trace = {};
  CostTable costs;
};
/// A step with the slowdowns of a fit, under the load that it makes itself. Errors: those of
/// simulate_on_devices; deadlock for a Program that hangs.
[[nodiscard]] Expected<SlowedStep> simulate_under_load(const AnalyzedProgram& analyzed,
                                                       const SlowdownFit& slowdowns);

/// Proves, runs and simulates a Program with the costs of every action measured beforehand, by profile().
/// With `slowdowns` ranks that share a device slow each other down in the simulation. Errors: those of
/// verify_then_run; bad_argument naming an action whose costs are missing; deadlock for a Program that hangs.
/// Requires: a Program analyzed on the transport of the run, capabilities_of().
[[nodiscard]] Expected<Prediction> predict(const AnalyzedProgram& analyzed, const StageModel& model,
                                           const RunOptions& run, const ExpectedTimes& expected);

/// Absolute errors of many predictions together.
struct ErrorSummary {
  double median = 0;  ///< of an even number the mean of both in the middle
  double p95 = 0;     ///< 95 of 100 are not larger
  double largest = 0;
  friend bool operator==(const ErrorSummary&, const ErrorSummary&) = default;
};
/// All 0 of no errors.
[[nodiscard]] ErrorSummary summarize(std::vector<double> errors);

}  // namespace ppsim::planner

namespace ppsim {
using planner::ErrorSummary;
using planner::ExpectedTimes;
using planner::predict;
using planner::Prediction;
using planner::simulate_under_load;
using planner::SlowedStep;
using planner::summarize;
}  // namespace ppsim
