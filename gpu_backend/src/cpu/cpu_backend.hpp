#pragma once

#include "backend.hpp"

namespace ppsim {

/// Every rank in host memory of this process.
class CpuBackend final : public Backend {
 public:
  [[nodiscard]] Expected<void> check(const TransportCapabilities& capabilities) const override;
  [[nodiscard]] std::unique_ptr<Device> make_device(RankId rank) const override;
  [[nodiscard]] std::unique_ptr<Transport> make_transport(const Program& program, const StageModel& model,
                                                          const TransportCapabilities& capabilities,
                                                          CompletionSink& sink) const override;
};

}  // namespace ppsim
