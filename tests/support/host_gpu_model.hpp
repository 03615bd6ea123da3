#pragma once

#include <memory>

#include "ppsim/gpu_backend/transformer.hpp"

namespace ppsim::test {

/// The transformer's code for GPUs, its kernels and libraries replaced by loops of the processor that run at
/// once: what the CPU's model can be compared with. Requires: a configuration that make_transformer accepts,
/// not float64.
[[nodiscard]] std::unique_ptr<StageModel> host_gpu_model(const TransformerConfig& config);

}  // namespace ppsim::test
