#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "device/cuda/cublaslt_table.hpp"
#include "transformer/kernels/kernel_table.hpp"

namespace ppsim::test {

using namespace gpu_backend;

/// The memory that a kernel touches.
struct KernelAccess {
  std::vector<std::span<const std::byte>> reads;
  std::vector<std::span<const std::byte>> writes;  ///< memory that is added to is in both
};

/// Where work that is given to a stream goes; returns an error code.
using HostQueue =
    std::function<int(void* stream, const KernelAccess& access, const std::function<void()>& work)>;
/// Does the work at once.
[[nodiscard]] HostQueue immediately();

/// The kernels of a transformer: the device's own, run on the processor.
[[nodiscard]] cuda::KernelTable host_kernels(const HostQueue& queue);
/// cuBLASLt's calls as loops of the processor, for float32, bf16 and fp8 with sums in float32. Of its three
/// algorithms the second one adds in the opposite order. It refuses what the library refuses in fp8 on
/// Hopper.
[[nodiscard]] CublasLtTable host_cublaslt(const HostQueue& queue);

}  // namespace ppsim::test
