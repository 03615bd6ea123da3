#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "ppsim/core/execution/timed_trace.hpp"
#include "ppsim/core/ir/error.hpp"
#include "ppsim/core/ir/program.hpp"

namespace ppsim::planner {

/// Measured steps of one Program.
struct MeasuredSteps {
  std::vector<TimedTrace> traces;  ///< one a step
  /// They are of a profiler that has ranges of computation alone, and these may contain waits for messages.
  bool computation_alone = false;
};

/// Takes out steps that something disturbed, such as a host that gave a core to others: those whose duration
/// is outside the quartiles by more than 1.5 times the distance between these (Tukey, Exploratory Data
/// Analysis, 1977, section 2D), and by more than 1 % of the median. Of fewer than 8 steps none.
/// Returns: how many.
std::size_t leave_out_disturbed(MeasuredSteps& steps);

/// The mean duration of steps, in nanoseconds. Requires: at least one.
[[nodiscard]] double mean_step(const std::vector<TimedTrace>& traces);

/// Every other item goes to the one half, the first one included.
template <class Item>
[[nodiscard]] std::pair<std::vector<Item>, std::vector<Item>> alternate(const std::vector<Item>& items) {
  std::pair<std::vector<Item>, std::vector<Item>> halves;
  for (std::size_t i = 0; i < items.size(); ++i)
    (i % 2 == 0 ? halves.first : halves.second).push_back(items[i]);
  return halves;
}

/// Reads traces of a Program: `.csv` files of ours, each a step, or folders of them; or files of PyTorch's
/// profiler (`.json`, or folders of them) or of Nsight Systems (`.sqlite`), together the newest step of all
/// ranks.
/// Errors: those of the readers; bad_argument where both kinds are given.
[[nodiscard]] Expected<MeasuredSteps> read_measured_steps(const std::vector<std::string>& paths,
                                                          const Program& program);

}  // namespace ppsim::planner

namespace ppsim {
using planner::alternate;
using planner::leave_out_disturbed;
using planner::mean_step;
using planner::MeasuredSteps;
using planner::read_measured_steps;
}  // namespace ppsim
