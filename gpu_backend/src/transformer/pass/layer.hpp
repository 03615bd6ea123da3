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
    ops_.copy(d_output, inner.d_middle);
    ops_.norm_backward(mlp_norm(), scratch.d_hidden, {inner.d_mlp_gain, inner.d_middle}, scratch);
    ops_.backward_input(inner.d_middle, weights_.projection, scratch.d_hidden);
    ops_.attend_backward(attention(), scratch, inner.d_qkv);
    ops_.backward_input(inner.d_qkv, weights_.qkv, scratch.d_hidden);
    ops_.copy(inner.d_middle, d_input);
    ops_.norm_backward(attention_norm(), scratch.d_hidden, {inner.d_attention_gain, d_input}, scratch);
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

}  // namespace ppsim::gpu_backend::transformer
