#include "support/fake_gpu/transformer.hpp"

#include "support/host_gpu_model.hpp"
#include "support/host_kernels.hpp"
#include "transformer/gpu/gpu_transformer.hpp"

namespace ppsim::test {

using namespace gpu_backend;

HostQueue queue_of(FakeGpu& gpu) {
  return [&gpu](void* stream, const KernelAccess& access, const std::function<void()>& work) {
    constexpr Nanoseconds kKernel = 100;
    gpu.launch(static_cast<CUstream_st*>(stream),
               {.duration = kKernel, .reads = access.reads, .writes = access.writes, .work = work});
    return 0;
  };
}

std::unique_ptr<GpuStageModel> fake_transformer(FakeGpu& gpu, const GpuApi& api,
                                                const TransformerConfig& config,
                                                const TransformerFaults& faults) {
  cuda::KernelTable kernels = host_kernels(queue_of(gpu));
  if (faults.kernels) faults.kernels(kernels);
  const auto cublaslt = [&gpu, tamper = faults.cublaslt] {
    CublasLtTable table = host_cublaslt(queue_of(gpu));
    if (tamper) tamper(table);
    return table;
  };
  const auto cudnn = [load = host_cudnn_loader(queue_of(gpu), faults.cudnn_options, faults.cudnn_books),
                      tamper = faults.cudnn] {
    CudnnTable table = load();
    if (tamper) tamper(table);
    return table;
  };
  return make_gpu_transformer(config, {kernels, cublaslt, [cuda = api.cuda] { return cuda; }, cudnn});
}

}  // namespace ppsim::test
