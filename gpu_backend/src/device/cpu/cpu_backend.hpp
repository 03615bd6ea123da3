#pragma once

#include "executor/backend.hpp"

namespace ppsim::gpu_backend {

/// Every rank in host memory of this process.
class CpuBackend final : public Backend {
 public:
  [[nodiscard]] std::unique_ptr<Worker> make_worker(const RunInput& input,
                                                    const MemoryPlan& memory) const override;
  [[nodiscard]] std::unique_ptr<Transport> make_transport(const RunInput& input,
                                                          CompletionSink& sink) const override;
};

}  // namespace ppsim::gpu_backend
