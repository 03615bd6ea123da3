#pragma once

#include <algorithm>
#include <cstdint>

#include "ppsim/workload/analytic.hpp"
#include "ppsim/workload/layout.hpp"

namespace ppsim::workload {

inline constexpr double kBf16 = 2;  ///< bytes
inline constexpr double kFloat32 = 4;

/// Bytes of an operand of products, without the scales of its blocks.
[[nodiscard]] inline double operand_bytes(DataType type) {
  switch (type) {
    case DataType::bf16:
      return kBf16;
    case DataType::fp8:
      return 1;
    case DataType::nvfp4:
      return 0.5;
  }
  return kBf16;
}

/// The model as a tensor-parallel group computes it: where there are fewer heads of keys and values than
/// GPUs, each GPU has a whole one, which others have as well.
[[nodiscard]] inline ModelDescription with_whole_heads(const Workload& workload) {
  ModelDescription model = workload.model;
  model.kv_heads = std::max<std::int64_t>(model.kv_heads, workload.parallelism.tensor);
  return model;
}

/// GPUs that share an expert where experts have their own group.
[[nodiscard]] inline int expert_split(const Workload& workload) {
  return workload.stack.split_experts && workload.parallelism.expert > 1 ? workload.parallelism.tensor : 1;
}

/// The part of the model in a stage, and the part before it.
struct StageShare {
  StageContents contents;
  std::int64_t first_layer = 0;
  std::int64_t mtp_before = 0;
  std::int64_t heads = 0;  ///< passes of the head, if it stands here
};

/// Memory of one layer and one microbatch on one GPU. Units: bytes; counts of parameters.
struct LayerWork {
  double saved_for_input = 0;
  double saved_for_weight = 0;
  double cheap_saved = 0;  ///< of saved_for_weight: norms and activation functions, from tensors that I needs
  double core_saved = 0;   ///< of saved_for_input: needed by the attention core alone
  double weight_products = 0;  ///< extra results of products that add to main gradients: once for each shape
  double up_saved = 0;         ///< of saved_for_input: outputs of the up-projections of latent attention
  double projections_saved = 0;  ///< of saved_for_input: queries, keys and values
  double statistics_saved = 0;   ///< of saved_for_input: of the softmax
  double residual_saved = 0;     ///< of saved_for_input: input of the second norm
  double gates_saved = 0;        ///< of saved_for_input: input of the activation function
  double layers = 0;             ///< that this is the sum of
  double inner_gradients = 0;
  double parameters = 0;         ///< but for experts
  double expert_parameters = 0;  ///< of the experts on the GPU
  double quantised = 0;          ///< bytes of quantised weights, less what they replace

  LayerWork& operator+=(const LayerWork& other) {
    saved_for_input += other.saved_for_input;
    saved_for_weight += other.saved_for_weight;
    cheap_saved += other.cheap_saved;
    core_saved += other.core_saved;
    up_saved += other.up_saved;
    projections_saved += other.projections_saved;
    statistics_saved += other.statistics_saved;
    residual_saved += other.residual_saved;
    gates_saved += other.gates_saved;
    layers += other.layers;
    quantised += other.quantised;
    inner_gradients += other.inner_gradients;
    parameters += other.parameters;
    expert_parameters += other.expert_parameters;
    weight_products = std::max(weight_products, other.weight_products);
    return *this;
  }
};

}  // namespace ppsim::workload
