#include "gpu_api.hpp"

#include <chrono>
#include <cstdlib>
#include <thread>

#include "ppsim/gpu_backend/executor/backend_error.hpp"

#ifdef PPSIM_HAS_NVTX
#include <nvtx3/nvToolsExt.h>
#endif

namespace ppsim::gpu_backend {

void order_launches(const EnvironmentTable& environment, bool graphs) {
  constexpr const char* kName = "NCCL_LAUNCH_ORDER_IMPLICIT";
  constexpr const char* kSetHere = "PPSIM_SET_LAUNCH_ORDER";  // by an earlier run, and not by the user
  const std::string expected = graphs ? "0" : "1";
  const std::string order = environment.get(kName);
  if (order.empty()) {
    environment.set(kName, expected);
    return environment.set(kSetHere, expected);
  }
  if (order == expected) return;
  if (order == environment.get(kSetHere)) {
    throw BackendError(
        ErrorCode::refused,
        std::string("NCCL reads its launch order once in a process, and an earlier run in this one ") +
            (graphs ? "was streamed" : "had graphs") + ": " +
            (graphs ? "runs with graphs" : "streamed runs") + " need a process of their own");
  }
  const std::string name = kName;
  throw BackendError(ErrorCode::bad_argument,
                     std::string(graphs ? "the driver cannot load a graph that has NCCL's launch order"
                                        : "several communicators on a device need NCCL's launch order") +
                         " (found " + name + "=" + order + ", expected " + name + "=" + expected +
                         ", or unset)");
}

void start_driver(const CudaTable& cuda, const EnvironmentTable& environment) {
  constexpr const char* kName = "CUDA_DEVICE_MAX_CONNECTIONS";
  if (environment.get(kName).empty()) environment.set(kName, "32");
  check_cuda(cuda, cuda.init(0), "starting the CUDA driver");
}

GpuApi open_gpu_api(const CudaOptions& options) {
  const EnvironmentTable environment = process_environment();
  if (options.transport == CudaTransport::nccl) order_launches(environment, options.graphs);
  GpuApi api{.cuda = load_cuda(options.cuda_library),
             .nccl = {},
             .marks = profiler_marks(),
             .clock = host_clock(),
             .environment = environment};
  if (options.transport == CudaTransport::nccl) api.nccl = load_nccl(options.nccl_library);
  start_driver(api.cuda, api.environment);
  return api;
}

MarkTable profiler_marks() {
#ifdef PPSIM_HAS_NVTX
  return {[](const char* name) { nvtxRangePushA(name); }, [] { nvtxRangePop(); }};
#else
  return {[](const char*) {}, [] {}};
#endif
}

EnvironmentTable process_environment() {
  return {
      [](const std::string& name) {
        const char* const value = std::getenv(name.c_str());
        return std::string(value == nullptr ? "" : value);
      },
      [](const std::string& name, const std::string& value) { ::setenv(name.c_str(), value.c_str(), 1); }};
}

HostClock host_clock() {
  return {[] {
            const auto since = std::chrono::steady_clock::now().time_since_epoch();
            return std::chrono::duration_cast<std::chrono::nanoseconds>(since).count();
          },
          [] { std::this_thread::yield(); }};
}

}  // namespace ppsim::gpu_backend
