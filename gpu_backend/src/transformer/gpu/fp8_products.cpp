#include <algorithm>

#include "fp8_weights.hpp"
#include "ppsim/core/ir/check.hpp"
#include "product_plans.hpp"

namespace ppsim::gpu_backend::cuda {
namespace {

/// Of a scale: each begins where a vector may.
constexpr std::size_t kScaleBytes = 256;

int cuda_type(Fp8 type) { return type == Fp8::e4m3 ? kCudaTypeFloat8E4M3 : kCudaTypeFloat8E5M2; }

/// One operand of a product as the tensor cores of Hopper want it: the inner dimension without gaps.
struct Operand {
  std::int64_t rows, columns;  ///< as it is stored, by rows
  bool transpose;              ///< while it is rounded
  Fp8 type;

  /// Where it is rounded to.
  [[nodiscard]] Fp8Copy into(const DeviceMemory& memory, float* scale) const {
    auto* const numbers = memory.as<std::uint8_t>();
    return transpose ? Fp8Copy{.by_columns = numbers, .scale = scale}
                     : Fp8Copy{.by_rows = numbers, .scale = scale};
  }
};
Operand left_of(const ProductShape& s) {
  const Fp8 type = s.rounding == Rounding::gradient_a ? Fp8::e5m2 : Fp8::e4m3;
  return s.transpose_a ? Operand{s.inner, s.rows, true, type} : Operand{s.rows, s.inner, false, type};
}
Operand right_of(const ProductShape& s) {
  const Fp8 type = s.rounding == Rounding::gradient_b ? Fp8::e5m2 : Fp8::e4m3;
  return s.transpose_b ? Operand{s.columns, s.inner, false, type} : Operand{s.inner, s.columns, true, type};
}
std::size_t numbers(const Operand& operand) { return as_size(operand.rows * operand.columns); }

/// Products of weights in fp8: activations and gradients are rounded just before, each by a scale from its
/// own largest number, and weights are there in fp8. All others in bf16.
class Fp8Products final : public Products {
 public:
  Fp8Products(const Fp8Libraries& libraries, const std::vector<ProductShape>& shapes)
      : plans_(libraries.cublaslt, libraries.cuda),
        rounding_(libraries.kernels, libraries.cuda),
        cuda_(libraries.cuda),
        scales_(libraries.cuda, 2 * kScaleBytes, "the scales of fp8 matrices") {
    std::size_t left = 0;
    std::size_t right = 0;
    for (const ProductShape& shape : shapes) {
      if (shape.rounding == Rounding::none) continue;
      left = std::max(left, numbers(left_of(shape)));
      if (!multiplies_weights(shape)) right = std::max(right, numbers(right_of(shape)));
    }
    left_ = DeviceMemory(libraries.cuda, left, "an fp8 matrix");
    right_ = DeviceMemory(libraries.cuda, right, "an fp8 matrix");
    for (const ProductShape& shape : shapes) plans_.add(shape, matmul_shape(shape));
  }

  void multiply(GpuStream stream, const ProductShape& shape, const ProductOperands& operands) override {
    if (shape.rounding == Rounding::none)
      return plans_.multiply(stream, shape, {operands.b, operands.a, operands.c});
    round(stream, left_of(shape), operands.a, left_of(shape).into(left_, left_scale()));
    Fp8Matrix right = operands.rounded_b;
    if (!multiplies_weights(shape)) {
      round(stream, right_of(shape), operands.b, right_of(shape).into(right_, right_scale()));
      right = {right_.as<std::uint8_t>(), right_scale()};
    }
    PPSIM_CHECK(right.numbers != nullptr && right.scale != nullptr, "weights that are not there in fp8");
    plans_.multiply(stream, shape, {right.numbers, left_.as<void>(), operands.c, right.scale});
  }
  void time_algorithms(const AlgorithmTimer& timer, Algorithms& known) override {
    static_cast<void>(timer.time_of([&](GpuStream stream) {
      check_cuda(cuda_, cuda_.fill_async(scales_.address(), 0, 2 * kScaleBytes, stream), "clearing scales");
    }));
    plans_.time_algorithms(timer, known);
  }
  void take_algorithms(const AlgorithmPlace& place, const Algorithms& known) override {
    plans_.take_algorithms(place, known);
  }

 private:
  static bool multiplies_weights(const ProductShape& shape) { return shape.rounding != Rounding::gradient_b; }
  [[nodiscard]] float* left_scale() const { return scales_.as<float>(); }
  [[nodiscard]] float* right_scale() const { return scales_.as<float>() + kScaleBytes / sizeof(float); }

  /// To a library of columns a matrix by rows is the transposed one: c^T = b^T a^T, and b is its left side.
  [[nodiscard]] MatmulShape matmul_shape(const ProductShape& s) const {
    MatmulShape shape = column_major(s, Stored::bf16);
    if (s.rounding == Rounding::none) return shape;
    shape.left = {cuda_type(right_of(s).type), s.inner, s.columns, s.inner, 0};
    shape.right = {cuda_type(left_of(s).type), s.inner, s.rows, s.inner, 0};
    shape.transpose_left = true;
    shape.transpose_right = false;
    shape.left_scale = right_scale();
    shape.right_scale = left_scale();
    shape.alignment = kFp8Alignment;
    return shape;
  }

  void round(GpuStream stream, const Operand& operand, const void* values, const Fp8Copy& into) const {
    rounding_.round(stream, {operand.rows, operand.columns, values}, operand.type, into);
  }

  ProductPlans plans_;
  Fp8Rounding rounding_;
  CudaTable cuda_;
  DeviceMemory scales_, left_, right_;
};

}  // namespace

std::unique_ptr<Products> fp8_products(const Fp8Libraries& libraries,
                                       const std::vector<ProductShape>& shapes) {
  return std::make_unique<Fp8Products>(libraries, shapes);
}

}  // namespace ppsim::gpu_backend::cuda
