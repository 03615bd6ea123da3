#include <array>

#include "cublaslt_table.hpp"
#include "cuda_table.hpp"
#include "cudnn_table.hpp"
#include "dynamic_library.hpp"
#include "kernel_cuda.hpp"
#include "ppsim/gpu_backend/executor/backend_error.hpp"
#include "transport/nccl/nccl_table.hpp"

namespace ppsim::gpu_backend {
namespace {

std::string text_or(const char* text, int code) {
  return text == nullptr ? "error " + std::to_string(code) : text;
}

}  // namespace

CudaTable load_cuda(const std::string& path) {
  const DynamicLibrary library({.path = path,
                                .variable = "PPSIM_CUDA_LIBRARY",
                                .name = "libcuda.so.1",
                                .purpose = "the CUDA backend",
                                .version = "a driver for CUDA 12.8 (570)"});
  CudaTable table;
#define PPSIM_CALL(name, symbol, result, parameters) library.take(table.name, #symbol);
#include "cuda_table.def"
#undef PPSIM_CALL
  return table;
}

NcclTable load_nccl(const std::string& path) {
  const DynamicLibrary library({path, "PPSIM_NCCL_LIBRARY", "libnccl.so.2", "the NCCL transport"});
  NcclTable table;
#define PPSIM_CALL(name, symbol, result, parameters) library.take(table.name, #symbol);
#include "transport/nccl/nccl_table.def"
#undef PPSIM_CALL
  return table;
}

namespace {

/// The calls, values and structures of the table are alike in CUDA 12 and 13. That of the kernels comes
/// first: a driver for CUDA 12 runs neither kernels nor a library of 13.
DynamicLibrary open_cublaslt(const std::string& path) {
  constexpr std::array kNames = {"libcublasLt.so.13", "libcublasLt.so.12"};
  constexpr std::array kOlderFirst = {kNames[1], kNames[0]};
  return DynamicLibrary::first_of(
      {.path = path, .variable = "PPSIM_CUBLASLT_LIBRARY", .purpose = "the transformer on a GPU"},
      kKernelCuda >= 13000 ? kNames : kOlderFirst);
}

DynamicLibrary open_cudnn(const std::string& path) {
  return DynamicLibrary({path, "PPSIM_CUDNN_LIBRARY", "libcudnn.so.9", "attention by cuDNN", "cudnn"});
}

}  // namespace

std::string cublaslt_file() { return open_cublaslt("").name(); }
std::string cudnn_file() { return open_cudnn("").name(); }

CublasLtTable load_cublaslt(const std::string& path) {
  const DynamicLibrary library = open_cublaslt(path);
  CublasLtTable table;
#define PPSIM_CALL(name, symbol, result, parameters) library.take(table.name, #symbol);
#include "cublaslt_table.def"
#undef PPSIM_CALL
  return table;
}

CudnnTable load_cudnn(const std::string& path) {
  const DynamicLibrary library = open_cudnn(path);
  CudnnTable table;
#define PPSIM_CALL(name, symbol, result, parameters) library.take(table.name, #symbol);
#include "cudnn_table.def"
#undef PPSIM_CALL
  return table;
}

void check_cuda(const CudaTable& cuda, int result, std::string_view what) {
  if (result == kCudaSuccess) return;
  const char* name = nullptr;
  const char* text = nullptr;
  cuda.error_name(result, &name);
  cuda.error_text(result, &text);
  throw BackendError(ErrorCode::io,
                     std::string(what) + ": " + text_or(name, result) + ", " + text_or(text, result));
}

std::string allocation_text(const CudaTable& cuda, int result, std::size_t bytes, const std::string& what) {
  std::string text = "allocating " + std::to_string(bytes) + " bytes for " + what;
  std::size_t free = 0;
  std::size_t total = 0;
  if (result != kCudaOutOfMemory || cuda.memory_info(&free, &total) != kCudaSuccess) return text;
  return text + " on a device with " + std::to_string(free) + " of " + std::to_string(total) + " bytes free";
}

std::string device_name(const CudaTable& cuda, int ordinal) {
  std::array<char, 256> name{};
  int device = 0;
  check_cuda(cuda, cuda.device_get(&device, ordinal), "a device");
  check_cuda(cuda, cuda.device_name(name.data(), static_cast<int>(name.size()), device), "a device");
  return name.data();
}

void check_nccl(const NcclTable& nccl, int result, std::string_view what) {
  if (result == kNcclSuccess || result == kNcclInProgress) return;
  // NCCL keeps the last one of all communicators, and looks at none.
  const char* const last = nccl.last_error ? nccl.last_error(nullptr) : nullptr;
  throw BackendError(ErrorCode::io, std::string(what) + ": NCCL error " + std::to_string(result) + ", " +
                                        text_or(nccl.error_text(result), result) +
                                        (last == nullptr || *last == '\0' ? "" : std::string(": ") + last));
}

int nccl_version(const NcclTable& nccl) {
  int version = 0;
  check_nccl(nccl, nccl.version(&version), "the version of NCCL");
  return version;
}

std::string nccl_text(int version) {
  return "NCCL " + std::to_string(version / 10000) + "." + std::to_string(version % 10000 / 100) + "." +
         std::to_string(version % 100);
}

void check_cublaslt(const CublasLtTable& cublaslt, int status, std::string_view what) {
  if (status == kCublasSuccess) return;
  throw BackendError(ErrorCode::io, std::string(what) + ": " + text_or(cublaslt.error_name(status), status) +
                                        ", " + text_or(cublaslt.error_text(status), status));
}

void check_cudnn(const CudnnTable& cudnn, int status, std::string_view what) {
  if (status == kCudnnSuccess) return;
  std::array<char, 512> reason{};
  cudnn.last_error(reason.data(), reason.size() - 1);
  const std::string text = reason.data();
  const bool is_refusal = status / 1000 == kCudnnNotSupported / 1000;
  throw BackendError(is_refusal ? ErrorCode::bad_argument : ErrorCode::io,
                     std::string(what) + ": " + text_or(cudnn.error_text(status), status) +
                         (text.empty() ? "" : ", ") + text.substr(0, text.find('\n')));
}

std::string cublaslt_text(std::size_t version) {
  return "cuBLASLt " + std::to_string(version / 10000) + "." + std::to_string(version % 10000 / 100) + "." +
         std::to_string(version % 100);
}

std::string cudnn_text(std::size_t version) {
  return "cuDNN " + std::to_string(version / 10000) + "." + std::to_string(version % 10000 / 100) + "." +
         std::to_string(version % 100);
}

}  // namespace ppsim::gpu_backend
