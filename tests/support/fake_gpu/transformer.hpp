#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "device/cuda/cublaslt_table.hpp"
#include "ppsim/gpu_backend/stage_model/gpu_stage_model.hpp"
#include "ppsim/gpu_backend/transformer/transformer.hpp"
#include "support/fake_gpu/fake_gpu.hpp"
#include "support/host_cudnn.hpp"
#include "support/host_kernels.hpp"
#include "transformer/kernels/kernel_table.hpp"

namespace ppsim::test {

using namespace gpu_backend;

/// Changes of a test to the libraries of a transformer, to inject a fault, and whether it has cuDNN.
struct TransformerFaults {
  std::function<void(cuda::KernelTable&)> kernels = {};
  std::function<void(CublasLtTable&)> cublaslt = {};
  std::function<void(CudnnTable&)> cudnn = {};
  std::optional<HostCudnnOptions> cudnn_options = {};  ///< without, there is no cuDNN
  std::shared_ptr<HostCudnnBooks> cudnn_books = std::make_shared<HostCudnnBooks>();
};

/// Where kernels go that run on the fake. Requires: a fake that outlives it.
[[nodiscard]] HostQueue queue_of(FakeGpu& gpu);

/// The transformer's own code for GPUs on the fake: its kernels and products are loops of the processor, each
/// of which tells the fake what it reads and writes. Requires: a fake that outlives it.
[[nodiscard]] std::unique_ptr<GpuStageModel> fake_transformer(FakeGpu& gpu, const GpuApi& api,
                                                              const TransformerConfig& config,
                                                              const TransformerFaults& faults = {});

}  // namespace ppsim::test
