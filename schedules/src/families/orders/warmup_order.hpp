#pragma once

#include <optional>

#include "ppsim/schedules/registry.hpp"

namespace ppsim::schedules {

/// One rank of a schedule of the 1F1B family with one stage per rank: `warmup` F, then a backward and an F in
/// turn, then the backwards that are left. With slices, F counts through a microbatch's slices from the first
/// to the last and a backward from the last to the first, before either goes on to the next microbatch.
struct WarmupOrder {
  StageId stage;
  int warmup = 1;  ///< F before the first backward; more than there are means all
  /// The k-th W directly after I of k + delay, those left at the end; without it B in place of I and W.
  std::optional<int> weight_delay;
  int slices = 1;
};

/// Appends the row of a stage.
void add_row(ScheduleBuilder& builder, const WarmupOrder& order, int microbatches);

/// Makespan of 1F1B, where rank r of p warms up with p - r F; with transfers if they are shorter than the
/// shortest action and m >= p.
[[nodiscard]] std::optional<Nanoseconds> one_f_one_b_makespan(const ScheduleParameters& parameters,
                                                              const StageCosts& costs);
/// Likewise its activations.
[[nodiscard]] std::optional<int> one_f_one_b_peak(const ScheduleParameters& parameters, RankId rank);

}  // namespace ppsim::schedules
