#include "fp8_weights.hpp"

#include "device/cuda/kernel_errors.hpp"
#include "ppsim/core/ir/check.hpp"

namespace ppsim::gpu_backend::cuda {
namespace {

using transformer::Arena;
using transformer::Dimensions;
using transformer::LayerWeights;
using transformer::StageRole;
using transformer::View;

Fp8Copy take_copy(Arena& arena, Eigen::Index numbers) {
  return {.by_rows = arena.take<std::uint8_t>(numbers),
          .by_columns = arena.take<std::uint8_t>(numbers),
          .scale = arena.take<float>(1)};
}

}  // namespace

Fp8Rounding::Fp8Rounding(const KernelTable& kernels, const CudaTable& cuda)
    : kernels_(kernels),
      cuda_(cuda),
      partials_(cuda_, kPartials * sizeof(float), "the largest numbers of a matrix") {}

void Fp8Rounding::round(GpuStream stream, const Bf16Matrix& matrix, Fp8 type, const Fp8Copy& into) const {
  const FindScale scale{matrix.rows * matrix.columns, matrix.values, type, partials_.as<float>(), into.scale};
  check_launch(cuda_, kernels_.find_scale(stream, scale), "the scale of an fp8 matrix");
  const Quantize call{matrix.rows, matrix.columns, matrix.values,  into.scale,
                      type,        into.by_rows,   into.by_columns};
  check_launch(cuda_, kernels_.quantize(stream, call), "rounding a matrix to fp8");
}

LayerCopies::LayerCopies(Arena& arena, const Dimensions& d)
    : qkv(take_copy(arena, d.hidden * 3 * d.hidden)),
      projection(take_copy(arena, d.hidden * d.hidden)),
      gate_up(take_copy(arena, d.hidden * 2 * d.ffn)),
      down(take_copy(arena, d.ffn * d.hidden)) {}

Fp8Weights::Fp8Weights(Arena& arena, const Dimensions& d, const StageRole& role)
    : count_(role.layers), weights_(arena, d, role), copies_(arena, d, role.layers) {}

Fp8Copy Fp8Weights::of(const void* weights) const {
  const int layer = weights_.layers.layer_at(weights);
  PPSIM_CHECK(layer >= 0 && layer < count_, "weights of another block");
  const LayerWeights<Bf16> own = weights_.layers[layer];
  const LayerCopies copies = copies_[layer];
  if (weights == own.qkv.data()) return copies.qkv;
  if (weights == own.projection.data()) return copies.projection;
  if (weights == own.gate_up.data()) return copies.gate_up;
  PPSIM_CHECK(weights == own.down.data(), "no matrix of weights begins there");
  return copies.down;
}

void Fp8Weights::make(GpuStream stream, const Fp8Rounding& rounding) const {
  const auto round = [&](const View<Bf16>& matrix, const Fp8Copy& copy) {
    rounding.round(stream, {matrix.rows(), matrix.cols(), matrix.data()}, Fp8::e4m3, copy);
  };
  for (int layer = 0; layer < count_; ++layer) {
    const LayerWeights<Bf16> own = weights_.layers[layer];
    const LayerCopies copies = copies_[layer];
    round(own.qkv, copies.qkv);
    round(own.projection, copies.projection);
    round(own.gate_up, copies.gate_up);
    round(own.down, copies.down);
  }
}

}  // namespace ppsim::gpu_backend::cuda
