#include "products.hpp"

#include <numeric>
#include <utility>

#include "device/cuda/kernel_errors.hpp"
#include "product_plans.hpp"

namespace ppsim::gpu_backend::cuda {
namespace {

constexpr std::int64_t kTensorAlignment = 64;  // bytes, of every tensor and every matrix in it

/// Bytes on whose multiples all matrices of a shape start.
std::uint32_t alignment(const ProductShape& shape, std::int64_t stored_bytes) {
  std::int64_t common = kTensorAlignment;
  for (const std::int64_t numbers : {shape.a_stride, shape.b_stride, shape.c_stride, shape.a_batch,
                                     shape.b_batch, shape.c_batch, shape.offset}) {
    common = std::gcd(common, numbers * stored_bytes);
  }
  return static_cast<std::uint32_t>(common);
}

}  // namespace

MatmulShape column_major(const ProductShape& s, Stored stored) {
  const int type = stored == Stored::bf16 ? kCudaTypeBfloat16 : kCudaTypeFloat32;
  MatmulShape shape;
  shape.left = s.transpose_b ? MatrixLayout{type, s.inner, s.columns, s.b_stride, s.b_batch}
                             : MatrixLayout{type, s.columns, s.inner, s.b_stride, s.b_batch};
  shape.right = s.transpose_a ? MatrixLayout{type, s.rows, s.inner, s.a_stride, s.a_batch}
                              : MatrixLayout{type, s.inner, s.rows, s.a_stride, s.a_batch};
  shape.result = {s.into_sums ? kCudaTypeFloat32 : type, s.columns, s.rows, s.c_stride, s.c_batch};
  shape.transpose_left = s.transpose_b;
  shape.transpose_right = s.transpose_a;
  shape.batches = s.batches;
  shape.accumulate = s.accumulate;
  shape.alignment = alignment(s, stored == Stored::bf16 ? 2 : 4);
  return shape;
}

namespace {

class CublasLtProducts final : public Products {
 public:
  CublasLtProducts(CublasLtTable cublaslt, const CudaTable& cuda, Stored stored)
      : plans_(std::move(cublaslt), cuda), stored_(stored) {}

  void prepare(const ProductShape& shape) { plans_.add(shape, column_major(shape, stored_)); }
  void multiply(GpuStream stream, const ProductShape& shape, const ProductOperands& operands) override {
    plans_.multiply(stream, shape, {operands.b, operands.a, operands.c});
  }
  void time_algorithms(const AlgorithmTimer& timer, Algorithms& known) override {
    plans_.time_algorithms(timer, known);
  }
  void take_algorithms(const AlgorithmPlace& place, const Algorithms& known) override {
    plans_.take_algorithms(place, known);
  }

 private:
  ProductPlans plans_;
  Stored stored_;
};

class RingProducts final : public Products {
 public:
  RingProducts(const KernelTable& kernels, CudaTable cuda) : kernels_(kernels), cuda_(std::move(cuda)) {}

  void multiply(GpuStream stream, const ProductShape& s, const ProductOperands& operands) override {
    const RingProduct call{.rows = s.rows,
                           .columns = s.columns,
                           .inner = s.inner,
                           .batches = s.batches,
                           .a = static_cast<const std::uint64_t*>(operands.a),
                           .a_row = s.transpose_a ? 1 : s.a_stride,
                           .a_inner = s.transpose_a ? s.a_stride : 1,
                           .a_batch = s.a_batch,
                           .b = static_cast<const std::uint64_t*>(operands.b),
                           .b_inner = s.transpose_b ? 1 : s.b_stride,
                           .b_column = s.transpose_b ? s.b_stride : 1,
                           .b_batch = s.b_batch,
                           .c = static_cast<std::uint64_t*>(operands.c),
                           .c_row = s.c_stride,
                           .c_batch = s.c_batch,
                           .accumulate = s.accumulate};
    check_launch(cuda_, kernels_.ring_product(stream, call), "a product in exact arithmetic");
  }

 private:
  const KernelTable& kernels_;
  CudaTable cuda_;
};

}  // namespace

std::unique_ptr<Products> cublaslt_products(CublasLtTable cublaslt, const CudaTable& cuda, Stored stored,
                                            const std::vector<ProductShape>& shapes) {
  auto products = std::make_unique<CublasLtProducts>(std::move(cublaslt), cuda, stored);
  for (const ProductShape& shape : shapes) products->prepare(shape);
  return products;
}

std::unique_ptr<Products> ring_products(const KernelTable& kernels, CudaTable cuda) {
  return std::make_unique<RingProducts>(kernels, std::move(cuda));
}

}  // namespace ppsim::gpu_backend::cuda
