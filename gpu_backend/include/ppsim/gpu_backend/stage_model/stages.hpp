#pragma once

#include <cstddef>
#include <span>

#include "ppsim/core/ir/ids.hpp"
#include "ppsim/gpu_backend/stage_model/stage_model.hpp"

struct CUstream_st;

namespace ppsim::gpu_backend {

/// CUDA's stream, the same type as CUstream and cudaStream_t. A CPU has none, and ignores it.
using GpuStream = CUstream_st*;

/// The tensors of one OPT, in memory of the device.
struct UpdateBuffers {
  BlockId block;
  std::span<std::byte> parameters;
  std::span<std::byte> gradients;
  std::span<std::byte> optimizer_state;
  const double* squared_norm = nullptr;  ///< of all gradients, in memory of the device; null: no clipping
  double largest_norm = 1;               ///< gradients are scaled down to it where their norm is larger
};

/// The arithmetic of one rank's stages: enqueued on a stream, or done at once on a CPU.
class Stages {
 public:
  virtual ~Stages() = default;

  /// The parameters of a block before the first step, and cleared optimizer state.
  virtual void initialize(GpuStream stream, BlockId block, std::span<std::byte> parameters,
                          std::span<std::byte> optimizer_state) = 0;
  /// The input batch that a microbatch has in this step, the x of a first stage: of one slice its piece.
  virtual void load(GpuStream stream, MicrobatchId mb, const ActionBuffers& buffers) = 0;
  /// F, B, I, W or R. B is I followed by W on the same bits. Gradients are added to; the executor clears
  /// them.
  virtual void compute(GpuStream stream, const Action& action, const ActionBuffers& buffers) = 0;
  /// OPT.
  virtual void update(GpuStream stream, const UpdateBuffers& buffers) = 0;
  /// *sum += squared norm of the gradients; `sum` is in memory of the device.
  virtual void add_squared_norm(GpuStream stream, std::span<const std::byte> gradients, double* sum) = 0;
};

}  // namespace ppsim::gpu_backend

namespace ppsim {
using gpu_backend::GpuStream;
using gpu_backend::Stages;
using gpu_backend::UpdateBuffers;
}  // namespace ppsim
