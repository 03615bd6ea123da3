#pragma once

#include <functional>
#include <span>
#include <stdexcept>

#include "ppsim/core/ir/error.hpp"
#include "ppsim/core/ir/units.hpp"

namespace ppsim::gpu_backend {

/// What a device, a transport or an action of a run throws when it cannot do its work. execute() catches
/// it and returns its Error.
class BackendError : public std::runtime_error {
 public:
  BackendError(ErrorCode code, const std::string& message)
      : std::runtime_error(message), error_{code, message} {}
  [[nodiscard]] const Error& error() const { return error_; }

 private:
  Error error_;
};

/// The memory and the arithmetic unit of one rank. Every method returns when its effects are visible to the
/// caller and to whoever is told by the caller. Queues of a rank call run() and copy() concurrently. Errors:
/// throws BackendError.
class Device {
 public:
  virtual ~Device() = default;

  /// Memory for tensors, aligned to 64 bytes, that lives as long as the device.
  [[nodiscard]] virtual std::span<std::byte> allocate(Bytes bytes) = 0;
  /// The same in host memory, for what OFFLOAD moves out.
  [[nodiscard]] virtual std::span<std::byte> allocate_host(Bytes bytes) = 0;
  /// Copies between any two pieces of allocate() and allocate_host() that have one size.
  virtual void copy(std::span<std::byte> to, std::span<const std::byte> from) = 0;
  virtual void fill(std::span<std::byte> memory, std::byte value) = 0;
  /// Runs `work`, which calls into a StageModel, on a queue of the rank.
  virtual void run(int queue, const std::function<void()>& work) = 0;
};

}  // namespace ppsim::gpu_backend

namespace ppsim {
using gpu_backend::BackendError;
using gpu_backend::Device;
}  // namespace ppsim
