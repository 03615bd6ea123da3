#pragma once

#include <string>

#include "executor/worker.hpp"
#include "ppsim/gpu_backend/stage_model/gpu_stage_model.hpp"

namespace ppsim::gpu_backend {

/// A Program to run on GPUs, its kernels, and the options of the run.
struct GpuRunInput {
  const Program& program;
  const GpuStageModel& model;
  const RunOptions& options;
  std::string identity = {};  ///< of the model that the kernels are of
};

/// Whether the GPU backend can run a Program as it is asked to. Requires: options.backend is CudaOptions.
/// Errors: bad_argument.
[[nodiscard]] Expected<void> check_gpu_options(const Program& program, const RunOptions& options);

/// The same, whether the model can, whether all processes are about to run the same, and whether the run has
/// its certificate or needs none. Returns: the ranks of this process.
[[nodiscard]] Expected<RankRange> admit_on_gpu(const GpuRunInput& input);

}  // namespace ppsim::gpu_backend
