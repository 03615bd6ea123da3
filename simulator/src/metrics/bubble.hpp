#pragma once

#include "message_times.hpp"

namespace ppsim::simulator {

/// Idle time of the compute queue of one rank, as BubbleBreakdown defines it.
/// `times` are those of the whole run.
[[nodiscard]] BubbleBreakdown bubble_of(const TimedRun& run, const MessageClock& messages,
                                        const StepTimes& times, RankId rank);

}  // namespace ppsim::simulator
