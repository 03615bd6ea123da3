#include "delayed_transport.hpp"

#include <algorithm>
#include <array>

namespace ppsim::gpu_backend {

Nanoseconds DelayedSink::time(InstructionId id) const {
  Nanoseconds longest = 0;
  const auto members = static_cast<std::uint32_t>(program_.actions(id).size());
  for (std::uint32_t member = 0; member < members; ++member) longest = std::max(longest, times_(id, member));
  return longest;
}

void DelayedSink::complete(std::span<const InstructionId> ends) {
  const auto now = WallClock::now();
  for (const InstructionId id : ends) {
    const Nanoseconds takes = time(id);
    if (takes == 0) {
      sink_.complete(std::array{id});
    } else {
      timers_.set(now + std::chrono::nanoseconds(takes), [this, id] { sink_.complete(std::array{id}); });
    }
  }
}

}  // namespace ppsim::gpu_backend
