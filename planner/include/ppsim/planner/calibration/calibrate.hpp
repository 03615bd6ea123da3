#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ppsim/core/execution/analyzed_program.hpp"
#include "ppsim/core/io/json.hpp"
#include "ppsim/planner/traces/measured_steps.hpp"
#include "ppsim/workload/analytic.hpp"
#include "ppsim/workload/calibration.hpp"

namespace ppsim::planner {

/// The values that a calibration finds for a model.
enum class CalibrationFit : std::uint8_t {
  factors,    ///< one of each kind of action
  constants,  ///< those of FittedConstants
  both,       ///< these, then those
};

struct CalibrationRequest {
  const AnalyzedProgram* program = nullptr;  ///< of the steps; may be null without any
  MeasuredSteps steps;
  std::optional<CostTable> costs;  ///< that are compared before; with a workload its own
  std::optional<Workload> workload;
  CalibrationFit fit = CalibrationFit::factors;
  /// Several of one operation and group count together, a size that several have with its mean. They take the
  /// place of what the workload's calibration has of it.
  std::vector<MeasuredCollective> collectives;
};

/// Errors of one group of times, as shares. Of actions of a kind: the absolute errors of its cost classes,
/// each what all its actions take together, over what the group takes. Of communication: the mean over all
/// sizes. Of the step: of itself, below 0 where the simulated one is too short.
struct CalibrationGroup {
  std::string name;               ///< "F", "all_reduce of 16 GPUs, 8 a node", "step"
  std::int64_t observations = 0;  ///< actions, sizes, steps
  double measured_ns = 0;         ///< together; of the step: the mean
  std::optional<double> before;   ///< of the costs that were given; nothing: there are none
  double after = 0;               ///< of the calibrated ones
  /// Of what one half of the observations alone gives, on the other half: every other step, or of one step
  /// every other action of a class, every other size. Nothing where a half has none, or too little.
  std::optional<double> other_half;
  friend bool operator==(const CalibrationGroup&, const CalibrationGroup&) = default;
};

struct CalibrationResult {
  Tables measured;          ///< the mean of each cost class, as a table for --costs
  Calibration calibration;  ///< for --calibration; the one of the workload, with what was found
  std::vector<CalibrationGroup> groups;
  /// The mean of steps that are put together of ranks of different measured steps, with the gaps between
  /// their actions: the step that is to be expected where ranks vary independently of each other. A step of
  /// mean costs has neither the gaps nor the waits for whichever rank is slow. Nothing for fewer than four
  /// steps and for those that took no time.
  std::optional<CalibrationGroup> varied;
};

/// Takes costs from measurements, and says how far the given and the found ones are off. With a workload the
/// factor of a kind is what its actions took over what the model says; constants are those values of the
/// grid of `validate --refit` that explain the times of all classes best, from those that the model has.
/// Errors: bad_argument without measurements, and for a factor below kMinFactor or above kMaxFactor; those of
/// analytic_costs and of simulating.
[[nodiscard]] Expected<CalibrationResult> calibrate(const CalibrationRequest& request);

}  // namespace ppsim::planner

namespace ppsim {
using planner::calibrate;
using planner::CalibrationFit;
using planner::CalibrationGroup;
using planner::CalibrationRequest;
using planner::CalibrationResult;
}  // namespace ppsim
