#pragma once

#include <vector>

#include "synthesis/chain_model.hpp"

namespace ppsim::verifier::synthesis {

/// Bounds that hold in every order: how early a task can start, how much follows its end, and a bound of the
/// objective. Tasks of a rank exclude each other, so of tasks that all precede another one, those with a head
/// of at least h are done no earlier than h plus the sum of their durations (and the same from the end).
/// Source: Carlier, "The one-machine sequencing problem", European Journal of Operational Research 11 (1982).
struct Relaxation {
  std::vector<Slot> head;  ///< by task: no earlier start
  std::vector<Slot> tail;  ///< by task: from its end to the objective's bound on the clock of the last rank
  Slot lower_bound = 0;    ///< no order has a smaller objective

  /// The latest start when the objective is at most `bound`.
  [[nodiscard]] Slot latest(const ChainModel& model, int task, Slot bound) const {
    return bound - tail[as_size(task)] - model.duration(task);
  }
};

[[nodiscard]] Relaxation relax(const ChainModel& model);

}  // namespace ppsim::verifier::synthesis
