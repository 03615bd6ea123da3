#pragma once

#include <span>

#include "transformer_tensors.hpp"

namespace ppsim::transformer {

template <class T>
[[nodiscard]] std::span<T> row(View<T>& matrix, Index index) {
  return {matrix.data() + index * matrix.cols(), static_cast<std::size_t>(matrix.cols())};
}
template <class T>
[[nodiscard]] std::span<const T> row(const View<T>& matrix, Index index) {
  return {matrix.data() + index * matrix.cols(), static_cast<std::size_t>(matrix.cols())};
}

/// An RMSNorm in use: result = unit * gain, with unit = x * scale and one scale per row.
template <class Policy>
struct Norm {
  using T = typename Policy::Scalar;
  View<T> gain, unit, scale;

  void forward(const View<T>& x, View<T>& result) {
    for (Index r = 0; r < x.rows(); ++r) scale(r, 0) = Policy::normalize(row(x, r), row(unit, r));
    apply_gain(result);
  }
  void apply_gain(View<T>& result) const {
    for (Index r = 0; r < unit.rows(); ++r) result.row(r) = unit.row(r).cwiseProduct(gain.row(0));
  }
  /// Adds the gradient of x to `d_x` and writes the gradient of the gain; spoils `d_result`.
  void backward(View<T>& d_result, View<T>& d_gain, View<T>& d_x) const {
    d_gain.setZero();
    for (Index r = 0; r < unit.rows(); ++r) {
      d_gain.row(0) += d_result.row(r).cwiseProduct(unit.row(r));
      d_result.row(r).array() *= gain.row(0).array();
      Policy::normalize_backward(row(unit, r), scale(r, 0), row(d_result, r));
      d_x.row(r) += d_result.row(r);
    }
  }
};

/// Causal multi-head attention between the joint projection of queries, keys and values and the output
/// projection.
template <class Policy>
struct Attention {
  using T = typename Policy::Scalar;
  const Dimensions& d;
  View<T> qkv, scores;

  void forward(View<T>& attended) {
    for (Index s = 0; s < d.sequences; ++s) {
      for (Index h = 0; h < d.heads; ++h) {
        auto score = scores_of(s, h);
        score.noalias() = part(qkv, s, h) * part(qkv, s, d.heads + h).transpose();
        for (Index r = 0; r < d.sequence; ++r) attend_back(score.row(r), r);
        part(attended, s, h).noalias() = score * part(qkv, s, 2 * d.heads + h);
      }
    }
  }

  /// Writes the gradient of qkv.
  void backward(View<T>& d_attended, View<T>& d_score, View<T>& d_qkv) {
    for (Index s = 0; s < d.sequences; ++s) {
      for (Index h = 0; h < d.heads; ++h) {
        const auto score = scores_of(s, h);
        const auto d_out = part(d_attended, s, h);
        part(d_qkv, s, 2 * d.heads + h).noalias() = score.transpose() * d_out;
        d_score.noalias() = d_out * part(qkv, s, 2 * d.heads + h).transpose();
        for (Index r = 0; r < d.sequence; ++r) attend_back_gradient(score.row(r), r, d_score);
        part(d_qkv, s, h).noalias() = d_score * part(qkv, s, d.heads + h);
        part(d_qkv, s, d.heads + h).noalias() = d_score.transpose() * part(qkv, s, h);
      }
    }
  }

 private:
  /// The columns of one head; queries come first, then keys and values.
  auto part(View<T>& matrix, Index sequence, Index head) const {
    return matrix.block(sequence * d.sequence, head * d.head_size, d.sequence, d.head_size);
  }
  auto scores_of(Index sequence, Index head) {
    return scores.middleRows((sequence * d.heads + head) * d.sequence, d.sequence);
  }
  T scale() const { return Policy::score_scale(static_cast<std::size_t>(d.head_size)); }

  /// Position `last` attends to itself and what came before.
  template <class Row>
  void attend_back(Row score, Index last) {
    score.head(last + 1) *= scale();
    Policy::softmax({score.data(), static_cast<std::size_t>(last + 1)});
    score.tail(d.sequence - last - 1).setZero();
  }
  template <class Row>
  void attend_back_gradient(const Row& score, Index last, View<T>& d_score) const {
    const auto length = static_cast<std::size_t>(last + 1);
    Policy::softmax_backward({score.data(), length}, row(d_score, last).first(length));
    d_score.row(last).head(last + 1) *= scale();
    d_score.row(last).tail(d.sequence - last - 1).setZero();
  }
};

/// One layer of a stage with everything that it reads and writes.
template <class Policy>
class Layer {
 public:
  using T = typename Policy::Scalar;

  Layer(const Dimensions& d, const LayerWeights<T>& weights, const LayerForInput<T>& for_input,
        const LayerForWeight<T>& for_weight)
      : d_(d), weights_(weights), for_input_(for_input), for_weight_(for_weight) {}

  /// Replaces the residual stream by the output of the layer and fills the saved activations.
  void forward(View<T>& stream, View<T>& normed) {
    attention_norm().forward(stream, normed);
    for_input_.qkv.noalias() = normed * weights_.qkv;
    attention().forward(for_weight_.attended);
    stream.noalias() += for_weight_.attended * weights_.projection;
    mlp_norm().forward(stream, normed);
    for_input_.gate_up.noalias() = normed * weights_.gate_up;
    activate();
    stream.noalias() += for_weight_.activated * weights_.down;
  }

  /// Writes the gradient of the layer's input, and what W needs.
  void backward_input(const View<T>& d_output, LayerInner<T>& inner, InputTensors<T>& scratch,
                      View<T>& d_input) {
    scratch.d_activated.noalias() = d_output * weights_.down.transpose();
    activate_backward(scratch.d_activated, inner.d_gate_up);
    scratch.d_hidden.noalias() = inner.d_gate_up * weights_.gate_up.transpose();
    inner.d_middle = d_output;
    mlp_norm().backward(scratch.d_hidden, inner.d_mlp_gain, inner.d_middle);
    scratch.d_hidden.noalias() = inner.d_middle * weights_.projection.transpose();
    attention().backward(scratch.d_hidden, scratch.d_scores, inner.d_qkv);
    scratch.d_hidden.noalias() = inner.d_qkv * weights_.qkv.transpose();
    d_input = inner.d_middle;
    attention_norm().backward(scratch.d_hidden, inner.d_attention_gain, d_input);
  }

 private:
  Norm<Policy> attention_norm() const {
    return {weights_.attention_gain, for_weight_.attention_unit, for_input_.attention_scale};
  }
  Norm<Policy> mlp_norm() const { return {weights_.mlp_gain, for_weight_.mlp_unit, for_input_.mlp_scale}; }
  Attention<Policy> attention() const { return {d_, for_input_.qkv, for_input_.scores}; }

  void activate() {
    for (Index r = 0; r < d_.rows; ++r) {
      for (Index c = 0; c < d_.ffn; ++c) {
        for_weight_.activated(r, c) =
            Policy::activation(for_input_.gate_up(r, c)) * for_input_.gate_up(r, d_.ffn + c);
      }
    }
  }
  void activate_backward(const View<T>& d_activated, View<T>& d_gate_up) const {
    for (Index r = 0; r < d_.rows; ++r) {
      for (Index c = 0; c < d_.ffn; ++c) {
        const T gate = for_input_.gate_up(r, c);
        const T up = for_input_.gate_up(r, d_.ffn + c);
        d_gate_up(r, c) = d_activated(r, c) * up * Policy::activation_slope(gate);
        d_gate_up(r, d_.ffn + c) = d_activated(r, c) * Policy::activation(gate);
      }
    }
  }

  const Dimensions& d_;
  LayerWeights<T> weights_;
  LayerForInput<T> for_input_;
  LayerForWeight<T> for_weight_;
};

/// What the W of one layer reads.
template <class T>
struct LayerWeightInputs {
  const LayerWeights<T>& weights;
  const LayerForWeight<T>& saved;
  const LayerInner<T>& inner;
  const View<T>& d_output;
};

/// Adds the weight gradients of one layer; `normed` is workspace.
template <class Policy, class T = typename Policy::Scalar>
void add_weight_gradients(const LayerWeightInputs<T>& in, View<T>& normed, LayerWeights<T> gradients) {
  gradients.down.noalias() += in.saved.activated.transpose() * in.d_output;
  Norm<Policy>{in.weights.mlp_gain, in.saved.mlp_unit, {nullptr, 0, 1}}.apply_gain(normed);
  gradients.gate_up.noalias() += normed.transpose() * in.inner.d_gate_up;
  gradients.mlp_gain += in.inner.d_mlp_gain;
  gradients.projection.noalias() += in.saved.attended.transpose() * in.inner.d_middle;
  Norm<Policy>{in.weights.attention_gain, in.saved.attention_unit, {nullptr, 0, 1}}.apply_gain(normed);
  gradients.qkv.noalias() += normed.transpose() * in.inner.d_qkv;
  gradients.attention_gain += in.inner.d_attention_gain;
}

}  // namespace ppsim::transformer
