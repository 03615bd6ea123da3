#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <span>
#include <vector>

#include "transformer/pass/stage_place.hpp"

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

/// Causal multi-head attention between the joint projection of queries, keys and values and the output
/// projection.
template <class Policy>
struct Attention {
  using T = typename Policy::Scalar;
  const Dimensions& d;
  View<T> qkv, scores, attended;
  AttendedSlices<T, T> shared;

  void forward() {
    std::vector<KeysValues<T>> slices = keys_values();
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
    std::vector<KeysValues<T>> slices = keys_values();
    std::vector<KeysValues<T>> gradients = begin_gradients(d_qkv);
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
  /// Those of all slices that this one reads.
  std::vector<KeysValues<T>> keys_values() const {
    std::vector<KeysValues<T>> all;
    for (std::size_t k = 0; k < shared.own(); ++k)
      all.push_back(keys_values_in(shared.joint(k), shared.all()[k]));
    all.push_back(keys_values_in(qkv, d));
    return all;
  }
  /// Their gradients, which are added to: the last slice begins those of the ones before, and each takes over
  /// what those behind it have given.
  std::vector<KeysValues<T>> begin_gradients(View<T>& d_qkv) const {
    std::vector<KeysValues<T>> all;
    for (std::size_t k = 0; k < shared.own(); ++k) all.push_back(gradient(k));
    KeysValues<T>& own = all.emplace_back(keys_values_in(d_qkv, d));
    d_qkv.setZero();
    if (shared.is_last()) {
      if (shared.own() > 0) shared.gradients().setZero();
      return all;
    }
    KeysValues<T> later = gradient(shared.own());
    for (Index s = 0; s < d.sequences; ++s) own.both(d, s) = later.both(d, s);
    return all;
  }
  KeysValues<T> gradient(std::size_t slice) const {
    const Slice own{shared.all()[slice].before, shared.all()[slice].length};
    return {shared.gradients(), own, shared.stride(), own.before, 0};
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

}  // namespace ppsim::gpu_backend::transformer
