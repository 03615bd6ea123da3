#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "device/cuda/cublaslt_table.hpp"
#include "device/cuda/cuda_table.hpp"
#include "device/cuda/cudnn_table.hpp"
#include "ppsim/gpu_backend/stage_model/gpu_stage_model.hpp"
#include "ppsim/gpu_backend/transformer/transformer.hpp"
#include "transformer/kernels/kernel_table.hpp"

namespace ppsim::gpu_backend {

/// The kernels of a transformer and the libraries that they call.
struct TransformerLibraries {
  std::optional<cuda::KernelTable> kernels;  ///< empty: this build has none
  std::function<CublasLtTable()> cublaslt;   ///< asked for when products of real numbers are opened
  std::function<CudaTable()> cuda;
  std::function<CudnnTable()> cudnn;  ///< asked for when attention is chosen; throws where it is missing
};

/// The kernels of this build, and the libraries of this machine, opened when they are needed.
[[nodiscard]] TransformerLibraries machine_libraries();

/// The transformer of make_transformer(config) as kernels: the same parameters, tokens and, in integer_exact,
/// the same bits. Sums, gradients and statistics are float32 where the rest is bf16; products are
/// cuBLASLt's with sums in float32. In real arithmetic OPT works on a float32 master copy.
/// The implementation of attention over whole sequences is chosen once, at the first question for their sizes
/// or kernels_text(); that of slices is products. Errors: check() refuses when the build has no kernels, and
/// cuDNN's attention where it cannot be had; null for float64.
[[nodiscard]] std::unique_ptr<GpuStageModel> make_gpu_transformer(const TransformerConfig& config,
                                                                  TransformerLibraries libraries);

}  // namespace ppsim::gpu_backend
