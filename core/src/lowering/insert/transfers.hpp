#pragma once

#include "ppsim/core/ir/action.hpp"
#include "ppsim/core/ir/pipeline.hpp"

namespace ppsim::lowering {

/// Calls visit(send, receive) for every transfer to another rank that the completion of `action` makes
/// possible, neighbours ascending, side outputs last. What a collective sums is not transferred, and what
/// several stages of a rank read goes there once.
template <class Visit>
void for_each_transfer(const Pipeline& pipeline, const Action& action, Visit&& visit) {
  const bool forward = action.kind == OpKind::forward;
  if (!forward && !gives_input_gradient(action.kind)) return;
  const StageId stage = action.stage();
  const OpKind send = forward ? OpKind::send_forward : OpKind::send_backward;
  const OpKind receive = info(send).counterpart;
  const auto neighbours =
      forward ? pipeline.consumers(stage, action.mb()) : pipeline.producers(stage, action.mb());
  const auto transfer = [&](StageId other) {
    if (pipeline.rank_of(other) == pipeline.rank_of(stage)) return;
    visit(Action{stage.value(), action.microbatch, other.value(), action.slice, send},
          Action{other.value(), action.microbatch, stage.value(), action.slice, receive});
  };
  for (const StageId other : neighbours) {
    if ((forward ? pipeline.input_sum(other) : pipeline.gradient_sum(other)).valid()) continue;
    if (!forward || pipeline.receiver(stage, other, action.mb()) == other) transfer(other);
  }
  if (!forward) return;
  for (const StageId other : pipeline.side_consumers(stage, action.mb())) transfer(other);
}

}  // namespace ppsim::lowering
