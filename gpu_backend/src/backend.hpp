#pragma once

#include <memory>

#include "ppsim/core/capabilities.hpp"
#include "ppsim/core/program.hpp"
#include "ppsim/gpu_backend/device.hpp"
#include "ppsim/gpu_backend/stage_model.hpp"
#include "ppsim/gpu_backend/transport.hpp"

namespace ppsim {

/// What the executor runs on: a device for each rank and a transport between them. CUDA with NCCL is
/// another one.
class Backend {
 public:
  virtual ~Backend() = default;

  /// Whether the transport can be what it is asked to be. Errors: bad_argument.
  [[nodiscard]] virtual Expected<void> check(const TransportCapabilities& capabilities) const = 0;
  [[nodiscard]] virtual std::unique_ptr<Device> make_device(RankId rank) const = 0;
  /// Requires: arguments that outlive the transport.
  [[nodiscard]] virtual std::unique_ptr<Transport> make_transport(const Program& program,
                                                                  const StageModel& model,
                                                                  const TransportCapabilities& capabilities,
                                                                  CompletionSink& sink) const = 0;
};

}  // namespace ppsim
