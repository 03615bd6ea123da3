#pragma once

#include <Eigen/Core>

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

}  // namespace ppsim::gpu_backend::transformer
