#pragma once

#include <optional>

#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/schedules/registry.hpp"
#include "support/dice.hpp"

namespace ppsim::test {

/// Every order of issue, and communicators of every policy; nothing is added.
[[nodiscard]] LoweringOptions draw_issue_options(Dice& dice);

/// The largest parameters of a drawn Program.
struct ProgramLimits {
  int ranks = 3;
  int microbatches = 3;
  int more_chunks = 0;  ///< above what the schedule needs at least
};

/// A Program of the schedule with drawn parameters. Nothing where the schedule or the options refuse them.
[[nodiscard]] std::optional<Program> draw_program(const ScheduleInfo& info, const ProgramLimits& limits,
                                                  Dice& dice, const LoweringOptions& options);

/// A small one of any schedule.
[[nodiscard]] std::optional<Program> draw_small_program(Dice& dice, const LoweringOptions& options);

}  // namespace ppsim::test
