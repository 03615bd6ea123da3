#pragma once

#include <type_traits>

#include "cuda/transformer/attention_choice.hpp"
#include "cuda/transformer/gpu_stage_pass.hpp"
#include "ppsim/core/check.hpp"

namespace ppsim::cuda {

/// Behind the optimizer's state of a block: the number of updates done.
inline constexpr std::size_t kStepBytes = transformer::Arena::kAlignment;

/// The sizes of a model whose attention is computed so.
[[nodiscard]] inline Dimensions dimensions_of(const TransformerConfig& config,
                                              const AttentionChoice& attention) {
  Dimensions d(config);
  d.saves_statistics = attention.flash;
  return d;
}

/// Bytes of every tensor class of the transformer on a GPU.
template <class T>
class GpuTransformerSizes {
 public:
  using Sum = SumOf<T>;
  GpuTransformerSizes(const TransformerConfig& config, const Pipeline& pipeline,
                      const AttentionChoice& attention)
      : d_(dimensions_of(config, attention)),
        flash_(attention.workspace),
        layers_(config.layers),
        pipeline_(pipeline) {}

  [[nodiscard]] SizeTable table() {
    for (int b = 0; b < pipeline_.blocks(); ++b) {
      const StageRole own = role(pipeline_.spec().blocks[BlockId(b)].stages.front());
      const std::size_t numbers = transformer::bytes_of<StageWeights<T>>(d_, own) / sizeof(T);
      set({TensorKind::parameters, b}, numbers * sizeof(T));
      set({TensorKind::gradients, b}, numbers * sizeof(Sum) + transformer::kLossBytes);
      set({TensorKind::optimizer_state, b}, state_bytes(numbers));
    }
    for (int s = 0; s < pipeline_.stages(); ++s) set_stage(s, role(StageId(s)));
    return table_;
  }

 private:
  static std::size_t state_bytes(std::size_t numbers) {
    if (std::is_same_v<T, Ring>) return numbers * sizeof(Ring);
    return numbers * 3 * sizeof(float) + kStepBytes;
  }
  StageRole role(StageId stage) const {
    const auto found = transformer::role_of(pipeline_, layers_, stage);
    PPSIM_CHECK(found, "a stage that no microbatch visits");
    return *found;
  }
  void set(const SizeClass& key, std::size_t bytes) {
    constexpr std::size_t kUnit = Arena::kAlignment;
    table_.set(key, static_cast<Bytes>((bytes + kUnit - 1) / kUnit * kUnit));
  }

  void set_stage(int stage, const StageRole& own) {
    const auto boundary = static_cast<std::size_t>(d_.rows * d_.hidden) * sizeof(T);
    const std::size_t tokens = static_cast<std::size_t>(d_.rows) * sizeof(std::int32_t);
    const std::size_t for_input = transformer::bytes_of<StageForInput<T, Sum>>(d_, own);
    const std::size_t for_weight = transformer::bytes_of<StageForWeight<T, Sum>>(d_, own);
    set({TensorKind::boundary_input, stage}, own.embedding ? tokens : boundary);
    set({TensorKind::boundary_output, stage}, own.head ? 0 : boundary);
    set({TensorKind::incoming_gradient, stage}, own.head ? 0 : boundary);
    set({TensorKind::outgoing_gradient, stage}, own.embedding ? 0 : boundary);
    set({TensorKind::saved_for_input, stage}, for_input);
    set({TensorKind::saved_for_weight, stage}, for_weight);
    set({TensorKind::lent_activations, stage}, for_input + for_weight);
    set({TensorKind::inner_gradients, stage}, transformer::bytes_of<StageInner<T, Sum>>(d_, own));
    set_workspaces(stage, own);
  }

  void set_workspaces(int stage, const StageRole& own) {
    using Own = typename ForwardScratch<T>::Own;
    const std::size_t input = transformer::bytes_of<InputScratch<T>>(d_, own, flash_);
    const std::size_t weight = transformer::bytes_of<transformer::WeightTensors<T>>(d_, own);
    const auto set_workspace = [&](OpKind kind, std::size_t bytes) {
      set({TensorKind::workspace, stage, -1, -1, kind}, bytes);
    };
    set_workspace(OpKind::forward,
                  transformer::bytes_of<ForwardScratch<T>>(d_, own, Own{{own.head, true}, flash_}));
    set_workspace(OpKind::recompute,
                  transformer::bytes_of<ForwardScratch<T>>(d_, own, Own{{true, false}, flash_}));
    set_workspace(OpKind::backward_input, input);
    set_workspace(OpKind::backward_weight, weight);
    set_workspace(OpKind::backward,
                  transformer::bytes_of<StageInner<T, Sum>>(d_, own) + std::max(input, weight));
  }

  Dimensions d_;
  AttentionWorkspace flash_;
  int layers_;
  const Pipeline& pipeline_;
  SizeTable table_;
};

template <class T>
[[nodiscard]] SizeTable gpu_transformer_sizes(const TransformerConfig& config, const Pipeline& pipeline,
                                              const AttentionChoice& attention) {
  return GpuTransformerSizes<T>(config, pipeline, attention).table();
}

}  // namespace ppsim::cuda
