#include "cpu_backend.hpp"

#include "cpu_device.hpp"
#include "in_process_transport.hpp"

namespace ppsim {

Expected<void> CpuBackend::check(const TransportCapabilities& capabilities) const {
  if (capabilities.residency) {
    return make_error(ErrorCode::bad_argument, "the in-process transport has no residency limit");
  }
  if (capabilities.captures_graphs) {
    return make_error(ErrorCode::bad_argument, "the in-process transport captures no graphs");
  }
  if (capabilities.credits && *capabilities.credits < 1) {
    return make_error(ErrorCode::bad_argument, "a channel needs at least 1 credit");
  }
  return {};
}

std::unique_ptr<Device> CpuBackend::make_device(RankId /*rank*/) const {
  return std::make_unique<CpuDevice>();
}

std::unique_ptr<Transport> CpuBackend::make_transport(const Program& program, const StageModel& model,
                                                      const TransportCapabilities& capabilities,
                                                      CompletionSink& sink) const {
  return std::make_unique<InProcessTransport>(program, model, capabilities.credits, sink);
}

}  // namespace ppsim
