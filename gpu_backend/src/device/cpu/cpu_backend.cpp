#include "cpu_backend.hpp"

#include "cpu_device.hpp"
#include "executor/action_runner.hpp"
#include "transport/in_process/in_process_transport.hpp"

namespace ppsim::gpu_backend {

Expected<void> CpuBackend::check(const TransportCapabilities& capabilities) const {
  return check_in_process(capabilities);
}

std::unique_ptr<Worker> CpuBackend::make_worker(const RunInput& input, const MemoryPlan& memory) const {
  Devices devices;
  for (int r = 0; r < input.program.pipeline().ranks(); ++r)
    devices.push_back(input.here.has(RankId(r)) ? std::make_unique<CpuDevice>() : nullptr);
  return std::make_unique<ActionRunner>(input, memory, std::move(devices));
}

std::unique_ptr<Transport> CpuBackend::make_transport(const RunInput& input, CompletionSink& sink) const {
  return std::make_unique<InProcessTransport>(input.program, input.model, input.options.capabilities.credits,
                                              sink);
}

}  // namespace ppsim::gpu_backend
