#pragma once

#include <memory>

#include "executor/memory/memory_plan.hpp"
#include "ppsim/core/ir/capabilities.hpp"
#include "ppsim/gpu_backend/executor/execute.hpp"
#include "ppsim/gpu_backend/transport/transport.hpp"
#include "worker.hpp"

namespace ppsim::gpu_backend {

/// The parts that the executor runs on: a worker for the ranks, and a transport between them.
class Backend {
 public:
  virtual ~Backend() = default;

  /// Requires: arguments that outlive the worker.
  [[nodiscard]] virtual std::unique_ptr<Worker> make_worker(const RunInput& input,
                                                            const MemoryPlan& memory) const = 0;
  /// Requires: arguments that outlive the transport.
  [[nodiscard]] virtual std::unique_ptr<Transport> make_transport(const RunInput& input,
                                                                  CompletionSink& sink) const = 0;
};

/// Refuses capabilities with which threads of one process cannot carry messages. Errors: bad_argument.
[[nodiscard]] Expected<void> check_in_process(const TransportCapabilities& capabilities);

/// The backend that runs threads of this process for every rank; null for CUDA, whose ranks are streams.
[[nodiscard]] std::unique_ptr<Backend> make_backend(const BackendOptions& options);

}  // namespace ppsim::gpu_backend
