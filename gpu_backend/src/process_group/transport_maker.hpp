#pragma once

#include <memory>

#include "executor/worker.hpp"
#include "ppsim/gpu_backend/process_group/bootstrap.hpp"

namespace ppsim::gpu_backend {

/// A bootstrap that brings a way to move the messages of a Program between its processes.
class TransportMaker {
 public:
  virtual ~TransportMaker() = default;
  /// Requires: arguments that outlive the transport; all processes ready to make theirs.
  /// Errors: throws BackendError.
  [[nodiscard]] virtual std::unique_ptr<Transport> make_transport(const RunInput& input,
                                                                  CompletionSink& sink) = 0;
};

/// The transport of a run on several processes; where actions are given a time, in that time.
/// Errors: throws BackendError when the bootstrap brings none.
[[nodiscard]] std::unique_ptr<Transport> make_process_transport(const RunInput& input, CompletionSink& sink);

}  // namespace ppsim::gpu_backend
