#pragma once

#include <vector>

#include "ppsim/simulator/metrics/metrics.hpp"

namespace ppsim::simulator {

/// When a message was in flight and when it was received.
struct MessageTimes {
  Instant begin;
  Instant out;
  Instant received;
};

/// Of every message of a run, which the trace of whole groups does not say.
/// Requires: every instruction of the trace is complete.
[[nodiscard]] std::vector<MessageTimes> message_times(const RunView& run);

}  // namespace ppsim::simulator
