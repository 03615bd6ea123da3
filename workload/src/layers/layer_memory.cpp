#include "layer_memory.hpp"

#include <algorithm>

namespace ppsim::workload {
LayerMemory::LayerMemory(const Workload& workload, double tokens)
    : model_(with_whole_heads(workload)),
      parallelism_(workload.parallelism),
      stack_(workload.stack),
      tokens_(tokens) {}

bool LayerMemory::is_mixture(std::int64_t layer) const {
  return model_.experts > 0 && layer >= model_.first_dense_layers;
}

/// Channels that the MLP products of one token run through.
double LayerMemory::active_channels(std::int64_t layer) const {
  return static_cast<double>(is_mixture(layer) ? (model_.top_k + model_.shared_experts) * model_.moe_ffn
                                               : model_.ffn);
}

void LayerMemory::add_parameters(std::int64_t layer, LayerWork& work) const {
  const auto all = static_cast<double>(layer_parameters(model_, layer));
  const double experts =
      is_mixture(layer) ? static_cast<double>(model_.experts * mlp_parameters(model_, model_.moe_ffn)) : 0;
  work.parameters = (all - experts) / parallelism_.tensor;
  // Experts with a group of their own are split over the tensor-parallel one only where the stack does it.
  const bool apart = parallelism_.expert > 1 && !stack_.split_experts;
  work.expert_parameters = experts / parallelism_.expert / (apart ? 1 : parallelism_.tensor);
}

/// Bytes of a weight beside those in bf16: copies for the product and for that with its transpose, which
/// stand for the weight itself where the optimizer makes them. Gathered weights are quantised when they are
/// used.
double LayerMemory::quantised_copies() const {
  if (parallelism_.dtype == DataType::bf16 || parallelism_.sharded_parameters) return 0;
  const double copies = 2 * operand_bytes(parallelism_.dtype);
  switch (stack_.weights) {
    case QuantisedWeights::transient:
      return 0;
    case QuantisedWeights::cached:
      return copies;
    case QuantisedWeights::primary:
      return copies - kBf16;
  }
  return 0;
}

LayerWork LayerMemory::layer(std::int64_t layer) const {
  const double tp = parallelism_.tensor;
  const double own = stack_.sequence_parallel ? tp : 1;  // parts that norms and residuals are split into
  const auto hidden = static_cast<double>(model_.hidden);
  const auto heads = static_cast<double>(model_.heads);
  const double query = heads * static_cast<double>(model_.head_dim);
  const auto key_value = static_cast<double>(2 * model_.kv_heads * model_.head_dim);
  const double channels = active_channels(layer);
  const double gate = model_.gated_mlp ? 2 : 1;
  LayerWork work;
  // Inputs of products, as they are quantised for the weight gradient. Below bf16 attention's backward has
  // its own output besides.
  const double operand = operand_bytes(parallelism_.dtype);
  const double output = parallelism_.dtype == DataType::bf16 ? 0 : query;
  const bool clamps = model_.clamped_gates && is_mixture(layer) && !stack_.fused_experts && !stack_.compiled;
  const double gates = (stack_.quantised_gates ? operand : kBf16) * (clamps ? 2 : 1) * gate * channels;
  work.saved_for_weight = operand * tokens_ * (2 * hidden / own + (query + channels) / tp);
  work.saved_for_input = tokens_ * (kBf16 * (2 * hidden / own + (query + key_value + output) / tp) +
                                    (gates + kFloat32 * heads) / tp);
  work.projections_saved = kBf16 * tokens_ * (query + key_value) / tp;
  work.statistics_saved = kFloat32 * tokens_ * heads / tp;
  work.residual_saved = kBf16 * tokens_ * hidden / own;
  work.gates_saved = tokens_ * gates / tp;
  work.layers = 1;
  if (model_.kv_lora > 0) {
    const auto latents = static_cast<double>(model_.q_lora + model_.kv_lora + model_.qk_rope);
    work.up_saved = kBf16 * tokens_ * std::max(0.0, (query + key_value) / tp - latents / own);
  }
  if (stack_.attention == AttentionKernel::unfused) {
    // Scores, their softmax, and a mask of dropout (2205.05198, section 4.1: 5 a s^2 b bytes).
    const auto sequence =
        static_cast<double>(parallelism_.sequence > 0 ? parallelism_.sequence : model_.sequence);
    work.core_saved = 5 * heads / tp * sequence * tokens_;
    work.saved_for_input += work.core_saved;
  }
  work.cheap_saved = operand * tokens_ * (2 * hidden / own + channels / tp);
  work.inner_gradients = kBf16 * tokens_ * (2 * hidden / own + (query + key_value + gate * channels) / tp);
  add_parameters(layer, work);
  work.quantised = quantised_copies() * (work.parameters + work.expert_parameters);
  if (stack_.fused_weight_gradient) work.weight_products = kBf16 * (work.parameters + work.expert_parameters);
  return work;
}

LayerWork LayerMemory::prediction_layer() const {
  LayerWork work = layer(model_.layers - 1);
  const auto hidden = static_cast<double>(model_.hidden);
  work.saved_for_weight += kBf16 * tokens_ * 2 * hidden / parallelism_.tensor;
  work.parameters += 2 * hidden * hidden / parallelism_.tensor;
  return work;
}

double LayerMemory::vocabulary() const {
  return static_cast<double>(model_.vocab * model_.hidden) / parallelism_.tensor;
}

double LayerMemory::logits() const {
  return tokens_ * static_cast<double>(model_.vocab) / parallelism_.tensor;
}

double LayerMemory::boundary() const {
  const double parts = stack_.sequence_parallel ? parallelism_.tensor : 1;
  return kBf16 * tokens_ * static_cast<double>(model_.hidden) / parts;
}

}  // namespace ppsim::workload
