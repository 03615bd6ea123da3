#include "support/gpu_probe/probe_machine.hpp"

#include <algorithm>

#include "ppsim/gpu_backend/executor/backend_error.hpp"
#include "transformer/gpu/gpu_transformer.hpp"

namespace ppsim::test {

using namespace gpu_backend;

ProbeMachine this_machine(ProbeLibraries extra) {
  const auto kernels = machine_libraries().kernels;
  if (!kernels) throw BackendError(ErrorCode::bad_argument, "this build has no kernels");
  ProbeMachine machine{{.cuda = load_cuda(), .marks = profiler_marks(), .clock = host_clock()}, {}, *kernels};
  check_cuda(machine.api.cuda, machine.api.cuda.init(0), "starting the CUDA driver");
  if (extra == ProbeLibraries::cublaslt) machine.cublaslt = load_cublaslt();
  if (extra == ProbeLibraries::nccl) machine.api.nccl = load_nccl();
  if (extra == ProbeLibraries::cudnn) machine.cudnn = load_cudnn();
  return machine;
}

ProbeStream::ProbeStream(const ProbeMachine& machine, const GpuDevice& device, int part)
    : machine_(machine),
      device_(device, RankId(part), part),
      stream_(device_.make_stream(StreamPriority::lowest)),
      begin_(device_.make_event(true)),
      end_(device_.make_event(true)) {}

void ProbeStream::enqueue(const std::function<void(GpuStream)>& work) {
  device_.make_current();
  device_.record(begin_.get(), get());
  work(get());
  device_.record(end_.get(), get());
}

bool ProbeStream::finishes_within(Nanoseconds time) const {
  const HostClock& clock = machine_.api.clock;
  const Nanoseconds give_up = clock.now() + time;
  while (!device_.complete(end_.get())) {
    if (clock.now() >= give_up) return false;
    clock.pause();
  }
  return true;
}

void ProbeStream::finish() const {
  constexpr Nanoseconds kTimeout = 20'000'000'000;
  if (!finishes_within(kTimeout)) throw BackendError(ErrorCode::io, "work on a stream does not end");
}

Nanoseconds ProbeStream::time_of(const std::function<void(GpuStream)>& work) {
  enqueue(work);
  finish();
  return time();
}

Nanoseconds median_of(std::vector<Nanoseconds> times) {
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

}  // namespace ppsim::test
