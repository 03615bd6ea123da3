#pragma once

#include "ppsim/core/execution/timed_trace.hpp"

namespace ppsim::simulator {

/// When work that begins at `begin` completes: what takes no time completes in the next round.
[[nodiscard]] constexpr Instant completion(Instant begin, Nanoseconds duration) {
  if (duration > 0) return {begin.time + duration, 0};
  return {begin.time, begin.delta + 1};
}

}  // namespace ppsim::simulator
