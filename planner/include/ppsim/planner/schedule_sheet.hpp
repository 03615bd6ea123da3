#pragma once

#include <string>
#include <vector>

#include "ppsim/schedules/registry.hpp"

namespace ppsim::planner {

/// A schedule of the registry and what it costs on a small example: simulated at F=I=W=1, B=2, FB=3 of one
/// stage, without transfer times.
struct ScheduleSheet {
  const ScheduleInfo* info = nullptr;
  ScheduleParameters example;
  double bubble_fraction = 0;       ///< 1 - mean busy / makespan
  double bubble_fraction_span = 0;  ///< 1 - busy / span of the longest rank
  /// Most activations on a rank, where 1 is all that one microbatch leaves there between F and backward.
  double peak_activations = 0;
  /// Parameters on the rank that holds most, where 1 is a p-th of the model.
  double parameter_copies = 0;
  std::string picture;  ///< SVG of the example's timeline, a row per rank
};

/// The example has 4 ranks and 8 microbatches, or the nearest that the schedule accepts.
/// Errors: those of generate and simulation.
[[nodiscard]] Expected<ScheduleSheet> schedule_sheet(const ScheduleInfo& info);

/// docs/schedules.md: a Markdown page with a section and a picture for each sheet, in the given order.
/// Pictures are looked for in `schedules/NAME.svg` beside the page.
[[nodiscard]] std::string schedule_page(const std::vector<ScheduleSheet>& sheets);

}  // namespace ppsim::planner

namespace ppsim {
using planner::schedule_page;
using planner::schedule_sheet;
using planner::ScheduleSheet;
}  // namespace ppsim
