#include "ppsim/gpu_backend/transformer/transformer.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "cpu_pass.hpp"
#include "ppsim/gpu_backend/executor/backend_error.hpp"
#include "ppsim/gpu_backend/stage_model/gpu_stage_model.hpp"
#include "transformer/gpu/gpu_transformer.hpp"
#include "transformer/model/transformer_check.hpp"
#include "transformer/model/transformer_sizes.hpp"
#include "transformer/model/transformer_slices.hpp"
#include "transformer/model/transformer_vocabulary.hpp"
#include "transformer_arithmetic.hpp"
#include "vocabulary_sum.hpp"

namespace ppsim::gpu_backend {
namespace transformer {
namespace {

/// Bytes behind the two averages of AdamW, where the updates are counted.
inline constexpr std::size_t kCountBytes = Arena::kAlignment;

template <class Policy>
class TransformerModel : public CpuStageModel {
 public:
  using T = typename Policy::Scalar;
  using Loss = typename Policy::Loss;

  TransformerModel(const TransformerConfig& config, std::unique_ptr<GpuStageModel> on_gpu)
      : config_(config), d_(config), on_gpu_(std::move(on_gpu)) {}

  Expected<void> check(const Pipeline& pipeline) const override {
    PPSIM_RETURN_IF_ERROR(check_slices(config_, pipeline.slices()));
    PPSIM_RETURN_IF_ERROR(check_roles(pipeline, config_.layers));
    return check_vocabulary(pipeline, config_.vocab);
  }
  Expected<void> check_actions(const Program& program) const override {
    PPSIM_RETURN_IF_ERROR(check_kept_slices(program));
    return check_kept_statistics(program);
  }

  SizeTable sizes(const Pipeline& pipeline) const override {
    SizeTable table;
    for (int b = 0; b < pipeline.blocks(); ++b) {
      const std::size_t bytes = bytes_of<StageWeights<T>>(d_, role_of(pipeline, config_.layers, BlockId(b)));
      set_size(table, {TensorKind::parameters, b}, bytes);
      set_size(table, {TensorKind::optimizer_state, b},
               config_.optimizer == Optimizer::adamw ? 2 * bytes + kCountBytes : bytes);
      set_size(table, {TensorKind::gradients, b}, bytes + kLossBytes);
    }
    const std::vector<Dimensions> slices = slices_of(config_, pipeline.slices());
    for (const StageId stage : pipeline.stage_ids())
      set_stage_sizes<T, StageForWeight<T, Loss>, T>(
          table, slices, sized_stage(pipeline, role(pipeline, stage), stage), set_workspace_sizes);
    if (slices.size() > 1) set_edge_sizes<T>(table, slices, pipeline);
    set_side_sizes(table, pipeline);
    return table;
  }

  void initialize(const Pipeline& pipeline, BlockId block, std::span<std::byte> parameters,
                  std::span<std::byte> optimizer_state) const override {
    std::ranges::fill(parameters, std::byte{0});
    std::ranges::fill(optimizer_state, std::byte{0});
    const StageRole own = role_of(pipeline, config_.layers, block);
    Arena arena(parameters);
    StageWeights<T> weights(arena, d_, own);
    initialize_ends(own, weights);
    for (int i = 0; i < own.layers; ++i) initialize_layer(own.first_layer + i, weights.layers[i]);
  }

  void load(const Pipeline& pipeline, MicrobatchId mb, const ActionBuffers& buffers) const override {
    Arena arena(buffers.x);
    const Dimensions d = slices_of(config_, pipeline.slices())[as_size(buffers.slice)];
    auto* token = arena.take<std::int32_t>(d.rows);
    const std::int64_t first = first_sequence_of(pipeline, mb, buffers);
    for (Index s = 0; s < d.sequences; ++s) {
      TokenSource source(config_.seed, static_cast<std::uint64_t>(first + s), config_.vocab);
      for (Index i = 0; i < d.before; ++i) static_cast<void>(source.next());
      for (Index i = 0; i < d.length; ++i) *token++ = source.next();
    }
  }

  void compute(const Pipeline& pipeline, const Action& action, const ActionBuffers& buffers) const override {
    const std::vector<Dimensions> slices = slices_of(config_, pipeline.slices());
    for (const std::span<std::byte> number : buffers.side_outputs) write_number(action.mb(), number);
    const MicrobatchId mb =
        buffers.side_inputs.empty() ? action.mb() : read_number(pipeline, buffers.side_inputs.front());
    compute_stage<Policy>({role_of(pipeline, config_.layers, action), slices, buffers}, config_,
                          first_sequence_of(pipeline, mb, buffers), action.kind);
  }

  Bytes statistics_bytes(const Pipeline& pipeline, CollectiveId collective) const override {
    return shares_statistics(pipeline, collective) ? d_.rows * static_cast<Bytes>(sizeof(LossParts<T>)) : 0;
  }
  void combine(const Pipeline& /*pipeline*/, CollectiveId /*collective*/,
               std::span<const CollectivePart> parts) const override {
    sum_shards<Policy>(d_, parts);
  }

  void update(std::span<std::byte> parameters, std::span<std::byte> gradients,
              std::span<std::byte> optimizer_state, double gradient_scale) const override {
    if constexpr (std::is_floating_point_v<T>) {
      if (config_.optimizer == Optimizer::adamw) {
        return adam(elements(parameters), weights_part(gradients), optimizer_state, gradient_scale);
      }
    }
    const DescentStep step{config_.learning_rate, config_.momentum, gradient_scale};
    const std::span<T> weights = elements(parameters);
    const std::span<T> velocity = elements(optimizer_state);
    const std::span<const T> gradient = weights_part(gradients);
    PPSIM_CHECK(gradient.size() == weights.size() && velocity.size() == weights.size(),
                "buffers of an update differ in size");
    for (std::size_t i = 0; i < weights.size(); ++i) {
      Policy::descend(step, gradient[i], velocity[i], weights[i]);
    }
  }

  void accumulate(std::span<std::byte> into, std::span<const std::byte> from) const override {
    PPSIM_CHECK(into.size() == from.size(), "gradients of one block differ in size");
    const std::span<T> sums = elements(into.first(into.size() - kLossBytes));
    const std::span<const T> terms = weights_part(from);
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += terms[i];
    const Loss loss = loss_of(into) + loss_of(from);
    std::memcpy(into.last(kLossBytes).data(), &loss, sizeof loss);
  }

  double squared_norm(std::span<const std::byte> gradients) const override {
    double sum = 0;
    for (const T value : weights_part(gradients)) sum += Policy::square(value);
    return sum;
  }

  Bytes loss_bytes(const Pipeline& pipeline, BlockId block) const override {
    return role_of(pipeline, config_.layers, block).has_loss() ? Bytes{kLossBytes} : 0;
  }
  double loss(std::span<const std::byte> bytes) const override {
    if constexpr (std::is_floating_point_v<T>) return loss_of(bytes);
    return static_cast<double>(static_cast<std::int64_t>(loss_of(bytes)));
  }

  double max_abs_difference(std::span<const std::byte> a, std::span<const std::byte> b) const override {
    PPSIM_CHECK(a.size() == b.size(), "gradients of one block differ in size");
    const std::span<const T> lhs = weights_part(a);
    const std::span<const T> rhs = weights_part(b);
    double largest = 0;
    for (std::size_t i = 0; i < lhs.size(); ++i)
      largest = std::max(largest, Policy::distance(lhs[i], rhs[i]));
    return largest;
  }

  std::string identity() const override { return identity_of(config_); }
  double unit_roundoff() const override {
    if constexpr (std::is_floating_point_v<T>) return std::numeric_limits<T>::epsilon() / 2;
    return 0;
  }

  const GpuStageModel* on_gpu() const override { return on_gpu_.get(); }

  static Loss loss_of(std::span<const std::byte> gradients) {
    PPSIM_CHECK(gradients.size() >= kLossBytes, "not the gradients of a block");
    Loss loss;
    std::memcpy(&loss, gradients.last(kLossBytes).data(), sizeof loss);
    return loss;
  }

 private:
  void adam(std::span<T> weights, std::span<const T> gradient, std::span<std::byte> state,
            double gradient_scale) const {
    PPSIM_CHECK(gradient.size() == weights.size() && state.size() == 2 * weights.size_bytes() + kCountBytes,
                "buffers of an update differ in size");
    std::int64_t updates = 0;
    const std::span<std::byte> count = state.last(kCountBytes);
    std::memcpy(&updates, count.data(), sizeof updates);
    ++updates;
    std::memcpy(count.data(), &updates, sizeof updates);
    const auto correction = [&](double beta) { return 1 - std::pow(beta, static_cast<double>(updates)); };
    const AdamStep step{config_.learning_rate,          config_.momentum, config_.second_beta,
                        config_.weight_decay,           gradient_scale,   correction(config_.momentum),
                        correction(config_.second_beta)};
    const std::span<T> averages = elements(state.first(state.size() - kCountBytes));
    for (std::size_t i = 0; i < weights.size(); ++i) {
      Policy::adam(step, gradient[i], {&averages[i], &averages[weights.size() + i]}, weights[i]);
    }
  }

  static std::span<T> elements(std::span<std::byte> bytes) {
    return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
  static std::span<const T> weights_part(std::span<const std::byte> gradients) {
    PPSIM_CHECK(gradients.size() >= kLossBytes, "not the gradients of a block");
    return {reinterpret_cast<const T*>(gradients.data()), (gradients.size() - kLossBytes) / sizeof(T)};
  }

  static void write_number(MicrobatchId mb, std::span<std::byte> side_output) {
    const std::int64_t number = mb.value();
    std::memcpy(side_output.data(), &number, sizeof number);
  }
  /// A last stage draws its targets for the microbatch that it is told.
  static MicrobatchId read_number(const Pipeline& pipeline, std::span<const std::byte> side_input) {
    std::int64_t number = 0;
    std::memcpy(&number, side_input.data(), sizeof number);
    if (number >= 0 && number < pipeline.microbatches())
      return MicrobatchId(static_cast<std::int32_t>(number));
    throw BackendError(ErrorCode::ill_formed, "a side edge brings microbatch " + std::to_string(number) +
                                                  ", expected one of " +
                                                  std::to_string(pipeline.microbatches()));
  }

  std::int64_t first_sequence_of(const Pipeline& pipeline, MicrobatchId mb,
                                 const ActionBuffers& buffers) const {
    return first_sequence(pipeline, d_, mb, buffers.step == nullptr ? 0 : *buffers.step);
  }

  StageRole role(const Pipeline& pipeline, StageId stage) const {
    const std::optional<StageRole> found = role_of(pipeline, config_.layers, stage);
    PPSIM_CHECK(found, "a stage that no microbatch visits");
    return *found;
  }

  static void set_workspace_sizes(const SizedSlice& own) {
    using Forward = ForwardTensors<T, Loss>;
    const std::size_t input = bytes_of<InputTensors<T>>(own.d, own.role);
    const std::size_t weight = bytes_of<WeightTensors<T>>(own.d, own.role);
    const bool makes_own = !own.role.is_head_shard();
    own.set_workspace(
        OpKind::forward,
        bytes_of<Forward>(own.d, own.role, typename Forward::Own{own.role.head && makes_own, makes_own}));
    own.set_workspace(OpKind::recompute,
                      bytes_of<Forward>(own.d, own.role, typename Forward::Own{true, false}));
    own.set_workspace(OpKind::backward_input, input);
    own.set_workspace(OpKind::backward_weight, weight);
    own.set_workspace(OpKind::backward, bytes_of<StageInner<T>>(own.d, own.role) + std::max(input, weight));
  }

  /// Pieces draw from separate streams, so that a layer's parameters do not depend on the stage that
  /// holds it, nor a token's on how the vocabulary is cut.
  void initialize_ends(const StageRole& own, StageWeights<T>& weights) const {
    const TokenRange tokens = vocabulary_of(d_, own);
    const Index behind = d_.vocab - tokens.first - tokens.count;
    if (own.embedding) {
      Random random(config_.seed, 0);
      random.skip(tokens.first * d_.hidden);
      fill(random, own.table ? d_.hidden : 1, weights.tokens);
      random.skip((own.tied ? d_.vocab : behind) * d_.hidden);
      fill(random, 1, weights.positions);
    }
    Random random(config_.seed, 1);
    if (own.final_norm) {
      fill_gain(random, weights.final_gain);
    } else {
      random.skip(d_.hidden);
    }
    for (Index i = 0; i < weights.head.rows(); ++i) {
      View<T> of_tokens(row(weights.head, i).data(), 1, tokens.count);
      random.skip(tokens.first);
      fill(random, d_.hidden, of_tokens);
      random.skip(behind);
    }
  }
  void initialize_layer(int layer, LayerWeights<T> weights) const {
    Random random(config_.seed, static_cast<std::uint64_t>(layer) + 2);
    fill_gain(random, weights.attention_gain);
    fill(random, d_.hidden, weights.qkv);
    fill(random, d_.hidden, weights.projection);
    fill_gain(random, weights.mlp_gain);
    fill(random, d_.hidden, weights.gate_up);
    fill(random, d_.ffn, weights.down);
  }
  static void fill(Random& random, Index fan_in, View<T>& weights) {
    for (T& weight : std::span(weights.data(), as_size(weights.size()))) {
      weight = Policy::initial_weight(random.next(), as_size(fan_in));
    }
  }
  static void fill_gain(Random& random, View<T>& gains) {
    for (T& gain : std::span(gains.data(), as_size(gains.size()))) {
      gain = Policy::initial_gain(random.next());
    }
  }

  TransformerConfig config_;
  Dimensions d_;
  std::unique_ptr<GpuStageModel> on_gpu_;
};

/// The model in bf16 or fp8: its gradients are float32 numbers as those of the float32 model, and so is its
/// reference.
class GpuTransformerModel final : public TransformerModel<RealArithmetic<float>> {
 public:
  using TransformerModel::TransformerModel;
  Expected<void> check(const Pipeline& pipeline) const override {
    PPSIM_RETURN_IF_ERROR(TransformerModel::check(pipeline));
    return make_error(ErrorCode::bad_argument, "the transformer computes in bf16 and fp8 on a GPU only",
                      {.found = "a CPU", .expected = "float32, float64 or integer"});
  }
};

}  // namespace
}  // namespace transformer

using transformer::RealArithmetic;
using transformer::RingArithmetic;
using transformer::TransformerModel;

Expected<std::unique_ptr<CpuStageModel>> make_transformer(const TransformerConfig& config) {
  PPSIM_RETURN_IF_ERROR(transformer::check_config(config));
  auto on_gpu = make_gpu_transformer(config, machine_libraries());
  switch (config.arithmetic) {
    case Arithmetic::float32:
      return std::make_unique<TransformerModel<RealArithmetic<float>>>(config, std::move(on_gpu));
    case Arithmetic::float64:
      return std::make_unique<TransformerModel<RealArithmetic<double>>>(config, std::move(on_gpu));
    case Arithmetic::integer_exact:
      return std::make_unique<TransformerModel<RingArithmetic>>(config, std::move(on_gpu));
    case Arithmetic::bf16:
    case Arithmetic::fp8:
      return std::make_unique<transformer::GpuTransformerModel>(config, std::move(on_gpu));
  }
  return make_error(ErrorCode::bad_argument, "transformer: unknown arithmetic");
}

}  // namespace ppsim::gpu_backend
