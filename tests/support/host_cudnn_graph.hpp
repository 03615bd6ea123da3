#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "device/cuda/cudnn_table.hpp"
#include "support/host_kernels.hpp"

namespace ppsim::test {

using namespace gpu_backend;

/// A tensor of the stand-in for cuDNN.
struct CudnnTensor {
  std::int64_t id = 0;
  int type = kCudnnFloat32;
  std::array<std::int64_t, 4> dimensions = {};
  std::array<std::int64_t, 4> strides = {};
  std::int64_t alignment = 0;
  bool is_virtual = false, is_by_value = false;

  [[nodiscard]] std::int64_t count() const;
  [[nodiscard]] bool is_in_memory() const { return !is_virtual && !is_by_value; }
};

enum class CudnnStepKind : std::uint8_t { pointwise, multiply, reduce, reshape };

/// One operation: y from x, and of others b and t; c = a * b is y = x * b.
struct CudnnStep {
  CudnnStepKind kind = CudnnStepKind::pointwise;
  CudnnPointwise mode = CudnnPointwise::add;
  CudnnReduction reduction = CudnnReduction::sum;
  std::int64_t axis = -1;
  CudnnTensor x, y;
  std::optional<CudnnTensor> b = std::nullopt, t = std::nullopt;

  /// The fault of its shapes and types; empty: none.
  [[nodiscard]] std::string fault() const;
  [[nodiscard]] std::vector<const CudnnTensor*> inputs() const;
};

using CudnnSteps = std::vector<CudnnStep>;

/// The fault of the order of the steps; empty: none.
[[nodiscard]] std::string order_fault(const CudnnSteps& steps);
/// All that is not inner to the graph.
[[nodiscard]] std::map<std::int64_t, CudnnTensor> outer_tensors(const CudnnSteps& steps);
/// The memory that the steps read and write.
[[nodiscard]] KernelAccess access_of(const CudnnSteps& steps, const std::map<std::int64_t, void*>& memory);
/// Runs them. Numbers of the host stand in `numbers`.
void run_steps(const CudnnSteps& steps, const std::map<std::int64_t, void*>& memory,
               const std::map<std::int64_t, float>& numbers);

}  // namespace ppsim::test
