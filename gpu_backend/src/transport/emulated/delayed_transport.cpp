#include "delayed_transport.hpp"

#include <algorithm>
#include <array>

namespace ppsim::gpu_backend {

/// The costs of a transfer stand under its SEND.
Nanoseconds DelayedSink::cost(InstructionId id) const {
  Nanoseconds longest = 0;
  for (const Action& action : program_.actions(id)) {
    const bool receives = is_receive(action.kind);
    const Action priced = receives ? counterpart(action, program_.rank_of(id)) : action;
    longest = std::max(longest, costs_(cost_class_of(priced)));
  }
  return longest;
}

void DelayedSink::complete(std::span<const InstructionId> ends) {
  const auto now = WallClock::now();
  for (const InstructionId id : ends) {
    const Nanoseconds takes = cost(id);
    if (takes == 0) {
      sink_.complete(std::array{id});
    } else {
      timers_.set(now + std::chrono::nanoseconds(takes), [this, id] { sink_.complete(std::array{id}); });
    }
  }
}

}  // namespace ppsim::gpu_backend
