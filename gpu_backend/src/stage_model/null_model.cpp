#include "ppsim/gpu_backend/stage_model/null_model.hpp"

#include "received_outputs.hpp"

namespace ppsim::gpu_backend {
namespace {

constexpr Bytes kTensor = 64;

}  // namespace

Expected<void> NullModel::check(const Pipeline& /*pipeline*/) const { return {}; }

SizeTable NullModel::sizes(const Pipeline& pipeline) const {
  if (sizes_) return *sizes_;
  SizeTable sizes;
  for (int kind = 0; kind < kTensorKindCount; ++kind)
    sizes.set({.kind = static_cast<TensorKind>(kind)}, kTensor);
  sizes.set({.kind = TensorKind::lent_activations}, 2 * kTensor);  // both parts of the saved activations
  for (int s = 0; s < pipeline.stages(); ++s) {
    sizes.set({.kind = TensorKind::boundary_input, .subject = s},
              kTensor * received_outputs(pipeline, StageId(s)));
  }
  for (std::size_t op = 0; op < kOpKindCount; ++op) {
    sizes.set({.kind = TensorKind::workspace, .op = static_cast<OpKind>(op)}, kTensor);
  }
  return sizes;
}

void NullModel::initialize(const Pipeline& /*pipeline*/, BlockId /*block*/,
                           std::span<std::byte> /*parameters*/,
                           std::span<std::byte> /*optimizer_state*/) const {}

void NullModel::load(const Pipeline& /*pipeline*/, MicrobatchId /*mb*/,
                     const ActionBuffers& /*buffers*/) const {}

void NullModel::compute(const Pipeline& /*pipeline*/, const Action& /*action*/,
                        const ActionBuffers& /*buffers*/) const {}

void NullModel::update(std::span<std::byte> /*parameters*/, std::span<std::byte> /*gradients*/,
                       std::span<std::byte> /*optimizer_state*/, double /*gradient_scale*/) const {}

void NullModel::accumulate(std::span<std::byte> /*into*/, std::span<const std::byte> /*from*/) const {}

double NullModel::squared_norm(std::span<const std::byte> /*gradients*/) const { return 0; }

double NullModel::max_abs_difference(std::span<const std::byte> /*a*/,
                                     std::span<const std::byte> /*b*/) const {
  return 0;
}

}  // namespace ppsim::gpu_backend
