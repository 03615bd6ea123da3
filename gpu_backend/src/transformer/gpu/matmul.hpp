#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "device/cuda/cublaslt_table.hpp"
#include "device/cuda/device_memory.hpp"
#include "ppsim/gpu_backend/stage_model/gpu_stage_model.hpp"

namespace ppsim::gpu_backend::cuda {

/// A matrix as cuBLASLt has it, by columns; each of a batch of them.
struct MatrixLayout {
  int type = kCudaTypeFloat32;
  std::int64_t rows = 0, columns = 0;
  std::int64_t stride = 0;        ///< numbers between columns
  std::int64_t batch_stride = 0;  ///< numbers between matrices
};

/// result = left * right, or result += left * right.
struct MatmulShape {
  MatrixLayout left, right, result;
  bool transpose_left = false, transpose_right = false;
  std::int64_t batches = 1;
  bool accumulate = false;
  std::uint32_t alignment = 16;        ///< bytes on whose multiples all matrices start
  const float* left_scale = nullptr;   ///< in device memory, of an fp8 matrix: what its numbers are times
  const float* right_scale = nullptr;  ///< the same
};

/// An object of cuBLASLt that is destroyed with its owner.
using MatmulObject = std::unique_ptr<void, std::function<void(void*)>>;

/// A product that is ready to be computed, always in the same way.
struct MatmulPlan {
  MatmulObject operation, left, right, result;
  bool accumulate = false;
  std::vector<CublasLtAlgorithm> suggested;  ///< by the library, the one it thinks fastest first
  CublasLtAlgorithm algorithm = {};          ///< of these
  std::string text;                          ///< for messages
};

/// All that algorithms are suggested for, as text: equal for equal products, and for no others.
[[nodiscard]] std::string product_name(const MatmulShape& shape);
/// From the first number of a matrix, or a batch of them, to behind the last.
[[nodiscard]] std::size_t bytes_of(const MatrixLayout& matrix, std::int64_t batches);

struct MatmulOperands {
  const void* left;
  const void* right;
  void* result;
  const float* left_scale = nullptr;  ///< of an fp8 matrix, in place of that of the shape
};

/// cuBLASLt with sums in float32, its workspace, and its first suggestion for each shape. Order:
/// products are ordered with each other, since they share a workspace. Errors: throws BackendError, also for
/// a shape that the library cannot multiply.
class Matmuls {
 public:
  Matmuls(CublasLtTable cublaslt, const CudaTable& cuda);

  [[nodiscard]] MatmulPlan plan(const MatmulShape& shape) const;
  /// Name and version of the library.
  [[nodiscard]] std::string library() const { return cublaslt_text(lt_.version()); }
  /// Creates nothing.
  void multiply(GpuStream stream, const MatmulPlan& plan, const MatmulOperands& operands) const;

 private:
  [[nodiscard]] MatmulObject layout(const MatrixLayout& of, std::int64_t batches) const;
  [[nodiscard]] MatmulObject operation(const MatmulShape& shape) const;
  [[nodiscard]] MatmulObject preference(const MatmulShape& shape) const;
  [[nodiscard]] std::vector<CublasLtAlgorithm> suggested(const MatmulPlan& plan,
                                                         const MatmulShape& shape) const;
  void set(void* operation, int attribute, const void* value, std::size_t size) const;
  void check(int status, const char* what) const { check_cublaslt(lt_, status, what); }

  CublasLtTable lt_;
  std::unique_ptr<cublasLtContext, std::function<void(cublasLtContext*)>> handle_;
  DeviceMemory workspace_;
};

}  // namespace ppsim::gpu_backend::cuda
