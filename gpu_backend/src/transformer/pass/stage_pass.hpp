#pragma once

#include "stage_place.hpp"

namespace ppsim::gpu_backend::transformer {

/// The tensors of one layer.
template <class T, class Sum>
struct LayerTensors {
  LayerWeights<T> weights;
  LayerForInput<T, Sum> for_input;
  LayerForWeight<T> for_weight;
  AttendedSlices<T, Sum> slices;
};

/// One layer of a stage on the operations of a device.
template <class Ops>
class Layer {
 public:
  using T = typename Ops::Number;
  using Sum = typename Ops::Sum;
  using Tensors = LayerTensors<T, Sum>;

  Layer(const Ops& ops, const Tensors& tensors)
      : ops_(ops),
        weights_(tensors.weights),
        for_input_(tensors.for_input),
        for_weight_(tensors.for_weight),
        slices_(tensors.slices) {}

  /// Replaces the residual stream by the output of the layer and fills the saved activations.
  void forward(View<T>& stream, typename Ops::ForwardScratch& scratch) {
    ops_.norm(attention_norm(), stream, scratch.normed);
    ops_.forward(scratch.normed, weights_.qkv, for_input_.qkv);
    ops_.attend(attention(), scratch);
    ops_.forward(for_weight_.attended, weights_.projection, stream, true);
    ops_.norm(mlp_norm(), stream, scratch.normed);
    ops_.forward(scratch.normed, weights_.gate_up, for_input_.gate_up);
    ops_.gate(for_input_.gate_up, for_weight_.activated);
    ops_.forward(for_weight_.activated, weights_.down, stream, true);
  }

  /// Writes the gradient of the layer's input, and what W needs.
  void backward_input(const View<T>& d_output, LayerInner<T, Sum>& inner, typename Ops::InputScratch& scratch,
                      View<T>& d_input) {
    ops_.backward_input(d_output, weights_.down, scratch.d_activated);
    ops_.gate_backward(for_input_.gate_up, scratch.d_activated, inner.d_gate_up);
    ops_.backward_input(inner.d_gate_up, weights_.gate_up, scratch.d_hidden);
    ops_.norm_backward(mlp_norm(), scratch.d_hidden, {inner.d_mlp_gain, &d_output, inner.d_middle}, scratch);
    ops_.backward_input(inner.d_middle, weights_.projection, scratch.d_hidden);
    ops_.attend_backward(attention(), scratch, inner.d_qkv);
    ops_.backward_input(inner.d_qkv, weights_.qkv, scratch.d_hidden);
    ops_.norm_backward(attention_norm(), scratch.d_hidden, {inner.d_attention_gain, &inner.d_middle, d_input},
                       scratch);
  }

  /// Adds the weight gradients; `normed` is workspace.
  void backward_weight(const LayerInner<T, Sum>& inner, const View<T>& d_output, View<T>& normed,
                       LayerWeights<Sum> gradients) const {
    ops_.backward_weight(for_weight_.activated, d_output, gradients.down);
    ops_.apply_gain(mlp_norm(), normed);
    ops_.backward_weight(normed, inner.d_gate_up, gradients.gate_up);
    ops_.add(inner.d_mlp_gain, gradients.mlp_gain);
    ops_.backward_weight(for_weight_.attended, inner.d_middle, gradients.projection);
    ops_.apply_gain(attention_norm(), normed);
    ops_.backward_weight(normed, inner.d_qkv, gradients.qkv);
    ops_.add(inner.d_attention_gain, gradients.attention_gain);
  }

 private:
  NormTensors<T, Sum> attention_norm() const {
    return {weights_.attention_gain, for_weight_.attention_unit, for_input_.attention_scale};
  }
  NormTensors<T, Sum> mlp_norm() const {
    return {weights_.mlp_gain, for_weight_.mlp_unit, for_input_.mlp_scale};
  }
  AttentionTensors<T, Sum> attention() const {
    return {for_input_.qkv, for_input_.scores, for_input_.statistics, for_weight_.attended, slices_};
  }

  const Ops& ops_;
  LayerWeights<T> weights_;
  LayerForInput<T, Sum> for_input_;
  LayerForWeight<T> for_weight_;
  AttendedSlices<T, Sum> slices_;
};

/// One compute action of a stage, on the operations of a device.
template <class Ops>
class StagePass {
 public:
  using T = typename Ops::Number;
  using Sum = typename Ops::Sum;
  using Loss = typename Ops::Loss;
  using ForInput = StageForInput<T, Sum>;
  using ForWeight = typename Ops::ForWeight;
  using Inner = StageInner<T, Sum>;

  /// Requires: operations that outlive it.
  explicit StagePass(const Ops& ops)
      : ops_(ops), place_(ops.place()), role_(place_.role), d_(place_.d()), buffers_(place_.buffers) {}

  /// F, B, I, W or R.
  void run(OpKind kind) {
    if (kind == OpKind::forward || kind == OpKind::recompute) return forward();
    if (kind == OpKind::backward) return backward();
    if (kind == OpKind::backward_input) {
      backward_input(buffers_.inner_gradients, buffers_.workspace);
      return copy_input_gradient();
    }
    PPSIM_CHECK(kind == OpKind::backward_weight, "not an action of a stage's arithmetic");
    backward_weight(buffers_.inner_gradients, buffers_.workspace);
  }

 private:
  struct Saved {
    const StageWeights<T>& weights;
    const ForWeight& for_weight;
    const ForInput* for_input;  ///< null for W, which reads nothing that only I needs
  };

  /// F, and R, which has no y.
  void forward() {
    if (role_.is_head_shard()) return forward_shard();
    const bool keeps_own = buffers_.saved_for_weight.empty();
    Arena workspace(buffers_.workspace);
    auto scratch = ops_.forward_scratch(workspace, {buffers_.y.empty(), keeps_own});
    Arena input_arena(keeps_own ? scratch.for_input : buffers_.saved_for_input);
    Arena weight_arena(keeps_own ? scratch.for_weight : buffers_.saved_for_weight);
    const ForInput for_input(input_arena, d_, role_, keeps_own);
    const ForWeight for_weight(weight_arena, d_, role_, keeps_own);
    const StageWeights<T> weights = weights_in(buffers_.parameters);

    View<T> stream = buffers_.y.empty() ? scratch.stream : boundary(buffers_.y);
    enter(weights, stream);
    const Saved saved{weights, for_weight, &for_input};
    for (int i = 0; i < role_.layers; ++i) layer(i, saved).forward(stream, scratch);
    if (!role_.final_norm) return;
    ops_.norm(final_norm(saved), stream, role_.head ? scratch.normed : stream);
    if (role_.head) take_loss(saved, scratch);
  }

  /// The residual stream in front of the first layer: the sum of all that the stage gets.
  void enter(const StageWeights<T>& weights, View<T>& stream) const {
    if (role_.embedding)
      return ops_.embed(tokens_of(weights, buffers_.shared_parameters), weights.positions, stream);
    ops_.copy(boundary(buffers_.x), stream);
    for (const std::span<std::byte> x : buffers_.further_x) ops_.add_boundary(boundary(x), stream);
  }

  void take_loss(const Saved& saved, typename Ops::ForwardScratch& scratch) const {
    View<T> logits = saved.for_weight.d_logits;
    if (role_.tied) {
      ops_.exact().backward_input(scratch.normed, table<T>(buffers_.shared_parameters), logits);
    } else {
      ops_.exact().forward(scratch.normed, saved.weights.head, logits);
    }
    ops_.take_loss(saved.for_weight, scratch);
  }

  void forward_shard() const {
    PPSIM_CHECK(!buffers_.saved_for_weight.empty(), "a shard of the head saves what it shares");
    const ForWeight saved = saved_for_weight();
    const StageWeights<T> weights = weights_in(buffers_.parameters);
    View<T> logits = saved.d_logits;
    ops_.exact().forward(boundary(buffers_.x), weights.head, logits);
    ops_.open_loss(saved);
    if (!role_.gradient_in_forward) return;
    Arena arena(buffers_.dx);
    EarlyGradient<T> early(arena, d_);
    ops_.exact().backward_input(logits, weights.head, early.scaled);
    ops_.target_weights(saved, weights, early);
  }

  /// I and W, with the inner gradients between them in the workspace.
  void backward() {
    Arena workspace(buffers_.workspace);
    const std::span<std::byte> inner = workspace.take_bytes(bytes_of<Inner>(d_, role_));
    backward_input(inner, workspace.rest());
    backward_weight(inner, workspace.rest());
    copy_input_gradient();
  }

  /// The input is a sum: each of its parts has the same gradient.
  void copy_input_gradient() const {
    for (const std::span<std::byte> dx : buffers_.further_dx) {
      View<T> part = boundary(dx);
      ops_.copy(boundary(buffers_.dx), part);
    }
  }

  void backward_input(std::span<std::byte> inner_buffer, std::span<std::byte> workspace_buffer) {
    Arena workspace(workspace_buffer);
    auto scratch = ops_.input_scratch(workspace);
    const ForWeight for_weight = saved_for_weight();
    const StageWeights<T> weights = weights_in(buffers_.parameters);
    if (role_.is_head_shard()) {
      ops_.close_loss(for_weight, scratch);
      if (role_.gradient_in_forward) return;
      View<T> d_input = boundary(buffers_.dx);
      return ops_.exact().backward_input(for_weight.d_logits, weights.head, d_input);
    }
    sum_output_gradients();
    Arena inner_arena(inner_buffer);
    Arena input_arena(buffers_.saved_for_input);
    Inner inner(inner_arena, d_, role_);
    const ForInput for_input(input_arena, d_, role_);
    const Saved saved{weights, for_weight, &for_input};
    backward_end(saved, inner, scratch);
    for (int i = role_.layers - 1; i >= 0; --i) {
      LayerInner<T, Sum> layer_inner = inner.layers[i];
      View<T> d_input = gradient_at(i, inner);
      layer(i, saved).backward_input(gradient_at(i + 1, inner), layer_inner, scratch, d_input);
    }
  }

  /// The gradient of what the last layer gives; of a stage without any that of its input.
  void backward_end(const Saved& saved, Inner& inner, typename Ops::InputScratch& scratch) const {
    if (role_.final_norm) {
      View<T> d_output = gradient_at(role_.layers, inner);
      if (role_.head) backward_head(saved, scratch.d_hidden);
      ops_.norm_backward(final_norm(saved), role_.head ? scratch.d_hidden : boundary(buffers_.dy),
                         {inner.d_final_gain, nullptr, d_output}, scratch);
    } else if (role_.layers == 0 && !role_.embedding) {
      View<T> d_input = boundary(buffers_.dx);
      ops_.copy(boundary(buffers_.dy), d_input);
    }
  }

  /// Leaves the sum in dy, where W reads it as well.
  void sum_output_gradients() const {
    if (buffers_.further_dy.empty()) return;
    View<T> sum = boundary(buffers_.dy);
    for (const std::span<std::byte> dy : buffers_.further_dy) ops_.add_boundary(boundary(dy), sum);
  }

  void backward_head(const Saved& saved, View<T>& d_normed) const {
    const View<T>& d_logits = saved.for_weight.d_logits;
    if (role_.tied) return ops_.exact().forward(d_logits, table<T>(buffers_.shared_parameters), d_normed);
    ops_.exact().backward_input(d_logits, saved.weights.head, d_normed);
  }

  void backward_weight(std::span<std::byte> inner_buffer, std::span<std::byte> workspace_buffer) {
    Arena inner_arena(inner_buffer);
    Arena workspace(workspace_buffer);
    Arena gradient_arena(buffers_.gradients);
    const Inner inner(inner_arena, d_, role_);
    auto scratch = ops_.weight_scratch(workspace);
    const ForWeight for_weight = saved_for_weight();
    const StageWeights<T> weights = weights_in(buffers_.parameters);
    const Saved saved{weights, for_weight, nullptr};
    StageWeights<Sum> gradients(gradient_arena, d_, role_);

    if (role_.head) head_weights(saved, scratch.normed, gradients);
    if (role_.has_loss()) {
      View<Loss> total(gradient_arena.take<Loss>(1), 1, 1);
      ops_.add(View<Loss>(for_weight.loss, 1, 1), total);
    }
    if (role_.final_norm) ops_.add(inner.d_final_gain, gradients.final_gain);
    for (int i = 0; i < role_.layers; ++i) {
      layer(i, saved).backward_weight(inner.layers[i], gradient_at(i + 1, inner), scratch.normed,
                                      gradients.layers[i]);
    }
    if (!role_.embedding) return;
    View<Sum> d_tokens = tokens_of(gradients, buffers_.shared_gradients);
    ops_.embed_backward(gradient_at(0, inner), d_tokens, gradients.positions, scratch);
  }

  /// `normed` is workspace.
  void head_weights(const Saved& saved, View<T>& normed, StageWeights<Sum>& gradients) const {
    const View<T>& d_logits = saved.for_weight.d_logits;
    if (role_.final_norm) ops_.apply_gain(final_norm(saved), normed);
    const View<T> input = role_.final_norm ? normed : boundary(buffers_.x);
    if (!role_.tied) return ops_.exact().backward_weight(input, d_logits, gradients.head);
    View<Sum> d_table = table<Sum>(buffers_.shared_gradients);
    ops_.exact().backward_weight(d_logits, input, d_table);
  }

  Layer<Ops> layer(int i, const Saved& saved) const {
    Arena nothing;
    const auto for_input =
        saved.for_input == nullptr ? LayerForInput<T, Sum>(nothing, d_) : saved.for_input->layers[i];
    return {ops_, {saved.weights.layers[i], for_input, saved.for_weight.layers[i], {place_, i}}};
  }
  NormTensors<T, Sum> final_norm(const Saved& saved) const {
    const View<Sum> none(nullptr, 0, 1);
    return {saved.weights.final_gain, saved.for_weight.final_unit,
            saved.for_input == nullptr ? none : saved.for_input->final_scale};
  }
  View<T> boundary(std::span<std::byte> buffer) const {
    return Arena(buffer).template take_matrix<T>(d_.rows, d_.hidden);
  }
  StageWeights<T> weights_in(std::span<std::byte> buffer) const {
    Arena arena(buffer);
    return StageWeights<T>(arena, d_, role_);
  }
  /// Tied, embedding and head have one tensor in a block of its own, with a row for each token.
  template <class N>
  View<N> table(std::span<std::byte> block) const {
    Arena arena(block);
    return arena.template take_weights<N>(d_.vocab, d_.hidden);
  }
  template <class N>
  View<N> tokens_of(const StageWeights<N>& own, std::span<std::byte> shared) const {
    return role_.tied ? table<N>(shared) : own.tokens;
  }
  ForWeight saved_for_weight() const {
    Arena arena(buffers_.saved_for_weight);
    return ForWeight(arena, d_, role_);
  }
  /// The gradient of a boundary: dx and dy at the ends of a stage that has them.
  View<T> gradient_at(int index, const Inner& inner) const {
    if (index == role_.layers && !role_.final_norm) return boundary(buffers_.dy);
    if (index == 0 && !role_.embedding) return boundary(buffers_.dx);
    const Index rows = (index - inner.first_boundary) * d_.rows;
    return View<T>(const_cast<T*>(inner.boundaries.data()) + rows * d_.hidden, d_.rows, d_.hidden);
  }

  const Ops& ops_;
  const StagePlace& place_;
  const StageRole& role_;
  const Dimensions& d_;
  const ActionBuffers& buffers_;
};

}  // namespace ppsim::gpu_backend::transformer
