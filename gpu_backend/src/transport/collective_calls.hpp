#pragma once

#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "ppsim/core/ir/program.hpp"
#include "ppsim/gpu_backend/stage_model/stage_model.hpp"
#include "ppsim/gpu_backend/transport/transport.hpp"

namespace ppsim::gpu_backend {

/// The calls of collectives of one process whose members have not all joined. Order: one thread at a time.
class CollectiveCalls {
 public:
  /// Requires: a Program that outlives it.
  explicit CollectiveCalls(const Program& program) : program_(program) { begin_step(); }

  /// Forgets all calls.
  void begin_step();
  /// Returns: the match that this call completes, in rank order.
  [[nodiscard]] std::optional<std::vector<CollectiveCall>> join(const CollectiveCall& call);

 private:
  struct Matches {
    std::vector<std::size_t> calls;  ///< per rank: how many it has made
    std::deque<std::vector<CollectiveCall>> open;
    std::size_t met = 0;  ///< matches that all have joined
  };

  const Program& program_;
  std::vector<Matches> matches_;  ///< per communicator
};

/// Reduces the parts of a match, and tells the sink that its members are complete.
void complete_match(const Program& program, const CpuStageModel& model, std::span<const CollectiveCall> match,
                    CompletionSink& sink);

}  // namespace ppsim::gpu_backend
