#include "cuda/transformer/products.hpp"

#include <bit>
#include <map>
#include <numeric>
#include <utility>

#include "cuda/kernel_errors.hpp"
#include "ppsim/core/check.hpp"
#include "ppsim/gpu_backend/device.hpp"

namespace ppsim::cuda {
namespace {

constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;
constexpr std::int64_t kTensorAlignment = 64;  // bytes, of every tensor and every matrix in it

/// An object of the library that is destroyed with its owner.
class Descriptor {
 public:
  using Destroy = std::function<int(void*)>;
  Descriptor(void* object, Destroy destroy) : object_(object), destroy_(std::move(destroy)) {}
  Descriptor(Descriptor&& other) noexcept
      : object_(std::exchange(other.object_, nullptr)), destroy_(std::move(other.destroy_)) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() {
    if (object_ != nullptr) destroy_(object_);
  }
  [[nodiscard]] void* get() const { return object_; }

 private:
  void* object_;
  Destroy destroy_;
};

/// Bytes on whose multiples all matrices of a shape start.
std::uint32_t alignment(const ProductShape& shape, std::int64_t stored_bytes) {
  std::int64_t common = kTensorAlignment;
  for (const std::int64_t numbers :
       {shape.a_stride, shape.b_stride, shape.c_stride, shape.a_batch, shape.b_batch, shape.c_batch}) {
    common = std::gcd(common, numbers * stored_bytes);
  }
  return static_cast<std::uint32_t>(common);
}

class CublasLtProducts final : public Products {
 public:
  CublasLtProducts(CublasLtTable cublaslt, CudaTable cuda, Stored stored)
      : lt_(std::move(cublaslt)), cuda_(std::move(cuda)), stored_(stored) {
    check_cublaslt(lt_, lt_.create(&handle_), "opening cuBLASLt");
    check_cuda(cuda_, cuda_.memory_allocate(&workspace_, kWorkspaceBytes), "allocating cuBLASLt's workspace");
  }
  CublasLtProducts(const CublasLtProducts&) = delete;
  CublasLtProducts& operator=(const CublasLtProducts&) = delete;
  ~CublasLtProducts() override {
    plans_.clear();
    if (workspace_ != 0) cuda_.memory_free(workspace_);
    if (handle_ != nullptr) lt_.destroy(handle_);
  }

  void prepare(const ProductShape& shape) {
    if (plans_.find(shape) == plans_.end()) plans_.emplace(shape, plan(shape));
  }

  void multiply(GpuStream stream, const ProductShape& shape, const ProductOperands& operands) override {
    const auto found = plans_.find(shape);
    PPSIM_CHECK(found != plans_.end(), "a product that was not prepared");
    const Plan& plan = found->second;
    const float alpha = 1;
    const float beta = shape.accumulate ? 1 : 0;
    // Row-major matrices are the transposed ones to a library of columns: c^T = b^T a^T.
    check_cublaslt(
        lt_,
        lt_.multiply(handle_, plan.operation.get(), &alpha, operands.b, plan.left.get(), operands.a,
                     plan.right.get(), &beta, operands.c, plan.result.get(), operands.c, plan.result.get(),
                     &plan.algorithm, reinterpret_cast<void*>(workspace_), kWorkspaceBytes, stream),
        "a matrix product");
  }

 private:
  struct Plan {
    Descriptor operation, left, right, result;
    CublasLtAlgorithm algorithm;
  };
  struct Layout {
    int type;
    std::int64_t rows, columns, stride, batch_stride;
  };

  [[nodiscard]] int stored_type() const {
    return stored_ == Stored::bf16 ? kCudaTypeBfloat16 : kCudaTypeFloat32;
  }

  Descriptor layout(const Layout& of, std::int64_t batches) {
    void* object = nullptr;
    check_cublaslt(lt_,
                   lt_.layout_create(&object, of.type, static_cast<std::uint64_t>(of.rows),
                                     static_cast<std::uint64_t>(of.columns), of.stride),
                   "describing a matrix");
    Descriptor made(object, lt_.layout_destroy);
    const auto count = static_cast<std::int32_t>(batches);
    check_cublaslt(lt_, lt_.layout_set(object, kCublasLtBatchCount, &count, sizeof count),
                   "describing a batch");
    check_cublaslt(lt_,
                   lt_.layout_set(object, kCublasLtBatchStride, &of.batch_stride, sizeof of.batch_stride),
                   "describing a batch");
    return made;
  }

  Descriptor operation(const ProductShape& shape) {
    void* object = nullptr;
    check_cublaslt(lt_, lt_.operation_create(&object, kCublasComputeFloat32, kCudaTypeFloat32),
                   "describing a product");
    Descriptor made(object, lt_.operation_destroy);
    const std::int32_t transpose = kCublasTranspose;
    if (shape.transpose_b) {
      check_cublaslt(lt_, lt_.operation_set(object, kCublasLtTransposeA, &transpose, sizeof transpose),
                     "describing a product");
    }
    if (shape.transpose_a) {
      check_cublaslt(lt_, lt_.operation_set(object, kCublasLtTransposeB, &transpose, sizeof transpose),
                     "describing a product");
    }
    return made;
  }

  Descriptor preference(const ProductShape& shape) {
    void* object = nullptr;
    check_cublaslt(lt_, lt_.preference_create(&object), "preparing a choice of algorithm");
    Descriptor made(object, lt_.preference_destroy);
    check_cublaslt(
        lt_, lt_.preference_set(object, kCublasLtLargestWorkspace, &kWorkspaceBytes, sizeof kWorkspaceBytes),
        "preparing a choice of algorithm");
    const std::uint32_t bytes = alignment(shape, stored_ == Stored::bf16 ? 2 : 4);
    for (const int matrix : kCublasLtSmallestAlignments) {
      check_cublaslt(lt_, lt_.preference_set(object, matrix, &bytes, sizeof bytes),
                     "preparing a choice of algorithm");
    }
    return made;
  }

  Plan plan(const ProductShape& s) {
    const int type = stored_type();
    const Layout b = s.transpose_b ? Layout{type, s.inner, s.columns, s.b_stride, s.b_batch}
                                   : Layout{type, s.columns, s.inner, s.b_stride, s.b_batch};
    const Layout a = s.transpose_a ? Layout{type, s.rows, s.inner, s.a_stride, s.a_batch}
                                   : Layout{type, s.inner, s.rows, s.a_stride, s.a_batch};
    const Layout c{s.into_sums ? kCudaTypeFloat32 : type, s.columns, s.rows, s.c_stride, s.c_batch};
    Plan made{operation(s), layout(b, s.batches), layout(a, s.batches), layout(c, s.batches), {}};
    made.algorithm = choose(made, s);
    return made;
  }

  CublasLtAlgorithm choose(const Plan& plan, const ProductShape& s) {
    const Descriptor wanted = preference(s);
    CublasLtChoice choice;
    int found = 0;
    const int status = lt_.choose(handle_, plan.operation.get(), plan.left.get(), plan.right.get(),
                                  plan.result.get(), plan.result.get(), wanted.get(), 1, &choice, &found);
    const std::string what = "choosing an algorithm for a product of " + std::to_string(s.rows) + " x " +
                             std::to_string(s.inner) + " and " + std::to_string(s.inner) + " x " +
                             std::to_string(s.columns);
    check_cublaslt(lt_, status, what);
    if (found < 1) throw BackendError(ErrorCode::bad_argument, what + ": cuBLASLt has none");
    return choice.algorithm;
  }

  CublasLtTable lt_;
  CudaTable cuda_;
  Stored stored_;
  cublasLtContext* handle_ = nullptr;
  CudaAddress workspace_ = 0;
  std::map<ProductShape, Plan> plans_;
};

class RingProducts final : public Products {
 public:
  explicit RingProducts(const KernelTable& kernels) : kernels_(kernels) {}

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
    check_launch(kernels_.ring_product(stream, call), "a product in exact arithmetic");
  }

 private:
  const KernelTable& kernels_;
};

}  // namespace

std::unique_ptr<Products> cublaslt_products(CublasLtTable cublaslt, CudaTable cuda, Stored stored,
                                            const std::vector<ProductShape>& shapes) {
  auto products = std::make_unique<CublasLtProducts>(std::move(cublaslt), std::move(cuda), stored);
  for (const ProductShape& shape : shapes) products->prepare(shape);
  return products;
}

std::unique_ptr<Products> ring_products(const KernelTable& kernels) {
  return std::make_unique<RingProducts>(kernels);
}

}  // namespace ppsim::cuda
