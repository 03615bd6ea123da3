#pragma once

#include "ppsim/core/ir/action.hpp"
#include "ppsim/core/ir/pipeline.hpp"

namespace ppsim::lowering {

/// Calls visit(send, receive) for every transfer to another rank that the completion of `action` makes
/// possible, neighbours ascending. What a collective sums is not transferred.
template <class Visit>
void for_each_transfer(const Pipeline& pipeline, const Action& action, Visit&& visit) {
  const bool forward = action.kind == OpKind::forward;
  if (!forward && !gives_input_gradient(action.kind)) return;
  const StageId stage = action.stage();
  const OpKind send = forward ? OpKind::send_forward : OpKind::send_backward;
  const auto neighbours =
      forward ? pipeline.consumers(stage, action.mb()) : pipeline.producers(stage, action.mb());
  for (const StageId other : neighbours) {
    if (pipeline.rank_of(other) == pipeline.rank_of(stage)) continue;
    if ((forward ? pipeline.input_sum(other) : pipeline.gradient_sum(other)).valid()) continue;
    const Action out = make_transfer(send, stage.value(), action.microbatch, other.value());
    visit(at_slice(out, action.slice), at_slice(counterpart(out, RankId()), action.slice));
  }
}

}  // namespace ppsim::lowering
