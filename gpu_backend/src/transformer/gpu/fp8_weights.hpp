#pragma once

#include <cstdint>

#include "device/cuda/cuda_table.hpp"
#include "device/cuda/device_memory.hpp"
#include "ppsim/gpu_backend/stage_model/stages.hpp"
#include "transformer/cpu/transformer_tensors.hpp"
#include "transformer/kernels/kernel_table.hpp"

namespace ppsim::gpu_backend::cuda {

/// A matrix rounded to fp8: by rows, by columns or both, and what its numbers are times.
struct Fp8Copy {
  std::uint8_t* by_rows = nullptr;     ///< null: not wanted
  std::uint8_t* by_columns = nullptr;  ///< null: not wanted
  float* scale = nullptr;
};

/// A matrix in bf16, by rows without gaps.
struct Bf16Matrix {
  std::int64_t rows, columns;
  const void* values;
};

/// Rounds matrices to fp8, each by a scale from its own largest number. Order: calls of one rank are ordered
/// with each other, since they share a workspace. Errors: throws BackendError.
class Fp8Rounding {
 public:
  /// Requires: kernels that outlive it.
  Fp8Rounding(const KernelTable& kernels, const CudaTable& cuda);

  void round(GpuStream stream, const Bf16Matrix& matrix, Fp8 type, const Fp8Copy& into) const;

 private:
  const KernelTable& kernels_;
  CudaTable cuda_;
  DeviceMemory partials_;
};

/// The copies of the weights of one layer.
struct LayerCopies {
  LayerCopies(transformer::Arena& arena, const transformer::Dimensions& d);

  Fp8Copy qkv, projection, gate_up, down;
};

/// The parameters of a block in fp8: its weights in bf16, and behind them the copies of those of its layers.
/// Each has two, since forward reads it by columns and backward by rows. They are made when the weights
/// change, and no action rounds weights: every version of the parameters has its own.
class Fp8Weights {
 public:
  using Arena = transformer::Arena;
  Fp8Weights(Arena& arena, const transformer::Dimensions& d, const transformer::StageRole& role);

  /// The copy of a matrix of weights. Requires: one of a layer of this block.
  [[nodiscard]] Fp8Copy of(const void* weights) const;
  /// Makes the copies of all.
  void make(GpuStream stream, const Fp8Rounding& rounding) const;

 private:
  int count_;
  transformer::StageWeights<Bf16> weights_;
  transformer::PerLayer<LayerCopies> copies_;
};

}  // namespace ppsim::gpu_backend::cuda
