#include "transport_maker.hpp"

#include "ppsim/gpu_backend/executor/backend_error.hpp"
#include "transport/emulated/delayed_transport.hpp"

namespace ppsim::gpu_backend {

std::unique_ptr<Transport> make_process_transport(const RunInput& input, CompletionSink& sink) {
  auto* maker = dynamic_cast<TransportMaker*>(input.options.processes);
  if (maker == nullptr) {
    throw BackendError(ErrorCode::bad_argument,
                       "these processes have met without a transport between them; mpi_bootstrap brings one");
  }
  if (!input.times.given()) return maker->make_transport(input, sink);
  if (input.options.capabilities.credits) {
    throw BackendError(ErrorCode::bad_argument,
                       "transfers of a given time meet by rendezvous between processes, not with credits");
  }
  auto delayed = std::make_unique<DelayedSink>(input.program, input.times, sink);
  auto inner = maker->make_transport(input, *delayed);
  return std::make_unique<DelayedTransport>(std::move(delayed), std::move(inner));
}

}  // namespace ppsim::gpu_backend
