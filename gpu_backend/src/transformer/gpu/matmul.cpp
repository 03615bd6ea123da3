#include "matmul.hpp"

#include <string>
#include <utility>

#include "ppsim/gpu_backend/executor/backend_error.hpp"

namespace ppsim::gpu_backend::cuda {
namespace {

constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;

/// With the types of cuBLASLt, by number: what it supports depends on them.
std::string product_text(const MatmulShape& shape) {
  const std::int64_t inner = shape.transpose_right ? shape.right.columns : shape.right.rows;
  const auto matrix = [](std::int64_t rows, std::int64_t columns, int type) {
    return std::to_string(rows) + " x " + std::to_string(columns) + " (type " + std::to_string(type) + ")";
  };
  return "a product of " + matrix(shape.result.columns, inner, shape.right.type) + " and " +
         matrix(inner, shape.result.rows, shape.left.type) + " into type " +
         std::to_string(shape.result.type) + (shape.accumulate ? ", added" : "");
}

}  // namespace

Matmuls::Matmuls(CublasLtTable cublaslt, const CudaTable& cuda) : lt_(std::move(cublaslt)) {
  cublasLtContext* handle = nullptr;
  check(lt_.create(&handle), "opening cuBLASLt");
  handle_ = {handle, [destroy = lt_.destroy](cublasLtContext* one) { destroy(one); }};
  workspace_ = DeviceMemory(cuda, kWorkspaceBytes, "cuBLASLt's workspace");
}

MatmulObject Matmuls::layout(const MatrixLayout& of, std::int64_t batches) const {
  void* object = nullptr;
  check(lt_.layout_create(&object, of.type, static_cast<std::uint64_t>(of.rows),
                          static_cast<std::uint64_t>(of.columns), of.stride),
        "describing a matrix");
  MatmulObject made(object, lt_.layout_destroy);
  const auto count = static_cast<std::int32_t>(batches);
  check(lt_.layout_set(object, kCublasLtBatchCount, &count, sizeof count), "describing a batch");
  check(lt_.layout_set(object, kCublasLtBatchStride, &of.batch_stride, sizeof of.batch_stride),
        "describing a batch");
  return made;
}

void Matmuls::set(void* operation, int attribute, const void* value, std::size_t size) const {
  check(lt_.operation_set(operation, attribute, value, size), "describing a product");
}

MatmulObject Matmuls::operation(const MatmulShape& shape) const {
  void* object = nullptr;
  check(lt_.operation_create(&object, kCublasComputeFloat32, kCudaTypeFloat32), "describing a product");
  MatmulObject made(object, lt_.operation_destroy);
  const std::int32_t transpose = kCublasTranspose;
  if (shape.transpose_left) set(object, kCublasLtTransposeA, &transpose, sizeof transpose);
  if (shape.transpose_right) set(object, kCublasLtTransposeB, &transpose, sizeof transpose);
  if (shape.left_scale != nullptr) set(object, kCublasLtScaleA, &shape.left_scale, sizeof shape.left_scale);
  if (shape.right_scale != nullptr)
    set(object, kCublasLtScaleB, &shape.right_scale, sizeof shape.right_scale);
  return made;
}

MatmulObject Matmuls::preference(const MatmulShape& shape) const {
  constexpr const char* kWhat = "preparing a choice of algorithm";
  void* object = nullptr;
  check(lt_.preference_create(&object), kWhat);
  MatmulObject made(object, lt_.preference_destroy);
  check(lt_.preference_set(object, kCublasLtLargestWorkspace, &kWorkspaceBytes, sizeof kWorkspaceBytes),
        kWhat);
  for (const int matrix : kCublasLtSmallestAlignments) {
    check(lt_.preference_set(object, matrix, &shape.alignment, sizeof shape.alignment), kWhat);
  }
  return made;
}

CublasLtAlgorithm Matmuls::choose(const MatmulPlan& plan, const MatmulShape& shape) const {
  const MatmulObject wanted = preference(shape);
  CublasLtChoice choice;
  int found = 0;
  const int status = lt_.choose(handle_.get(), plan.operation.get(), plan.left.get(), plan.right.get(),
                                plan.result.get(), plan.result.get(), wanted.get(), 1, &choice, &found);
  const std::string what = "choosing an algorithm for " + product_text(shape);
  check_cublaslt(lt_, status, what);
  if (found < 1 || choice.status != kCublasSuccess)
    throw BackendError(ErrorCode::bad_argument, what + ": cuBLASLt has none");
  return choice.algorithm;
}

MatmulPlan Matmuls::plan(const MatmulShape& shape) const {
  MatmulPlan made{operation(shape),
                  layout(shape.left, shape.batches),
                  layout(shape.right, shape.batches),
                  layout(shape.result, shape.batches),
                  shape.accumulate,
                  {},
                  product_text(shape)};
  made.algorithm = choose(made, shape);
  return made;
}

void Matmuls::multiply(GpuStream stream, const MatmulPlan& plan, const MatmulOperands& operands) const {
  const float alpha = 1;
  const float beta = plan.accumulate ? 1 : 0;
  if (operands.left_scale != nullptr)
    set(plan.operation.get(), kCublasLtScaleA, &operands.left_scale, sizeof operands.left_scale);
  check(lt_.multiply(handle_.get(), plan.operation.get(), &alpha, operands.left, plan.left.get(),
                     operands.right, plan.right.get(), &beta, operands.result, plan.result.get(),
                     operands.result, plan.result.get(), &plan.algorithm, workspace_.as<void>(),
                     kWorkspaceBytes, stream),
        plan.text.c_str());
}

}  // namespace ppsim::gpu_backend::cuda
