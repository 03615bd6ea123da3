#pragma once

#include <cmath>

#include "cuda/transformer/stage_kernels.hpp"

namespace ppsim::cuda {

using transformer::LayerForInput;
using transformer::LayerForWeight;
using transformer::LayerInner;
using transformer::LayerWeights;

/// Temporary tensors of I: as on the CPU, but the scores of all heads of one sequence.
template <class T>
struct InputScratch {
  InputScratch(transformer::Arena& workspace, const Dimensions& d, const StageRole& role)
      : d_activated(workspace.take_matrix<T>(role.layers > 0 ? d.rows : 0, d.ffn)),
        d_hidden(workspace.take_matrix<T>(role.has_norm() ? d.rows : 0, d.hidden)),
        d_scores(workspace.take_matrix<T>(role.layers > 0 ? d.heads * d.sequence : 0, d.sequence)) {}

  View<T> d_activated, d_hidden, d_scores;
};

/// An RMSNorm in use, on a stream.
template <class T>
struct GpuNorm {
  using Sum = SumOf<T>;
  const StageKernels<T>& run;
  View<T> gain, unit;
  View<Sum> scale;

  void forward(const View<T>& x, View<T>& result) const {
    run.run(run.table().norm_forward,
            NormForward{x.rows(), x.cols(), x.data(), gain.data(), const_cast<T*>(unit.data()),
                        const_cast<Sum*>(scale.data()), result.data()},
            "a norm");
  }
  void apply_gain(View<T>& result) const {
    run.run(run.table().apply_gain,
            ApplyGain{unit.rows(), unit.cols(), unit.data(), gain.data(), result.data()}, "a norm's gain");
  }
  /// Adds the gradient of x to `d_x` and writes the gradient of the gain.
  void backward(const View<T>& d_result, View<Sum>& d_gain, View<T>& d_x) const {
    run.run(run.table().norm_backward,
            NormBackward{unit.rows(), unit.cols(), unit.data(), scale.data(), gain.data(), d_result.data(),
                         d_gain.data(), d_x.data()},
            "the gradient of a norm");
  }
};

/// One layer of a stage as kernels: the same computation as transformer::Layer.
template <class T>
class GpuLayer {
 public:
  using Sum = SumOf<T>;

  GpuLayer(const Dimensions& d, const LayerWeights<T>& weights, const LayerForInput<T, Sum>& for_input,
           const LayerForWeight<T>& for_weight)
      : d_(d), shapes_(d), weights_(weights), for_input_(for_input), for_weight_(for_weight) {}

  void forward(const StageKernels<T>& run, View<T>& stream, View<T>& normed) {
    attention_norm(run).forward(stream, normed);
    run.forward(normed, weights_.qkv, for_input_.qkv);
    for (Index s = 0; s < d_.sequences; ++s) attend(run, s);
    run.forward(for_weight_.attended, weights_.projection, stream, true);
    mlp_norm(run).forward(stream, normed);
    run.forward(normed, weights_.gate_up, for_input_.gate_up);
    run.run(run.table().gate, Gate{d_.rows, d_.ffn, for_input_.gate_up.data(), for_weight_.activated.data()},
            "the gate of an MLP");
    run.forward(for_weight_.activated, weights_.down, stream, true);
  }

  void backward_input(const StageKernels<T>& run, const View<T>& d_output, LayerInner<T, Sum>& inner,
                      InputScratch<T>& scratch, View<T>& d_input) {
    run.backward_input(d_output, weights_.down, scratch.d_activated);
    run.run(run.table().gate_backward,
            GateBackward{d_.rows, d_.ffn, for_input_.gate_up.data(), scratch.d_activated.data(),
                         inner.d_gate_up.data()},
            "the gradient of an MLP's gate");
    run.backward_input(inner.d_gate_up, weights_.gate_up, scratch.d_hidden);
    run.copy(d_output, inner.d_middle);
    mlp_norm(run).backward(scratch.d_hidden, inner.d_mlp_gain, inner.d_middle);
    run.backward_input(inner.d_middle, weights_.projection, scratch.d_hidden);
    for (Index s = 0; s < d_.sequences; ++s) attend_backward(run, s, scratch, inner.d_qkv);
    run.backward_input(inner.d_qkv, weights_.qkv, scratch.d_hidden);
    run.copy(inner.d_middle, d_input);
    attention_norm(run).backward(scratch.d_hidden, inner.d_attention_gain, d_input);
  }

  /// `normed` is workspace.
  void backward_weight(const StageKernels<T>& run, const LayerInner<T, Sum>& inner, const View<T>& d_output,
                       View<T>& normed, LayerWeights<Sum> gradients) const {
    run.backward_weight(for_weight_.activated, d_output, gradients.down);
    mlp_norm(run).apply_gain(normed);
    run.backward_weight(normed, inner.d_gate_up, gradients.gate_up);
    run.add(inner.d_mlp_gain, gradients.mlp_gain);
    run.backward_weight(for_weight_.attended, inner.d_middle, gradients.projection);
    attention_norm(run).apply_gain(normed);
    run.backward_weight(normed, inner.d_qkv, gradients.qkv);
    run.add(inner.d_attention_gain, gradients.attention_gain);
  }

 private:
  GpuNorm<T> attention_norm(const StageKernels<T>& run) const {
    return {run, weights_.attention_gain, for_weight_.attention_unit, for_input_.attention_scale};
  }
  GpuNorm<T> mlp_norm(const StageKernels<T>& run) const {
    return {run, weights_.mlp_gain, for_weight_.mlp_unit, for_input_.mlp_scale};
  }
  [[nodiscard]] float factor() const { return 1 / std::sqrt(static_cast<float>(d_.head_size)); }

  /// Where the queries (kind 0), keys or values of a sequence begin.
  static T* part(const View<T>& joint, const Dimensions& d, Index sequence, Index kind) {
    return const_cast<T*>(joint.data()) + sequence * d.sequence * joint.cols() + kind * d.hidden;
  }
  T* scores_of(Index sequence) {
    return for_input_.scores.data() + sequence * d_.heads * d_.sequence * d_.sequence;
  }

  void attend(const StageKernels<T>& run, Index s) {
    run.product(shapes_.scores, part(for_input_.qkv, d_, s, 0), part(for_input_.qkv, d_, s, 1), scores_of(s));
    run.run(run.table().causal_softmax, CausalSoftmax{d_.heads, d_.sequence, factor(), scores_of(s)},
            "a softmax");
    run.product(shapes_.attended, scores_of(s), part(for_input_.qkv, d_, s, 2),
                part(for_weight_.attended, d_, s, 0));
  }
  void attend_backward(const StageKernels<T>& run, Index s, InputScratch<T>& scratch, View<T>& d_qkv) {
    T* const d_attended = part(scratch.d_hidden, d_, s, 0);
    T* const d_scores = scratch.d_scores.data();
    run.product(shapes_.d_values, scores_of(s), d_attended, part(d_qkv, d_, s, 2));
    run.product(shapes_.d_scores, d_attended, part(for_input_.qkv, d_, s, 2), d_scores);
    run.run(run.table().causal_softmax_backward,
            CausalSoftmaxBackward{d_.heads, d_.sequence, factor(), scores_of(s), d_scores},
            "the gradient of a softmax");
    run.product(shapes_.d_queries, d_scores, part(for_input_.qkv, d_, s, 1), part(d_qkv, d_, s, 0));
    run.product(shapes_.d_keys, d_scores, part(for_input_.qkv, d_, s, 0), part(d_qkv, d_, s, 1));
  }

  const Dimensions& d_;
  AttentionShapes shapes_;
  LayerWeights<T> weights_;
  LayerForInput<T, Sum> for_input_;
  LayerForWeight<T> for_weight_;
};

}  // namespace ppsim::cuda
