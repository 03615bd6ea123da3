#pragma once

#include <memory>
#include <optional>

#include "ppsim/gpu_backend/transformer/transformer.hpp"
#include "support/host_cudnn.hpp"

namespace ppsim::test {

/// The transformer's code for GPUs, its kernels and libraries replaced by loops of the processor that run at
/// once: what the CPU's model can be compared with. Requires: a configuration that make_transformer accepts,
/// not float64. Without `cudnn` there is none.
[[nodiscard]] std::unique_ptr<CpuStageModel> host_gpu_model(
    const TransformerConfig& config, const std::optional<HostCudnnOptions>& cudnn = {});

/// The calls for cuDNN of TransformerLibraries: a stand-in, or an error because there is none.
[[nodiscard]] std::function<CudnnTable()> host_cudnn_loader(
    const HostQueue& queue, const std::optional<HostCudnnOptions>& options,
    const std::shared_ptr<HostCudnnBooks>& books = std::make_shared<HostCudnnBooks>());

}  // namespace ppsim::test
