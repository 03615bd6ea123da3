#include "cuda_status.hpp"

#include "cublaslt_table.hpp"
#include "cuda_table.hpp"
#include "cudnn_table.hpp"
#include "gpu_api.hpp"
#include "kernel_cuda.hpp"
#include "ppsim/gpu_backend/executor/backend_error.hpp"
#include "transport/nccl/nccl_table.hpp"

namespace ppsim::gpu_backend {
namespace {

/// The description of a library, or why it cannot be loaded.
template <class Look>
std::string looked_up(const Look& look) {
  try {
    return look();
  } catch (const BackendError& failure) {
    return failure.error().message;
  }
}

std::string device_text(const CudaTable& cuda, int ordinal) {
  int device = 0;
  int multiprocessors = 0;
  int major = 0;
  int minor = 0;
  std::size_t bytes = 0;
  check_cuda(cuda, cuda.device_get(&device, ordinal), "a device");
  check_cuda(cuda, cuda.device_attribute(&multiprocessors, kCudaAttributeMultiprocessors, device),
             "a device");
  check_cuda(cuda, cuda.device_attribute(&major, kCudaAttributeMajor, device), "a device");
  check_cuda(cuda, cuda.device_attribute(&minor, kCudaAttributeMinor, device), "a device");
  check_cuda(cuda, cuda.device_memory(&bytes, device), "a device");
  return device_name(cuda, ordinal) + " with " + std::to_string(multiprocessors) +
         " multiprocessors of capability " + std::to_string(major) + "." + std::to_string(minor) + " and " +
         std::to_string(bytes >> 30) + " GiB";
}

/// CUDA's versions are 1000 * major + 10 * minor.
std::string cuda_version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

/// Kernels bring the runtime that they were compiled for, which wants a driver of its major version or newer.
/// The calls of the backend want one for CUDA 12.8. Source: CUDA Compatibility, "Minor Version
/// Compatibility".
std::string driver_lacks(int version) {
  constexpr int kMajor = 1000;
  if (version / kMajor >= kKernelCuda / kMajor) return "";
  return " (the kernels of the transformer, compiled with CUDA " + cuda_version_text(kKernelCuda) +
         ", need one for CUDA " + std::to_string(kKernelCuda / kMajor) +
         ", 580 or later; a build with CUDA 12, as scripts/cuda12 prepares it, runs on this one)";
}

std::string driver_text(int& devices) {
  const CudaTable cuda = load_cuda();
  int version = 0;
  start_driver(cuda, process_environment());
  check_cuda(cuda, cuda.driver_version(&version), "the version of the CUDA driver");
  check_cuda(cuda, cuda.device_count(&devices), "counting devices");
  std::string text = "driver " + cuda_version_text(version) + driver_lacks(version);
  for (int d = 0; d < devices; ++d) text += ", " + device_text(cuda, d);
  return text;
}

std::string loaded_nccl_text() { return nccl_text(nccl_version(load_nccl())); }

std::string loaded_cublaslt_text() {
  return cublaslt_text(load_cublaslt().version()) + " (" + cublaslt_file() + ")";
}

/// Attention does without it.
std::string optional_cudnn_text() { return cudnn_text(load_cudnn().version()) + " (" + cudnn_file() + ")"; }

}  // namespace

std::string cuda_fault(bool devices, bool kernels) {
  return devices && !kernels ? std::string("no transformer runs on a GPU: ") + kNoKernels : "";
}

BackendStatus cuda_status() {
  int devices = 0;
  const std::string driver = looked_up([&] { return driver_text(devices); });
  return {"cuda", devices > 0,
          driver + "; " + looked_up(loaded_nccl_text) + "; " + looked_up(loaded_cublaslt_text) + "; " +
              looked_up(optional_cudnn_text)};
}

}  // namespace ppsim::gpu_backend
