#pragma once

#include <cmath>
#include <cstring>
#include <span>

#include "ppsim/gpu_backend/stage_model/stage_model.hpp"

/// Stage code of a user, as small as it can be: every stage multiplies a number by its only weight, and the
/// output of the last one is the loss.
class Scales final : public ppsim::CpuStageModel {
 public:
  ppsim::Expected<void> check(const ppsim::Pipeline& pipeline) const override {
    if (pipeline.is_chain() && pipeline.slices() == 1) return {};
    return ppsim::make_error(ppsim::ErrorCode::bad_argument, "scales are a chain of whole microbatches");
  }

  ppsim::SizeTable sizes(const ppsim::Pipeline& /*pipeline*/) const override {
    using Kind = ppsim::TensorKind;
    ppsim::SizeTable sizes;
    for (const Kind kind :
         {Kind::parameters, Kind::gradients, Kind::optimizer_state, Kind::boundary_input,
          Kind::boundary_output, Kind::saved_for_weight, Kind::incoming_gradient, Kind::outgoing_gradient})
      sizes.set({.kind = kind}, 64);
    return sizes;
  }

  void initialize(const ppsim::Pipeline& /*pipeline*/, ppsim::BlockId block, std::span<std::byte> parameters,
                  std::span<std::byte> /*optimizer_state*/) const override {
    put(parameters, 1 + 1.0 / (block.value() + 2));
  }
  void load(const ppsim::Pipeline& /*pipeline*/, ppsim::MicrobatchId mb,
            const ppsim::ActionBuffers& buffers) const override {
    put(buffers.x, mb.value() + 1);
  }

  void compute(const ppsim::Pipeline& /*pipeline*/, const ppsim::Action& action,
               const ppsim::ActionBuffers& b) const override {
    using ppsim::OpKind;
    const double weight = get(b.parameters);
    if (action.kind == OpKind::forward) {
      if (!b.y.empty()) put(b.y, weight * get(b.x));
      if (!b.saved_for_weight.empty()) put(b.saved_for_weight, get(b.x));
      return;
    }
    const double dy = b.dy.empty() ? 1 : get(b.dy);
    if (action.kind != OpKind::backward_weight && !b.dx.empty()) put(b.dx, weight * dy);
    if (action.kind != OpKind::backward_input)
      put(b.gradients, get(b.gradients) + dy * get(b.saved_for_weight));
  }

  void update(std::span<std::byte> parameters, std::span<std::byte> gradients,
              std::span<std::byte> /*optimizer_state*/, double gradient_scale) const override {
    put(parameters, get(parameters) - 0.01 * gradient_scale * get(gradients));
  }
  void accumulate(std::span<std::byte> into, std::span<const std::byte> from) const override {
    put(into, get(into) + get(from));
  }
  double squared_norm(std::span<const std::byte> gradients) const override {
    return get(gradients) * get(gradients);
  }
  double max_abs_difference(std::span<const std::byte> a, std::span<const std::byte> b) const override {
    return std::abs(get(a) - get(b));
  }

  static double get(std::span<const std::byte> from) {
    double value = 0;
    std::memcpy(&value, from.data(), sizeof value);
    return value;
  }

 private:
  static void put(std::span<std::byte> to, double value) { std::memcpy(to.data(), &value, sizeof value); }
};
