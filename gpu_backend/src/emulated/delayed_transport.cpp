#include "delayed_transport.hpp"

#include <algorithm>
#include <array>

namespace ppsim {

Nanoseconds DelayedSink::cost(InstructionId id) const {
  Nanoseconds longest = 0;
  for (const Action& action : program_.actions(id))
    longest = std::max(longest, costs_(cost_class_of(action)));
  return longest;
}

void DelayedSink::complete(std::span<const InstructionId> ends) {
  const auto now = WallClock::now();
  for (const InstructionId id : ends) {
    const Nanoseconds takes = cost(id);
    if (takes == 0) {
      sink_.complete(std::array{id});
    } else {
      alarms_.set(now + std::chrono::nanoseconds(takes), [this, id] { sink_.complete(std::array{id}); });
    }
  }
}

}  // namespace ppsim
