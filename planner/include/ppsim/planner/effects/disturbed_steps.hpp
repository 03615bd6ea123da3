#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ppsim/planner/effects/step_spread.hpp"

namespace ppsim::planner {

/// The steps whose costs step_spread draws, one by one, for a run to take their times: sample k of a seed is
/// the same in both. What follows the pipeline is not in them, as in a run.
class DisturbedSteps {
 public:
  /// Errors: those of step_spread.
  [[nodiscard]] static Expected<DisturbedSteps> make(const SimulatedStep& step,
                                                     const Disturbances& disturbances, std::uint64_t seed);

  /// The costs that are disturbed.
  [[nodiscard]] const CostTable& costs() const;
  /// The first steps. Errors: throws Overflow for what does not fit in 64 bits.
  [[nodiscard]] std::vector<Nanoseconds> steps(int count) const;
  /// The duration of each action of the Program in a sample, as RunOptions::action_times has it.
  [[nodiscard]] std::vector<Nanoseconds> action_times(std::uint64_t sample) const;
  /// When each instruction starts and ends in a sample.
  [[nodiscard]] TimedTrace trace(std::uint64_t sample) const;

 private:
  struct Parts;
  explicit DisturbedSteps(std::shared_ptr<const Parts> parts) : parts_(std::move(parts)) {}

  std::shared_ptr<const Parts> parts_;
};

}  // namespace ppsim::planner

namespace ppsim {
using planner::DisturbedSteps;
}  // namespace ppsim
