#pragma once

#include <vector>

#include "synthesis/start_times.hpp"

namespace ppsim::verifier::synthesis {

/// A steady state that might exist: `microbatches` of them every `period`.
struct Rate {
  int microbatches = 1;
  Slot period = 1;
};

/// Rates that neither the work of a rank nor the round trip of as many microbatches as the limit allows
/// excludes, fastest first.
[[nodiscard]] std::vector<Rate> possible_rates(const ChainModel& model);

/// The microbatches of a short schedule that can be repeated at `rate` to give the request's; 0 when the
/// request is not twice as long.
[[nodiscard]] int short_length(const ChainModel& model, const Rate& rate);

/// A short schedule, as long as the repetition leaves it, and what it is a part of.
struct Repetend {
  const ChainModel& model;  ///< short
  const std::vector<Slot>& starts;
  Repetition repetition;
};

/// Start times of `tasks_of_whole` tasks, those of the model `whole`: the short schedule up to a period after
/// the cut, that period again as often as is needed, then the rest.
[[nodiscard]] std::vector<Slot> unrolled(const Repetend& repetend, const ChainModel& whole);

}  // namespace ppsim::verifier::synthesis
