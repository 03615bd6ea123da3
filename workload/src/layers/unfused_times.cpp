// Operators for which frameworks with eager kernels have no fused one, kernel by kernel. Bytes are those that
// the element-wise operators of PyTorch read and write.

#include "analytic_work.hpp"
#include "layer_times.hpp"

namespace ppsim::workload {

/// The biases of the second product, times the probability of each token: a product and a sum in float32 for
/// each expert, which are joined and rounded again. Those of the first are part of its product.
/// Source: Megatron-Core, TEGroupedMLP._apply_bias.
void LayerTimer::add_expert_biases(double rows, double experts, PassTimes& times) const {
  if (!model_.expert_biases || stack_.compiled) return;
  const double each = rows * hidden_;
  const auto pass = [&](double elements, double bytes) { return operators_.traffic(elements * bytes); };
  times.forward += experts * (pass(each, kFloat32) + pass(each, kBf16 + 2 * kFloat32));
  times.forward += pass(experts * each, 2 * kFloat32) + pass(experts * each, kFloat32 + kBf16);
  // Backward: of the rounding, of each sum, for bias and probability a product and its sum, of the parts.
  times.input += pass(experts * each, kBf16 + kFloat32) + pass(experts * each, 2 * kBf16);
  times.input +=
      experts * (pass(each, kFloat32 + kBf16) + 2 * (pass(each, 2 * kFloat32) + pass(each, kFloat32)));
}

/// Both halves of the gated input are cut off and joined before the fused activation function.
/// Source: Megatron-Core, weighted_bias_quick_geglu_impl.
void LayerTimer::add_clamp(double elements, PassTimes& times) const {
  if (!model_.clamped_gates || stack_.compiled) return;
  const auto pass = [&](double share, double bytes) { return operators_.traffic(share * elements * bytes); };
  const double forward = 2 * pass(0.5, 2 * kBf16) + pass(1, 2 * kBf16);
  times.forward += forward;
  times.elementwise += forward;
  times.input += 2 * pass(0.5, 3 * kBf16) + pass(1, 2 * kBf16);
}

/// Queries and keys, each without the fused kernel, which cannot scale. Forward the sum of two products, one
/// with halves that are swapped by a negation and a join, and the join with channels that are not rotated.
/// Source: Megatron-Core, _apply_rotary_pos_emb_bshd.
void LayerTimer::add_scaled_rotation(PassTimes& times) const {
  const double head = tokens_ * static_cast<double>(model_.head_dim) / parallelism_.tensor;
  for (const std::int64_t heads : {model_.heads, model_.kv_heads}) {
    const double elements = head * static_cast<double>(heads);
    const auto pass = [&](double bytes) { return operators_.traffic(elements * bytes); };
    const double copy = pass(2 * kBf16);
    const double sum = pass(3 * kBf16);
    const double negation = pass(kBf16);  // of half of the channels
    times.forward += 4 * copy + negation + sum;
    // The gradient of each slice is one of all channels: zeros, and a copy in the one that is not empty.
    times.input += 4 * copy + negation + 2 * sum + 2 * pass(kBf16);
  }
}

}  // namespace ppsim::workload
