#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "process_group/peers.hpp"

namespace ppsim::gpu_backend {

/// Numbers, 0 at first, that the hosts of all ranks see, those of other processes too: for these in shared
/// memory of the host. What a host did before it sets one is seen by whoever finds it set.
class SharedFlags {
 public:
  using Number = std::uint32_t;

  /// All processes call it with the same count. Errors: throws BackendError, also where a process is on
  /// another host.
  SharedFlags(std::size_t count, Peers& peers);

  void set(std::size_t flag, Number number) { flags_[flag].store(number, std::memory_order_release); }
  [[nodiscard]] bool reached(std::size_t flag, Number number) const {
    return flags_[flag].load(std::memory_order_acquire) >= number;
  }

 private:
  using Flag = std::atomic<Number>;
  static_assert(Flag::is_always_lock_free);

  std::shared_ptr<void> memory_;
  std::span<Flag> flags_;
};

}  // namespace ppsim::gpu_backend
