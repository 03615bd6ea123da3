#include "emulated_backend.hpp"

#include "emulated_transport.hpp"
#include "emulated_worker.hpp"

namespace ppsim::gpu_backend {

Expected<void> EmulatedBackend::check(const TransportCapabilities& capabilities) const {
  return check_in_process(capabilities);
}

std::unique_ptr<Worker> EmulatedBackend::make_worker(const RunInput& input,
                                                     const MemoryPlan& /*memory*/) const {
  return std::make_unique<EmulatedWorker>(input.program, costs_);
}

std::unique_ptr<Transport> EmulatedBackend::make_transport(const RunInput& input,
                                                           CompletionSink& sink) const {
  return std::make_unique<EmulatedTransport>(input.program, costs_, input.options.capabilities.credits, sink);
}

}  // namespace ppsim::gpu_backend
