#include "matmul.hpp"

#include <string>
#include <utility>

#include "ppsim/gpu_backend/executor/backend_error.hpp"

namespace ppsim::gpu_backend::cuda {
namespace {

constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;
constexpr int kMaxSuggestions = 16;  // cuBLASLt 13 has eight

std::string type_name(int type) {
  switch (type) {
    case kCudaTypeFloat32:
      return "float32";
    case kCudaTypeBfloat16:
      return "bf16";
    case kCudaTypeFloat8E4M3:
      return "e4m3";
    case kCudaTypeFloat8E5M2:
      return "e5m2";
    default:
      return "type " + std::to_string(type);
  }
}

std::size_t bytes_of_number(int type) {
  if (type == kCudaTypeFloat32) return 4;
  return type == kCudaTypeBfloat16 ? 2 : 1;
}

/// "bf16 8 x 24 by 24".
std::string matrix_name(const MatrixLayout& matrix, bool transposed = false) {
  return type_name(matrix.type) + " " + std::to_string(matrix.rows) + " x " + std::to_string(matrix.columns) +
         " by " + std::to_string(matrix.stride) + (transposed ? " transposed" : "");
}

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

std::string product_name(const MatmulShape& s) {
  std::string name = matrix_name(s.left, s.transpose_left) + ", " + matrix_name(s.right, s.transpose_right) +
                     (s.accumulate ? ", added to " : ", into ") + matrix_name(s.result);
  if (s.batches > 1) {
    name += ", " + std::to_string(s.batches) + " of them by";
    for (const MatrixLayout& one : {s.left, s.right, s.result})
      name += " " + std::to_string(one.batch_stride);
  }
  return name + ", on " + std::to_string(s.alignment) + " bytes";
}

std::size_t bytes_of(const MatrixLayout& matrix, std::int64_t batches) {
  const std::int64_t last = (batches - 1) * matrix.batch_stride + (matrix.columns - 1) * matrix.stride;
  return as_size(last + matrix.rows) * bytes_of_number(matrix.type);
}

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

std::vector<CublasLtAlgorithm> Matmuls::suggested(const MatmulPlan& plan, const MatmulShape& shape) const {
  const MatmulObject wanted = preference(shape);
  std::vector<CublasLtChoice> choices(kMaxSuggestions);
  int found = 0;
  const int status =
      lt_.choose(handle_.get(), plan.operation.get(), plan.left.get(), plan.right.get(), plan.result.get(),
                 plan.result.get(), wanted.get(), kMaxSuggestions, choices.data(), &found);
  const std::string what = "choosing an algorithm for " + product_text(shape);
  check_cublaslt(lt_, status, what);
  choices.resize(as_size(found));
  std::vector<CublasLtAlgorithm> result;
  for (const CublasLtChoice& choice : choices)
    if (choice.status == kCublasSuccess) result.push_back(choice.algorithm);
  if (result.empty()) throw BackendError(ErrorCode::bad_argument, what + ": cuBLASLt has none");
  return result;
}

MatmulPlan Matmuls::plan(const MatmulShape& shape) const {
  MatmulPlan made{operation(shape),
                  layout(shape.left, shape.batches),
                  layout(shape.right, shape.batches),
                  layout(shape.result, shape.batches),
                  shape.accumulate,
                  {},
                  {},
                  product_text(shape)};
  made.suggested = suggested(made, shape);
  made.algorithm = made.suggested.front();
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
