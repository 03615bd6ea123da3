#include "gpu_api.hpp"

#include <chrono>
#include <thread>

#ifdef PPSIM_HAS_NVTX
#include <nvtx3/nvToolsExt.h>
#endif

namespace ppsim::gpu_backend {

GpuApi open_gpu_api(const CudaOptions& options) {
  GpuApi api{
      .cuda = load_cuda(options.cuda_library), .nccl = {}, .marks = profiler_marks(), .clock = host_clock()};
  if (options.transport == CudaTransport::nccl) api.nccl = load_nccl(options.nccl_library);
  check_cuda(api.cuda, api.cuda.init(0), "starting the CUDA driver");
  return api;
}

MarkTable profiler_marks() {
#ifdef PPSIM_HAS_NVTX
  return {[](const char* name) { nvtxRangePushA(name); }, [] { nvtxRangePop(); }};
#else
  return {[](const char*) {}, [] {}};
#endif
}

HostClock host_clock() {
  return {[] {
            const auto since = std::chrono::steady_clock::now().time_since_epoch();
            return std::chrono::duration_cast<std::chrono::nanoseconds>(since).count();
          },
          [] { std::this_thread::yield(); }};
}

}  // namespace ppsim::gpu_backend
