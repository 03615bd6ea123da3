#pragma once

#include <string_view>

#include "ppsim/schedules/registry.hpp"

namespace ppsim::test {

/// For rapidcheck properties: a number of [low, high].
int between(int low, int high);

/// Costs without a transfer.
StageCosts draw_costs();

/// Costs that some forms are for: F, I and W alike, B their two halves, a pair no shorter than its B.
StageCosts draw_even_costs();

/// A transfer shorter than the shortest action.
Nanoseconds draw_short_transfer(const StageCosts& costs);

/// Asserts that the closed form of the makespan is claimed, and that it is what the earliest times of the
/// order and simulated runs of its lowered Programs take.
void expect_makespan(std::string_view name, const ScheduleParameters& parameters, const StageCosts& costs);

/// The same of the span.
void expect_span(std::string_view name, const ScheduleParameters& parameters, const StageCosts& costs);

/// The same of the makespan by the earliest times alone: transfers that take longer than actions contend for
/// their channel, which the earliest times leave out.
void expect_earliest_makespan(std::string_view name, const ScheduleParameters& parameters,
                              const StageCosts& costs);

}  // namespace ppsim::test
