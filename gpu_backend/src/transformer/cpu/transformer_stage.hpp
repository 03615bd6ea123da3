#pragma once

#include <algorithm>
#include <vector>

#include "ppsim/gpu_backend/stage_model/stage_model.hpp"
#include "transformer_arithmetic.hpp"
#include "transformer_layer.hpp"

namespace ppsim::gpu_backend::transformer {

/// One compute action: a stage, a microbatch and their tensors.
template <class Policy>
class StagePass {
 public:
  using T = typename Policy::Scalar;
  using Loss = typename Policy::Loss;

  /// The model, piece, sequences and slices of an action.
  struct Place {
    const TransformerConfig& config;
    StageRole role;
    std::int64_t first_sequence;         ///< of the microbatch in this step
    std::span<const Dimensions> slices;  ///< of the microbatch
  };

  StagePass(const Place& place, const ActionBuffers& buffers)
      : place_(place), role_(place.role), d_(place.slices[index(buffers.slice)]), buffers_(buffers) {}

  /// F, and R, which has no y.
  void forward() {
    if (role_.is_head_shard()) return forward_shard();
    const bool keeps_own = buffers_.saved_for_weight.empty();
    Arena workspace(buffers_.workspace);
    ForwardTensors<T, Loss> own(workspace, d_, role_, {buffers_.y.empty(), keeps_own});
    Arena input_arena(keeps_own ? own.for_input : buffers_.saved_for_input);
    Arena weight_arena(keeps_own ? own.for_weight : buffers_.saved_for_weight);
    StageForInput<T> for_input(input_arena, d_, role_, keeps_own);
    StageForWeight<T, Loss> for_weight(weight_arena, d_, role_, keeps_own);
    StageWeights<T> weights = weights_in(buffers_.parameters);

    View<T> stream = buffers_.y.empty() ? own.stream : boundary(buffers_.y);
    if (role_.embedding) {
      embed(weights, stream);
    } else {
      stream = boundary(buffers_.x);
    }
    for (int i = 0; i < role_.layers; ++i) {
      Layer<Policy>(d_, {weights.layers[i], for_input.layers[i], for_weight.layers[i], {earlier(i), {}, {}}})
          .forward(stream, own.normed);
    }
    if (role_.head) {
      take_loss(weights, for_input, for_weight, {stream, own.normed});
    } else if (role_.final_norm) {
      final_norm(weights, for_input, for_weight).forward(stream, stream);
    }
  }

  void backward_input() { backward_input(buffers_.inner_gradients, buffers_.workspace); }
  void backward_weight() { backward_weight(buffers_.inner_gradients, buffers_.workspace); }

  /// I and W, with the inner gradients between them in the workspace.
  void backward() {
    Arena workspace(buffers_.workspace);
    const std::span<std::byte> inner = workspace.take_bytes(bytes_of<StageInner<T>>(d_, role_));
    backward_input(inner, workspace.rest());
    backward_weight(inner, workspace.rest());
  }

 private:
  struct HeadTensors {
    View<T>& stream;
    View<T>& normed;
  };

  View<T> boundary(std::span<std::byte> buffer) const {
    return Arena(buffer).template take_matrix<T>(d_.rows, d_.hidden);
  }
  static std::size_t index(std::int32_t slice) { return static_cast<std::size_t>(slice); }
  bool is_last_slice() const { return index(buffers_.slice) + 1 == place_.slices.size(); }

  /// Keys and values of the slices before, which lie in what these have saved.
  std::vector<KeysValues<T>> earlier(int layer) const {
    std::vector<KeysValues<T>> slices;
    for (std::size_t k = 0; k < index(buffers_.slice); ++k) {
      Arena arena(buffers_.earlier[k]);
      const StageForInput<T> saved(arena, place_.slices[k], role_);
      slices.push_back(keys_values_in(saved.layers[layer].qkv, place_.slices[k]));
    }
    return slices;
  }
  /// The gradient of the keys and values of a slice that is not the last, as later ones give it.
  KeysValues<T> kv_gradient(int layer, std::size_t slice) const {
    Arena arena(buffers_.kv_gradient);
    const Dimensions& last = place_.slices.back();
    const Dimensions& own = place_.slices[slice];
    const PerLayer<LayerKvGradient<T>> layers(arena, last, role_.layers);
    return {layers[layer].keys_and_values, {own.before, own.length}, last.before, own.before, 0};
  }
  SharedBySlices<T> shared(int layer) const {
    SharedBySlices<T> shared{earlier(layer), {}, {}};
    for (std::size_t k = 0; k < index(buffers_.slice); ++k) shared.d_earlier.push_back(kv_gradient(layer, k));
    if (!is_last_slice()) shared.from_later.emplace(kv_gradient(layer, index(buffers_.slice)));
    return shared;
  }

  StageWeights<T> weights_in(std::span<std::byte> buffer) const {
    Arena arena(buffer);
    return StageWeights<T>(arena, d_, role_);
  }
  std::span<const std::int32_t> tokens() const {
    return {Arena(buffers_.x).template take<std::int32_t>(d_.rows), static_cast<std::size_t>(d_.rows)};
  }
  TokenSource tokens_of(Index sequence) const {
    return TokenSource(place_.config.seed, static_cast<std::uint64_t>(place_.first_sequence + sequence),
                       place_.config.vocab);
  }

  /// Place of a row's token in its sequence.
  Index position(Index r) const { return d_.before + r % d_.length; }

  /// Row of the token of a row of the batch in the stage's part of the embedding; -1 where it has none.
  Index embedded(std::span<const std::int32_t> ids, Index r) const {
    const TokenRange own = vocabulary_of(d_, role_);
    const Index at = ids[static_cast<std::size_t>(r)] - own.first;
    return at >= 0 && at < own.count ? at : -1;
  }

  void embed(const StageWeights<T>& weights, View<T>& stream) const {
    const std::span<const std::int32_t> ids = tokens();
    for (Index r = 0; r < d_.rows; ++r) {
      const Index at = embedded(ids, r);
      if (at >= 0) {
        stream.row(r) = weights.tokens.row(at);
      } else {
        stream.row(r).setZero();
      }
      if (role_.has_positions()) stream.row(r) += weights.positions.row(position(r));
    }
  }

  Norm<Policy> final_norm(const StageWeights<T>& weights, const StageForInput<T>& for_input,
                          const StageForWeight<T, Loss>& for_weight) const {
    return {weights.final_gain, for_weight.final_unit, for_input.final_scale};
  }

  void take_loss(const StageWeights<T>& weights, const StageForInput<T>& for_input,
                 StageForWeight<T, Loss>& for_weight, const HeadTensors& tensors) const {
    final_norm(weights, for_input, for_weight).forward(tensors.stream, tensors.normed);
    set_product(for_weight.d_logits, tensors.normed, weights.head);
    *for_weight.loss = 0;
    for_each_position([&](Index r, const LossPlace& at) {
      const LossParts<T> parts = Policy::open_loss(at, row(for_weight.d_logits, r));
      close_loss<Policy>(at, parts, parts, row(for_weight.d_logits, r));
      *for_weight.loss += Policy::loss(at.positions, parts);
    });
  }

  /// Calls `visit` with each row and where its loss is taken.
  template <class Visit>
  void for_each_position(const Visit& visit) const {
    const auto positions = static_cast<std::size_t>(d_.sequences * d_.sequence);
    const Index first = vocabulary_of(d_, role_).first;
    for (Index s = 0; s < d_.sequences; ++s) {
      TokenSource source = tokens_of(s);
      for (Index i = 0; i <= d_.before; ++i) static_cast<void>(source.next());
      for (Index r = s * d_.length; r < (s + 1) * d_.length; ++r)
        visit(r, LossPlace{place_.config.seed, source.next(), positions, first});
    }
  }

  void forward_shard() const {
    PPSIM_CHECK(!buffers_.saved_for_weight.empty(), "a shard of the head saves what it shares");
    Arena weight_arena(buffers_.saved_for_weight);
    StageForWeight<T, Loss> for_weight(weight_arena, d_, role_);
    const StageWeights<T> weights = weights_in(buffers_.parameters);
    set_product(for_weight.d_logits, boundary(buffers_.x), weights.head);
    for_each_position([&](Index r, const LossPlace& at) {
      for_weight.all_parts[r] = for_weight.own_parts[r] = Policy::open_loss(at, row(for_weight.d_logits, r));
    });
    if (role_.gradient_in_forward) make_early_gradient(weights, for_weight);
  }

  void make_early_gradient(const StageWeights<T>& weights, const StageForWeight<T, Loss>& for_weight) const {
    Arena arena(buffers_.dx);
    EarlyGradient<T> early(arena, d_);
    set_product_by_transpose(early.scaled, for_weight.d_logits, weights.head);
    early.of_targets.setZero();
    for_each_position([&](Index r, const LossPlace& at) {
      const auto target = at.target_among(static_cast<std::size_t>(weights.head.cols()));
      if (!target) return;
      early.of_targets.row(r) =
          Policy::target_share(at.positions) * weights.head.col(static_cast<Index>(*target)).transpose();
    });
  }

  /// The first shard takes the loss of all.
  void backward_input_of_shard() const {
    Arena weight_arena(buffers_.saved_for_weight);
    StageForWeight<T, Loss> for_weight(weight_arena, d_, role_);
    const StageWeights<T> weights = weights_in(buffers_.parameters);
    *for_weight.loss = 0;
    for_each_position([&](Index r, const LossPlace& at) {
      const LossParts<T>& all = for_weight.all_parts[r];
      close_loss<Policy>(at, for_weight.own_parts[r], all, row(for_weight.d_logits, r));
      if (role_.shard == 0) *for_weight.loss += Policy::loss(at.positions, all);
    });
    if (!role_.gradient_in_forward)
      set_product_by_transpose(boundary(buffers_.dx), for_weight.d_logits, weights.head);
  }

  /// The gradient of a boundary: dx and dy at the ends of a stage that has them.
  View<T> gradient_at(int index, const StageInner<T>& inner) const {
    if (index == role_.layers && !role_.final_norm) return boundary(buffers_.dy);
    if (index == 0 && !role_.embedding) return boundary(buffers_.dx);
    View<T> boundaries = inner.boundaries;
    return View<T>(row(boundaries, (index - inner.first_boundary) * d_.rows).data(), d_.rows, d_.hidden);
  }

  void backward_input(std::span<std::byte> inner_buffer, std::span<std::byte> workspace_buffer) {
    if (role_.is_head_shard()) return backward_input_of_shard();
    Arena inner_arena(inner_buffer);
    Arena workspace(workspace_buffer);
    Arena input_arena(buffers_.saved_for_input);
    Arena weight_arena(buffers_.saved_for_weight);
    StageInner<T> inner(inner_arena, d_, role_);
    InputTensors<T> scratch(workspace, d_, role_);
    const StageForInput<T> for_input(input_arena, d_, role_);
    const StageForWeight<T, Loss> for_weight(weight_arena, d_, role_);
    const StageWeights<T> weights = weights_in(buffers_.parameters);

    if (is_last_slice()) std::fill(buffers_.kv_gradient.begin(), buffers_.kv_gradient.end(), std::byte{0});
    if (role_.final_norm) {
      View<T> d_output = gradient_at(role_.layers, inner);
      d_output.setZero();
      if (role_.head) {
        set_product_by_transpose(scratch.d_hidden, for_weight.d_logits, weights.head);
      } else {
        scratch.d_hidden = boundary(buffers_.dy);
      }
      final_norm(weights, for_input, for_weight).backward(scratch.d_hidden, inner.d_final_gain, d_output);
    } else if (role_.layers == 0 && !role_.embedding) {
      boundary(buffers_.dx) = boundary(buffers_.dy);
    }
    for (int i = role_.layers - 1; i >= 0; --i) {
      LayerInner<T> layer_inner = inner.layers[i];
      View<T> d_input = gradient_at(i, inner);
      Layer<Policy>(d_, {weights.layers[i], for_input.layers[i], for_weight.layers[i], shared(i)})
          .backward_input(gradient_at(i + 1, inner), layer_inner, scratch, d_input);
    }
  }

  void backward_weight(std::span<std::byte> inner_buffer, std::span<std::byte> workspace_buffer) {
    Arena inner_arena(inner_buffer);
    Arena workspace(workspace_buffer);
    Arena weight_arena(buffers_.saved_for_weight);
    Arena gradient_arena(buffers_.gradients);
    const StageInner<T> inner(inner_arena, d_, role_);
    WeightTensors<T> scratch(workspace, d_, role_);
    const StageForWeight<T, Loss> for_weight(weight_arena, d_, role_);
    const StageWeights<T> weights = weights_in(buffers_.parameters);
    StageWeights<T> gradients(gradient_arena, d_, role_);

    if (role_.is_head_shard()) {
      add_product_of_transpose(gradients.head, boundary(buffers_.x), for_weight.d_logits);
    } else if (role_.head) {
      Norm<Policy>{weights.final_gain, for_weight.final_unit, {nullptr, 0, 1}}.apply_gain(scratch.normed);
      add_product_of_transpose(gradients.head, scratch.normed, for_weight.d_logits);
    }
    if (role_.head) *gradient_arena.take<Loss>(1) += *for_weight.loss;
    if (role_.final_norm) gradients.final_gain += inner.d_final_gain;
    for (int i = 0; i < role_.layers; ++i) {
      const LayerWeights<T> layer_weights = weights.layers[i];
      const LayerForWeight<T> saved = for_weight.layers[i];
      const LayerInner<T> layer_inner = inner.layers[i];
      const View<T> d_output = gradient_at(i + 1, inner);
      add_weight_gradients<Policy>({layer_weights, saved, layer_inner, d_output}, scratch.normed,
                                   gradients.layers[i]);
    }
    if (role_.embedding) add_embedding_gradients(gradient_at(0, inner), gradients);
  }

  void add_embedding_gradients(const View<T>& d_stream, StageWeights<T>& gradients) const {
    const std::span<const std::int32_t> ids = tokens();
    for (Index r = 0; r < d_.rows; ++r) {
      if (const Index at = embedded(ids, r); at >= 0) gradients.tokens.row(at) += d_stream.row(r);
      if (role_.has_positions()) gradients.positions.row(position(r)) += d_stream.row(r);
    }
  }

  const Place& place_;
  const StageRole& role_;
  const Dimensions& d_;
  const ActionBuffers& buffers_;
};

}  // namespace ppsim::gpu_backend::transformer
