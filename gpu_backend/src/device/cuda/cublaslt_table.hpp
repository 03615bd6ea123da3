#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

struct cublasLtContext;
struct CUstream_st;

namespace ppsim::gpu_backend {

/// cublasLtMatmulAlgo_t: how a product is computed. Equal bytes give equal bits on one type of device.
struct CublasLtAlgorithm {
  std::uint64_t data[8] = {};
  friend bool operator==(const CublasLtAlgorithm&, const CublasLtAlgorithm&) = default;
};

/// cublasLtMatmulHeuristicResult_t.
struct CublasLtChoice {
  CublasLtAlgorithm algorithm;
  std::size_t workspace_bytes = 0;
  int status = 0;
  float waves = 0;
  int reserved[4] = {};
};

/// Values of cublasLt.h and library_types.h, compared with them by gpu_backend/checks/table_check.cpp.
inline constexpr int kCublasSuccess = 0;
inline constexpr int kCublasComputeFloat32 = 68;
inline constexpr int kCudaTypeFloat32 = 0;
inline constexpr int kCudaTypeBfloat16 = 14;
inline constexpr int kCudaTypeFloat8E4M3 = 28;
inline constexpr int kCudaTypeFloat8E5M2 = 29;
inline constexpr int kCublasTranspose = 1;
inline constexpr int kCublasLtTransposeA = 3;
inline constexpr int kCublasLtTransposeB = 4;
inline constexpr int kCublasLtMultiprocessors = 15;
inline constexpr int kCublasLtScaleA = 17;
inline constexpr int kCublasLtScaleB = 18;
inline constexpr int kCublasLtBatchCount = 5;
inline constexpr int kCublasLtBatchStride = 6;
inline constexpr int kCublasLtLargestWorkspace = 1;
inline constexpr int kCublasLtSmallestAlignments[] = {5, 6, 7, 8};  ///< of a, b, c and d

/// cuBLASLt as a table of calls: the library's own, or a test's. Descriptors are passed as void*.
struct CublasLtTable {
#define PPSIM_CALL(name, symbol, result, parameters) std::function<result parameters> name;
#include "cublaslt_table.def"
#undef PPSIM_CALL
};

/// The path of the library that load_cublaslt() opens, or its name. Errors: as there.
[[nodiscard]] std::string cublaslt_file();
/// Fills a table from cuBLASLt. `path` empty: $PPSIM_CUBLASLT_LIBRARY, else libcublasLt.so.13 or .12, that of
/// the kernels' CUDA first.
/// Errors: throws BackendError naming the library or the symbol that is missing.
[[nodiscard]] CublasLtTable load_cublaslt(const std::string& path = "");

/// "cuBLASLt 13.1.0".
[[nodiscard]] std::string cublaslt_text(std::size_t version);

/// Errors: throws BackendError with `what` and the text of a status that is no success.
void check_cublaslt(const CublasLtTable& cublaslt, int status, std::string_view what);

}  // namespace ppsim::gpu_backend
