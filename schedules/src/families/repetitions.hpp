#pragma once

#include "ppsim/schedules/registry.hpp"

namespace ppsim::schedules {

// Values of ScheduleInfo::repetitions. What they rest on is how an order is made; tests compare Programs well
// beyond each bound. Nothing where a setting decides how many microbatches stand together or are in flight.

/// Warm-ups of up to p microbatches, the same for all m: leave out the last microbatch of an order, and what
/// is left is the order for one less.
[[nodiscard]] Repetitions repeats_from_the_first(const ScheduleParameters& parameters);

/// The same with warm-ups of 2p microbatches, or W put off by as many.
[[nodiscard]] Repetitions repeats_after_two_rounds(const ScheduleParameters& parameters);

/// As before, but few microbatches follow another order.
[[nodiscard]] Repetitions repeats_once_filled(const ScheduleParameters& parameters);

/// Groups or units of p microbatches, or pairs of them. What is left over makes up to p groups larger by one,
/// or stands at an end.
[[nodiscard]] Repetitions repeats_by_group(const ScheduleParameters& parameters);

/// Orders that are computed or searched under costs. Known by computation alone: for unit costs, up to 8
/// ranks.
[[nodiscard]] Repetitions repeats_at_unit_costs(const ScheduleParameters& parameters);

}  // namespace ppsim::schedules
