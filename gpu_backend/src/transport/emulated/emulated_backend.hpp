#pragma once

#include <utility>

#include "executor/backend.hpp"

namespace ppsim::gpu_backend {

/// Every rank in the time of a cost table.
class EmulatedBackend final : public Backend {
 public:
  explicit EmulatedBackend(CostTable costs) : costs_(std::move(costs)) {}

  [[nodiscard]] Expected<void> check(const TransportCapabilities& capabilities) const override;
  [[nodiscard]] std::unique_ptr<Worker> make_worker(const RunInput& input,
                                                    const MemoryPlan& memory) const override;
  [[nodiscard]] std::unique_ptr<Transport> make_transport(const RunInput& input,
                                                          CompletionSink& sink) const override;

 private:
  CostTable costs_;
};

}  // namespace ppsim::gpu_backend
