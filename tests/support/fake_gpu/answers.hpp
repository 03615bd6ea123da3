#pragma once

#include <cstddef>

#include "device/cuda/cuda_table.hpp"

namespace ppsim::test {

// CUDA's answers to a call that it refuses (cudaError_t).
inline constexpr int kInvalidValue = 1;
inline constexpr int kInvalidContext = 201;
inline constexpr int kInvalidHandle = 400;

/// The memory of this process that the fake says a device has at an address.
[[nodiscard]] inline std::byte* memory_at(gpu_backend::CudaAddress address) {
  return reinterpret_cast<std::byte*>(address);
}

}  // namespace ppsim::test
