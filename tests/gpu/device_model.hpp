#pragma once

#include <memory>
#include <optional>

#include "device/cuda/cuda_table.hpp"
#include "ppsim/gpu_backend/transformer/transformer.hpp"

namespace ppsim::test {

using namespace gpu_backend;

/// Why nothing can run on a GPU here; empty where it can.
[[nodiscard]] std::optional<std::string> why_no_gpu();

/// The transformer on device 0: each action's tensors are copied there and back, so that any test of a model
/// in host memory can run it. Requires: no why_no_gpu(); a configuration that make_transformer accepts, not
/// float64.
[[nodiscard]] std::unique_ptr<CpuStageModel> device_model(const TransformerConfig& config);

}  // namespace ppsim::test
