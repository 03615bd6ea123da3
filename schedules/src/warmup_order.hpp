#pragma once

#include <optional>

#include "ppsim/core/schedule.hpp"

namespace ppsim {

/// One rank of a schedule of the 1F1B family with one stage per rank: `warmup` F, then a backward and an F in
/// turn, then the backwards that are left.
struct WarmupOrder {
  StageId stage;
  int warmup = 1;  ///< F before the first backward; more than there are means all
  /// W of microbatch k directly after I of k + delay, those left at the end; without it B in place of I and
  /// W.
  std::optional<int> weight_delay;
};

/// Appends the row of a stage.
void add_row(ScheduleBuilder& builder, const WarmupOrder& order, int microbatches);

}  // namespace ppsim
