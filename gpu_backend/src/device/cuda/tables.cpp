#include <array>

#include "cublaslt_table.hpp"
#include "cuda_table.hpp"
#include "cudnn_table.hpp"
#include "ppsim/gpu_backend/executor/backend_error.hpp"
#include "transport/nccl/nccl_table.hpp"

namespace ppsim::gpu_backend {
namespace {

std::string text_or(const char* text, int code) {
  return text == nullptr ? "error " + std::to_string(code) : text;
}

}  // namespace

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
