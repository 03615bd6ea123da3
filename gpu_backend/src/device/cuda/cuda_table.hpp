#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

// The driver's opaque handles, under its own names: they are the same types where cuda.h is seen too.
struct CUctx_st;
struct CUstream_st;
struct CUevent_st;
struct CUgraph_st;
struct CUgraphExec_st;
struct CUgreenCtx_st;
struct CUdevResourceDesc_st;

namespace ppsim::gpu_backend {

using CudaAddress = unsigned long long;  ///< CUdeviceptr
using CudaFlags = unsigned long long;
using CudaValue = std::uint64_t;  ///< cuuint64_t

/// CUdevResource: multiprocessors of a device, or a part of them.
struct CudaResource {
  int type = 0;
  unsigned char internal[92] = {};
  unsigned int multiprocessors = 0;
  unsigned int smallest_part = 0;
  unsigned int alignment = 0;
  unsigned char reserved[36] = {};
};

/// CUipcMemHandle and CUipcEventHandle: what another process of the same host opens.
struct CudaIpcHandle {
  char reserved[64] = {};
};

/// Values of cuda.h, compared with it by gpu_backend/checks/table_check.cpp.
inline constexpr int kCudaSuccess = 0;
inline constexpr int kCudaOutOfMemory = 2;
inline constexpr int kCudaNoDevice = 100;
inline constexpr int kCudaNotReady = 600;
inline constexpr int kCudaPeerAlreadyEnabled = 704;
inline constexpr int kCudaNoSuchResources = 915;
inline constexpr unsigned int kCudaStreamNonBlocking = 1;
inline constexpr unsigned int kCudaEventDefault = 0;
inline constexpr unsigned int kCudaEventDisableTiming = 2;
inline constexpr unsigned int kCudaEventInterprocess = 4;
inline constexpr unsigned int kCudaIpcLazyPeerAccess = 1;
inline constexpr unsigned int kCudaEventRecordExternal = 1;
inline constexpr int kCudaCaptureThreadLocal = 1;
inline constexpr unsigned int kCudaGraphUseNodePriority = 8;
inline constexpr unsigned int kCudaWaitValueGeq = 0;
inline constexpr unsigned int kCudaGreenDefaultStream = 1;
inline constexpr int kCudaResourceMultiprocessors = 1;
inline constexpr int kCudaAttributeMultiprocessors = 16;
inline constexpr int kCudaAttributeMajor = 75;
inline constexpr int kCudaAttributeMinor = 76;

/// The CUDA driver as a table of calls: the library's own, or a test's. An entry of a library is its symbol.
struct CudaTable {
#define PPSIM_CALL(name, symbol, result, parameters) std::function<result parameters> name;
#include "cuda_table.def"
#undef PPSIM_CALL
};

/// Fills a table from the driver. `path` empty: $PPSIM_CUDA_LIBRARY, else libcuda.so.1.
/// Errors: throws BackendError naming the library or the symbol that is missing.
[[nodiscard]] CudaTable load_cuda(const std::string& path = "");

/// Errors: throws BackendError with `what` and the name and text of a result that is no success.
void check_cuda(const CudaTable& cuda, int result, std::string_view what);

/// Errors: throws BackendError.
[[nodiscard]] std::string device_name(const CudaTable& cuda, int ordinal);

/// The error of a call for device memory that gave `result`: how much was asked for, for `what`, and how much
/// is free where there is too little. Requires: the context of that call is current.
[[nodiscard]] std::string allocation_text(const CudaTable& cuda, int result, std::size_t bytes,
                                          const std::string& what);

}  // namespace ppsim::gpu_backend
