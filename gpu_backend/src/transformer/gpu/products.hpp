#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/cuda/cublaslt_table.hpp"
#include "device/cuda/cuda_table.hpp"
#include "matmul.hpp"
#include "ppsim/gpu_backend/stage_model/algorithms.hpp"
#include "ppsim/gpu_backend/stage_model/gpu_stage_model.hpp"
#include "transformer/kernels/kernel_table.hpp"

namespace ppsim::gpu_backend::cuda {

/// How a product may round its operands to fp8: values to E4M3, gradients to E5M2.
enum class Rounding : std::uint8_t { none, values, gradient_a, gradient_b };

/// c = a * b, or c += a * b: rows x inner times inner x columns, all row-major, for each of a number of
/// batches.
struct ProductShape {
  std::int64_t rows = 0, columns = 0, inner = 0;
  bool transpose_a = false;                               ///< a is stored inner x rows
  bool transpose_b = false;                               ///< b is stored columns x inner
  std::int64_t a_stride = 0, b_stride = 0, c_stride = 0;  ///< numbers between stored rows
  std::int64_t batches = 1;
  std::int64_t a_batch = 0, b_batch = 0, c_batch = 0;  ///< numbers between batches
  std::int64_t offset = 0;                             ///< numbers that a or c start behind what is aligned
  bool accumulate = false;
  bool into_sums = false;  ///< c holds sums, not stored numbers
  Rounding rounding = Rounding::none;

  friend auto operator<=>(const ProductShape&, const ProductShape&) = default;
};

/// The products of a layer of weights, in x out: forward, gradient of the input, gradient of the weights.
[[nodiscard]] inline ProductShape forward_shape(std::int64_t rows, std::int64_t in, std::int64_t out,
                                                bool accumulate) {
  return {.rows = rows,
          .columns = out,
          .inner = in,
          .a_stride = in,
          .b_stride = out,
          .c_stride = out,
          .accumulate = accumulate,
          .rounding = Rounding::values};
}
[[nodiscard]] inline ProductShape input_shape(std::int64_t rows, std::int64_t in, std::int64_t out) {
  return {.rows = rows,
          .columns = in,
          .inner = out,
          .transpose_b = true,
          .a_stride = out,
          .b_stride = out,
          .c_stride = in,
          .rounding = Rounding::gradient_a};
}
[[nodiscard]] inline ProductShape weight_shape(std::int64_t rows, std::int64_t in, std::int64_t out) {
  return {.rows = in,
          .columns = out,
          .inner = rows,
          .transpose_a = true,
          .a_stride = in,
          .b_stride = out,
          .c_stride = out,
          .accumulate = true,
          .into_sums = true,
          .rounding = Rounding::gradient_b};
}
/// The same for the head, whose logits need more than fp8 has.
[[nodiscard]] inline ProductShape unrounded(ProductShape shape) {
  shape.rounding = Rounding::none;
  return shape;
}

/// Numbers of eight bits, and what they are times, in device memory.
struct Fp8Matrix {
  const std::uint8_t* numbers = nullptr;
  const float* scale = nullptr;
};
struct ProductOperands {
  const void* a;
  const void* b;
  void* c;
  Fp8Matrix rounded_b =
      {};  ///< b in fp8, with the inner dimension contiguous; else b is rounded where needed
};

/// The device and library that algorithms depend on beside the product.
struct AlgorithmPlace {
  std::string device;       ///< its name
  int multiprocessors = 0;  ///< that the rank has
};
/// The means by which algorithms are timed.
struct AlgorithmTimer {
  const WorkTimer& time_of;
  AlgorithmPlace place;
  const KernelTable& kernels;
  Stored stored = Stored::bf16;  ///< how operands are drawn
};

/// Products of the shapes that it was made for, always computed in the same way. Nothing is created in
/// multiply(). Order: calls of one rank are ordered with each other, since they share a workspace.
class Products {
 public:
  virtual ~Products() = default;
  virtual void multiply(GpuStream stream, const ProductShape& shape, const ProductOperands& operands) = 0;
  /// As GpuStages has them; without a choice of algorithms they do nothing.
  virtual void time_algorithms(const AlgorithmTimer& /*timer*/, Algorithms& /*known*/) {}
  virtual void take_algorithms(const AlgorithmPlace& /*place*/, const Algorithms& /*known*/) {}
};

/// A product as a library of columns has it, to which matrices by rows are the transposed ones:
/// c^T = b^T a^T. No ring.
[[nodiscard]] MatmulShape column_major(const ProductShape& shape, Stored stored);

/// cuBLASLt with sums in float32; its first suggestion for each shape, until others are taken.
/// Errors: throws BackendError, also for a shape that the library cannot multiply.
[[nodiscard]] std::unique_ptr<Products> cublaslt_products(CublasLtTable cublaslt, const CudaTable& cuda,
                                                          Stored stored,
                                                          const std::vector<ProductShape>& shapes);

struct Fp8Libraries {
  const CublasLtTable& cublaslt;
  const CudaTable& cuda;
  const KernelTable& kernels;  ///< outlive the products
};
/// Numbers on whose multiples all dimensions of an fp8 product must be.
inline constexpr int kFp8Alignment = 16;
/// The same on stored bf16 numbers, with operands rounded to fp8 where the shape says so.
[[nodiscard]] std::unique_ptr<Products> fp8_products(const Fp8Libraries& libraries,
                                                     const std::vector<ProductShape>& shapes);
/// The ring's, by our own kernel, for any shape.
[[nodiscard]] std::unique_ptr<Products> ring_products(const KernelTable& kernels, CudaTable cuda);

}  // namespace ppsim::gpu_backend::cuda
