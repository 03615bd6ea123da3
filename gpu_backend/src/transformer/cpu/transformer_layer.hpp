#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "transformer_tensors.hpp"

namespace ppsim::gpu_backend::transformer {

/// Eigen compiles its kernels again for each combination of operand types. Here all row-major matrices and
/// parts of them are of one type, so that each form of a product is compiled once for a kind of number.
template <class T>
struct Products {
  using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using Factor = Eigen::Map<const Matrix, Eigen::Unaligned, Eigen::OuterStride<>>;
  using Result = Eigen::Map<Matrix, Eigen::Unaligned, Eigen::OuterStride<>>;

  [[gnu::noinline]] static void set(Result into, Factor a, Factor b) { into.noalias() = a * b; }
  [[gnu::noinline]] static void set_by_transpose(Result into, Factor a, Factor b) {
    into.noalias() = a * b.transpose();
  }
  [[gnu::noinline]] static void add(Result into, Factor a, Factor b) { into.noalias() += a * b; }
  [[gnu::noinline]] static void add_of_transpose(Result into, Factor a, Factor b) {
    into.noalias() += a.transpose() * b;
  }
};

template <class Matrix>
[[nodiscard]] auto factor(const Matrix& matrix) {
  return typename Products<typename Matrix::Scalar>::Factor(matrix.data(), matrix.rows(), matrix.cols(),
                                                            Eigen::OuterStride<>(matrix.outerStride()));
}

template <class Matrix>
[[nodiscard]] auto result(Matrix& matrix) {
  return typename Products<typename Matrix::Scalar>::Result(matrix.data(), matrix.rows(), matrix.cols(),
                                                            Eigen::OuterStride<>(matrix.outerStride()));
}

/// into = a b
template <class Into, class A, class B>
void set_product(Into&& into, const A& a, const B& b) {
  Products<typename A::Scalar>::set(result(into), factor(a), factor(b));
}
/// into = a b'
template <class Into, class A, class B>
void set_product_by_transpose(Into&& into, const A& a, const B& b) {
  Products<typename A::Scalar>::set_by_transpose(result(into), factor(a), factor(b));
}
/// into = into + a b
template <class Into, class A, class B>
void add_product(Into&& into, const A& a, const B& b) {
  Products<typename A::Scalar>::add(result(into), factor(a), factor(b));
}
/// into = into + a' b
template <class Into, class A, class B>
void add_product_of_transpose(Into&& into, const A& a, const B& b) {
  Products<typename A::Scalar>::add_of_transpose(result(into), factor(a), factor(b));
}

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

/// Keys and values of one slice, or their gradients, as columns of a matrix.
template <class T>
struct KeysValues {
  View<T> matrix;
  Slice slice;
  Index stride, first;  ///< rows of a sequence, and which of them is the slice's first
  Index column;         ///< where the keys of all heads begin; the values follow them

  [[nodiscard]] auto keys(const Dimensions& d, Index s, Index h) {
    return matrix.block(s * stride + first, column + h * d.head_size, slice.length, d.head_size);
  }
  [[nodiscard]] auto values(const Dimensions& d, Index s, Index h) { return keys(d, s, d.heads + h); }
  [[nodiscard]] auto both(const Dimensions& d, Index s) {
    return matrix.block(s * stride + first, column, slice.length, 2 * d.hidden);
  }
};

/// Those in the joint projection of queries, keys and values of a slice.
template <class T>
[[nodiscard]] KeysValues<T> keys_values_in(const View<T>& qkv, const Dimensions& d) {
  return {qkv, {d.before, d.length}, d.length, 0, d.hidden};
}

/// The state that a layer shares with other slices of its microbatch; empty with one slice.
template <class T>
struct SharedBySlices {
  std::vector<KeysValues<T>> earlier;       ///< of the slices in front of this one
  std::vector<KeysValues<T>> d_earlier;     ///< their gradients, which are added to
  std::optional<KeysValues<T>> from_later;  ///< gradient that the slices behind this one have given
};

/// Causal multi-head attention between the joint projection of queries, keys and values and the output
/// projection.
template <class Policy>
struct Attention {
  using T = typename Policy::Scalar;
  const Dimensions& d;
  View<T> qkv, scores;
  const SharedBySlices<T>& shared;

  void forward(View<T>& attended) {
    std::vector<KeysValues<T>> slices = with(shared.earlier, qkv);
    attended.setZero();
    for (Index s = 0; s < d.sequences; ++s) {
      for (Index h = 0; h < d.heads; ++h) {
        auto score = scores_of(s, h);
        for (KeysValues<T>& slice : slices)
          set_product_by_transpose(columns(score, slice), part(qkv, s, h), slice.keys(d, s, h));
        for (Index r = 0; r < d.length; ++r) attend_back(score.row(r), d.before + r);
        for (KeysValues<T>& slice : slices)
          add_product(part(attended, s, h), columns(score, slice), slice.values(d, s, h));
      }
    }
  }

  /// Writes the gradient of qkv.
  void backward(View<T>& d_attended, View<T>& d_score, View<T>& d_qkv) {
    std::vector<KeysValues<T>> slices = with(shared.earlier, qkv);
    std::vector<KeysValues<T>> gradients = with(shared.d_earlier, d_qkv);
    begin_gradients(d_qkv);
    for (Index s = 0; s < d.sequences; ++s) {
      for (Index h = 0; h < d.heads; ++h) {
        auto score = scores_of(s, h);
        const auto d_out = part(d_attended, s, h);
        for (KeysValues<T>& slice : slices)
          set_product_by_transpose(columns(d_score, slice), d_out, slice.values(d, s, h));
        for (Index r = 0; r < d.length; ++r)
          attend_back_gradient(score.row(r), d.before + r, row(d_score, r));
        for (std::size_t k = 0; k < slices.size(); ++k) {
          const auto d_part = columns(d_score, slices[k]);
          add_product(part(d_qkv, s, h), d_part, slices[k].keys(d, s, h));
          add_product_of_transpose(gradients[k].keys(d, s, h), d_part, part(qkv, s, h));
          add_product_of_transpose(gradients[k].values(d, s, h), columns(score, slices[k]), d_out);
        }
      }
    }
  }

 private:
  std::vector<KeysValues<T>> with(std::vector<KeysValues<T>> slices, const View<T>& own) const {
    slices.push_back(keys_values_in(own, d));
    return slices;
  }
  void begin_gradients(View<T>& d_qkv) const {
    d_qkv.setZero();
    if (!shared.from_later) return;
    KeysValues<T> own = keys_values_in(d_qkv, d);
    KeysValues<T> later = *shared.from_later;
    for (Index s = 0; s < d.sequences; ++s) own.both(d, s) = later.both(d, s);
  }

  /// The columns of one head; queries come first, then keys and values.
  auto part(View<T>& matrix, Index sequence, Index head) const {
    return matrix.block(sequence * d.length, head * d.head_size, d.length, d.head_size);
  }
  auto scores_of(Index sequence, Index head) {
    return scores.middleRows((sequence * d.heads + head) * d.length, d.length);
  }
  /// Of scores, those against the keys of one slice.
  template <class Scores>
  static auto columns(Scores& score, const KeysValues<T>& of) {
    return score.middleCols(of.slice.before, of.slice.length);
  }
  T scale() const { return Policy::score_scale(static_cast<std::size_t>(d.head_size)); }

  /// Position `last` attends to itself and what came before.
  template <class Row>
  void attend_back(Row score, Index last) {
    score.head(last + 1) *= scale();
    Policy::softmax({score.data(), static_cast<std::size_t>(last + 1)});
    score.tail(d.keys() - last - 1).setZero();
  }
  template <class Row>
  void attend_back_gradient(const Row& score, Index last, std::span<T> d_score) const {
    const auto length = static_cast<std::size_t>(last + 1);
    Policy::softmax_backward({score.data(), length}, d_score.first(length));
    for (T& value : d_score.first(length)) value *= scale();
    std::fill(d_score.begin() + last + 1, d_score.end(), T(0));
  }
};

/// The tensors of one layer.
template <class T>
struct LayerTensors {
  LayerWeights<T> weights;
  LayerForInput<T> for_input;
  LayerForWeight<T> for_weight;
  SharedBySlices<T> shared;
};

/// One layer of a stage with everything that it reads and writes.
template <class Policy>
class Layer {
 public:
  using T = typename Policy::Scalar;

  Layer(const Dimensions& d, LayerTensors<T> tensors)
      : d_(d),
        weights_(tensors.weights),
        for_input_(tensors.for_input),
        for_weight_(tensors.for_weight),
        shared_(std::move(tensors.shared)) {}

  /// Replaces the residual stream by the output of the layer and fills the saved activations.
  void forward(View<T>& stream, View<T>& normed) {
    attention_norm().forward(stream, normed);
    set_product(for_input_.qkv, normed, weights_.qkv);
    attention().forward(for_weight_.attended);
    add_product(stream, for_weight_.attended, weights_.projection);
    mlp_norm().forward(stream, normed);
    set_product(for_input_.gate_up, normed, weights_.gate_up);
    activate();
    add_product(stream, for_weight_.activated, weights_.down);
  }

  /// Writes the gradient of the layer's input, and what W needs.
  void backward_input(const View<T>& d_output, LayerInner<T>& inner, InputTensors<T>& scratch,
                      View<T>& d_input) {
    set_product_by_transpose(scratch.d_activated, d_output, weights_.down);
    activate_backward(scratch.d_activated, inner.d_gate_up);
    set_product_by_transpose(scratch.d_hidden, inner.d_gate_up, weights_.gate_up);
    inner.d_middle = d_output;
    mlp_norm().backward(scratch.d_hidden, inner.d_mlp_gain, inner.d_middle);
    set_product_by_transpose(scratch.d_hidden, inner.d_middle, weights_.projection);
    attention().backward(scratch.d_hidden, scratch.d_scores, inner.d_qkv);
    set_product_by_transpose(scratch.d_hidden, inner.d_qkv, weights_.qkv);
    d_input = inner.d_middle;
    attention_norm().backward(scratch.d_hidden, inner.d_attention_gain, d_input);
  }

 private:
  Norm<Policy> attention_norm() const {
    return {weights_.attention_gain, for_weight_.attention_unit, for_input_.attention_scale};
  }
  Norm<Policy> mlp_norm() const { return {weights_.mlp_gain, for_weight_.mlp_unit, for_input_.mlp_scale}; }
  Attention<Policy> attention() const { return {d_, for_input_.qkv, for_input_.scores, shared_}; }

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
  SharedBySlices<T> shared_;
};

/// The tensors that the W of one layer reads.
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
  add_product_of_transpose(gradients.down, in.saved.activated, in.d_output);
  Norm<Policy>{in.weights.mlp_gain, in.saved.mlp_unit, {nullptr, 0, 1}}.apply_gain(normed);
  add_product_of_transpose(gradients.gate_up, normed, in.inner.d_gate_up);
  gradients.mlp_gain += in.inner.d_mlp_gain;
  add_product_of_transpose(gradients.projection, in.saved.attended, in.inner.d_middle);
  Norm<Policy>{in.weights.attention_gain, in.saved.attention_unit, {nullptr, 0, 1}}.apply_gain(normed);
  add_product_of_transpose(gradients.qkv, normed, in.inner.d_qkv);
  gradients.attention_gain += in.inner.d_attention_gain;
}

}  // namespace ppsim::gpu_backend::transformer
