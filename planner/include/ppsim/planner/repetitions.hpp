#pragma once

#include <functional>
#include <optional>

#include "ppsim/core/ir/repetition.hpp"
#include "ppsim/core/ir/schedule.hpp"
#include "ppsim/core/ir/tables.hpp"
#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/schedules/registry.hpp"

namespace ppsim::planner {

/// How Programs of a schedule repeat that are lowered at unit costs with these communicators. Those with
/// messages of one sender to one receiver alone keep them in the order of the sender's row, whatever the
/// times are; all others make one chain of the queues.
[[nodiscard]] Repetitions repetitions_at_unit_costs(const ScheduleInfo& info,
                                                    const ScheduleParameters& parameters,
                                                    CommunicatorPolicy communicators);

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

/// The same of lists and queues, which repeat as `at_unit_costs` without costs.
[[nodiscard]] Repetitions repetitions_under_costs(const Repetitions& at_unit_costs,
                                                  CommunicatorPolicy communicators,
                                                  const CostedScheduleFor& schedule_for);

}  // namespace ppsim::planner

namespace ppsim {
using planner::CostedSchedule;
using planner::CostedScheduleFor;
using planner::lists_under_costs;
using planner::repetitions_at_unit_costs;
using planner::repetitions_under_costs;
}  // namespace ppsim
