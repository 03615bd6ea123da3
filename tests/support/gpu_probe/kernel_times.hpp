#pragma once

#include <string>
#include <vector>

#include "ppsim/gpu_backend/transformer/transformer.hpp"
#include "support/gpu_probe/probe_machine.hpp"

namespace ppsim::test {

/// A kernel that does little with each number: how long it takes, and how many bytes it has to read and
/// write.
struct KernelTime {
  std::string kernel;
  std::int64_t bytes = 0;
  Nanoseconds ns = 0;  ///< median of several rounds
};
struct KernelTimes {
  KernelTime copy;  ///< within the device, which reads and writes each byte
  std::vector<KernelTime> kernels;
  /// Time of a kernel over that of a copy that reads and writes as many bytes.
  [[nodiscard]] double over_copy(const KernelTime& one) const {
    return static_cast<double>(one.ns) / static_cast<double>(copy.ns) * static_cast<double>(copy.bytes) /
           static_cast<double>(one.bytes);
  }
};

/// Times the element-wise kernels of a layer in bf16 on the whole of device 0. Errors: throws BackendError.
[[nodiscard]] KernelTimes time_kernels(const ProbeMachine& machine, const TransformerConfig& config);

}  // namespace ppsim::test
