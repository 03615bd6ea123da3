#pragma once

#include "layers/layer_times.hpp"

namespace ppsim::workload {

/// The times of transfers between the stages of a pipeline, and of collectives over its ranks.
/// Requires: references that outlive it.
class StageTransfers {
 public:
  StageTransfers(const Workload& workload, const LayerTimer& timer, const Pipeline& pipeline)
      : stack_(workload.stack), parallelism_(workload.parallelism), timer_(timer), pipeline_(pipeline) {}

  /// Seconds that a stage waits for its own transfers, where the stack lets them block: forward its outputs,
  /// backward its input gradients.
  [[nodiscard]] double blocked_by(const SizeTable& sizes, StageId stage, bool forward) const;
  /// Whether the output comes for the stage that the edge leads to, and not with another one of its rank.
  [[nodiscard]] bool is_received(const StageEdge& edge) const;
  /// The time of sends that run while the rank computes; none where they block it.
  void price(Tables& tables) const;
  /// All-reduces in a ring: of a hidden state of this many bytes where they sum one, of the statistics of a
  /// softmax between passes.
  void price_collectives(double hidden_state, CostTable& costs) const;

 private:
  [[nodiscard]] double seconds(const SizeTable& sizes, const StageEdge& edge) const;

  const SoftwareStack& stack_;
  const Parallelism& parallelism_;
  const LayerTimer& timer_;
  const Pipeline& pipeline_;
};

}  // namespace ppsim::workload
