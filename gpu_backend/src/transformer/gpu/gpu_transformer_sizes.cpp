#include "gpu_transformer_sizes.hpp"

#include <algorithm>
#include <type_traits>

#include "fp8_weights.hpp"
#include "gpu_scratch.hpp"
#include "ppsim/core/ir/check.hpp"
#include "transformer/model/transformer_sizes.hpp"
#include "transformer/model/transformer_slices.hpp"

namespace ppsim::gpu_backend::cuda {
namespace {

using transformer::StageWeights;

template <class T>
class GpuTransformerSizes {
 public:
  using Sum = SumOf<T>;
  GpuTransformerSizes(const TransformerConfig& config, const Pipeline& pipeline,
                      const AttentionChoice& attention)
      : slices_(slices_of(config, pipeline.slices(), attention)),
        flash_(attention.workspace),
        layers_(config.layers),
        fp8_(config.arithmetic == Arithmetic::fp8),
        pipeline_(pipeline) {}

  [[nodiscard]] SizeTable table() {
    for (int b = 0; b < pipeline_.blocks(); ++b) {
      const StageRole own = transformer::role_of(pipeline_, layers_, BlockId(b));
      const std::size_t numbers = transformer::bytes_of<StageWeights<T>>(slices_.front(), own) / sizeof(T);
      set({TensorKind::parameters, b},
          fp8_ ? transformer::bytes_of<Fp8Weights>(slices_.front(), own) : numbers * sizeof(T));
      set({TensorKind::gradients, b}, numbers * sizeof(Sum) + transformer::kLossBytes);
      set({TensorKind::optimizer_state, b}, state_bytes(numbers));
    }
    for (const StageId stage : pipeline_.stage_ids()) {
      transformer::set_stage_sizes<T, GpuForWeight<T>, Sum>(
          table_, slices_, transformer::sized_stage(pipeline_, role(stage), stage),
          [&](const SizedSlice& own) { set_workspaces(own); });
    }
    if (slices_.size() > 1) transformer::set_edge_sizes<T>(table_, slices_, pipeline_);
    transformer::set_side_sizes(table_, pipeline_);
    return table_;
  }

 private:
  using SizedSlice = transformer::SizedSlice;

  static std::size_t state_bytes(std::size_t numbers) {
    if (std::is_same_v<T, Ring>) return numbers * sizeof(Ring);
    return numbers * 3 * sizeof(float) + kStepBytes;
  }
  StageRole role(StageId stage) const {
    const auto found = transformer::role_of(pipeline_, layers_, stage);
    PPSIM_CHECK(found, "a stage that no microbatch visits");
    return *found;
  }
  void set(const SizeClass& key, std::size_t bytes) { transformer::set_size(table_, key, bytes); }

  void set_workspaces(const SizedSlice& own) const {
    using Own = typename GpuForwardScratch<T>::Own;
    const auto forward = [&](bool stream, bool saved) {
      return transformer::bytes_of<GpuForwardScratch<T>>(own.d, own.role, Own{{stream, saved}, flash_});
    };
    const std::size_t input = transformer::bytes_of<InputScratch<T>>(own.d, own.role, flash_);
    const std::size_t weight = transformer::bytes_of<GpuWeightScratch<T>>(own.d, own.role);
    const std::size_t inner = transformer::bytes_of<transformer::StageInner<T, Sum>>(own.d, own.role);
    const bool makes_own = !own.role.is_head_shard();
    own.set_workspace(OpKind::forward, forward(own.role.head && makes_own, makes_own));
    own.set_workspace(OpKind::recompute, forward(true, false));
    own.set_workspace(OpKind::backward_input, input);
    own.set_workspace(OpKind::backward_weight, weight);
    own.set_workspace(OpKind::backward, inner + std::max(input, weight));
  }

  std::vector<Dimensions> slices_;
  AttentionWorkspace flash_;
  int layers_;
  bool fp8_;
  const Pipeline& pipeline_;
  SizeTable table_;
};

}  // namespace

std::vector<Dimensions> slices_of(const TransformerConfig& config, int slices,
                                  const AttentionChoice& attention) {
  std::vector<Dimensions> all = transformer::slices_of(config, slices);
  for (Dimensions& d : all) d.saves_statistics = attention.flash;
  return all;
}

template <class T>
SizeTable gpu_transformer_sizes(const TransformerConfig& config, const Pipeline& pipeline,
                                const AttentionChoice& attention) {
  return GpuTransformerSizes<T>(config, pipeline, attention).table();
}

template SizeTable gpu_transformer_sizes<Bf16>(const TransformerConfig&, const Pipeline&,
                                               const AttentionChoice&);
template SizeTable gpu_transformer_sizes<float>(const TransformerConfig&, const Pipeline&,
                                                const AttentionChoice&);
template SizeTable gpu_transformer_sizes<Ring>(const TransformerConfig&, const Pipeline&,
                                               const AttentionChoice&);

}  // namespace ppsim::gpu_backend::cuda
