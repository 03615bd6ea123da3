#pragma once

#include "executor/backend.hpp"

namespace ppsim::gpu_backend {

/// Every rank in the time that it is given.
class EmulatedBackend final : public Backend {
 public:
  [[nodiscard]] Expected<void> check(const TransportCapabilities& capabilities) const override;
  [[nodiscard]] std::unique_ptr<Worker> make_worker(const RunInput& input,
                                                    const MemoryPlan& memory) const override;
  [[nodiscard]] std::unique_ptr<Transport> make_transport(const RunInput& input,
                                                          CompletionSink& sink) const override;
};

}  // namespace ppsim::gpu_backend
