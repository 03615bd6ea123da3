#pragma once

#include <functional>
#include <optional>

#include "ppsim/core/ir/repetition.hpp"
#include "ppsim/core/ir/schedule.hpp"
#include "ppsim/core/ir/tables.hpp"

namespace ppsim::planner {

/// A schedule and the costs that IssueOrder::timed follows.
struct CostedSchedule {
  Schedule schedule;
  CostTable costs;
};
/// For a number of microbatches; bad_argument where the schedule refuses it.
using CostedScheduleFor = std::function<Expected<CostedSchedule>(int microbatches)>;

/// How Programs in the order of time under these costs repeat, of a schedule whose Programs at unit costs
/// repeat as `lists`. Nothing where the earliest times are not seen to repeat: one rank may be ahead of
/// another by more and more, and what it launches overtake one thing after another.
///
/// Earliest times follow from those of the steps before by max and +. So where all of them come again a
/// period later, each kind of action by a time of its own, over as many microbatches as one step can wait
/// for, they come again for ever.
[[nodiscard]] std::optional<Repetition> lists_under_costs(const Repetition& lists,
                                                          const CostedScheduleFor& schedule_for);

}  // namespace ppsim::planner

namespace ppsim {
using planner::CostedSchedule;
using planner::CostedScheduleFor;
using planner::lists_under_costs;
}  // namespace ppsim
