#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ppsim/core/ir/ids.hpp"
#include "ppsim/core/ir/units.hpp"
#include "ppsim/gpu_backend/stage_model/stages.hpp"

namespace ppsim::gpu_backend {

/// The memory of one rank, and what moves its bytes: enqueued on a stream, or done at once where there are no
/// streams. Different streams may be used at the same time. Errors: throws BackendError.
class Device {
 public:
  virtual ~Device() = default;

  [[nodiscard]] virtual RankId rank() const = 0;
  /// Memory for `what`, aligned to 64 bytes, that lives as long as the device.
  [[nodiscard]] virtual std::span<std::byte> allocate(Bytes bytes, const char* what) = 0;
  /// The same in memory of the host that the device reaches, for what is moved out.
  [[nodiscard]] virtual std::span<std::byte> allocate_host(Bytes bytes) = 0;

  /// Copies between any two pieces of memory of one size.
  virtual void copy(GpuStream stream, std::span<std::byte> to, std::span<const std::byte> from) const = 0;
  virtual void fill(GpuStream stream, std::span<std::byte> memory, std::byte value) const = 0;
  /// Writes a number that is not negative.
  virtual void write(GpuStream stream, std::span<std::byte> to, std::int64_t value) const = 0;
};

}  // namespace ppsim::gpu_backend
