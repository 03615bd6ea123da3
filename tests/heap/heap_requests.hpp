#pragma once

#include <cstdint>

namespace ppsim::test {

/// How often this process has asked operator new for memory, but for what threads did within a NotCounted.
[[nodiscard]] std::uint64_t heap_requests();

/// Requests of a thread are not counted while it has one.
class NotCounted {
 public:
  NotCounted();
  ~NotCounted();
  NotCounted(const NotCounted&) = delete;
  NotCounted& operator=(const NotCounted&) = delete;
};

}  // namespace ppsim::test
