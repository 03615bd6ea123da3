#include "support/gpu_probe/grind.hpp"

#include "ppsim/gpu_backend/executor/backend_error.hpp"

namespace ppsim::test {
namespace {

constexpr int kGrindRepeats = 8;

}  // namespace

Grind::Grind(const ProbeMachine& machine, ProbeStream& stream) : machine_(machine) {
  const auto memory = stream.device().allocate(
      3 * machine.work * machine.work * static_cast<Bytes>(sizeof(std::uint64_t)), "numbers");
  numbers_ = reinterpret_cast<std::uint64_t*>(memory.data());
  static_cast<void>(stream.time_of([&](GpuStream on) { stream.device().fill(on, memory, std::byte{1}); }));
  // A kernel is loaded when it is launched first, which may wait for every stream of the device.
  static_cast<void>(stream.time_of(*this));
}

void Grind::operator()(GpuStream stream) const {
  const std::int64_t size = machine_.work;
  const cuda::RingProduct call{.rows = size,
                               .columns = size,
                               .inner = size,
                               .batches = 1,
                               .a = numbers_,
                               .a_row = size,
                               .a_inner = 1,
                               .b = numbers_ + size * size,
                               .b_inner = size,
                               .b_column = 1,
                               .c = numbers_ + 2 * size * size,
                               .c_row = size};
  for (int i = 0; i < kGrindRepeats; ++i) {
    if (machine_.kernels.ring_product(stream, call) != 0)
      throw BackendError(ErrorCode::io, "a kernel could not be launched");
  }
}

GraphHandle captured(const ProbeMachine& machine, ProbeStream& stream, const Work& work) {
  const CudaTable& cuda = machine.api.cuda;
  stream.device().make_current();
  check_cuda(cuda, cuda.capture_begin(stream.get(), kCudaCaptureThreadLocal), "beginning a capture");
  work(stream.get());
  CUgraph_st* made = nullptr;
  check_cuda(cuda, cuda.capture_end(stream.get(), &made), "ending a capture");
  const GpuHandle<CUgraph_st> graph(made, [&cuda](CUgraph_st* g) { cuda.graph_destroy(g); });
  CUgraphExec_st* executable = nullptr;
  check_cuda(cuda, cuda.graph_instantiate(&executable, graph.get(), 0), "instantiating a graph");
  return {executable, [&cuda](CUgraphExec_st* g) { cuda.graph_executable_destroy(g); }};
}

}  // namespace ppsim::test
