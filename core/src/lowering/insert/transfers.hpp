#pragma once

#include <vector>

#include "lowering/cell_rows.hpp"
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

/// The transfers of every stage, for those who ask for them action by action.
class TransferIndex {
 public:
  explicit TransferIndex(const Pipeline& pipeline)
      : pipeline_(pipeline), stages_(as_size(pipeline.stages())) {
    std::vector<MicrobatchId> first(pipeline.spec().routes.size());
    for (MicrobatchId mb(pipeline.microbatches() - 1); mb.valid(); mb = MicrobatchId(mb.value() - 1))
      first[pipeline.route_of(mb).index()] = mb;
    begin_.push_back(0);
    for (const MicrobatchId mb : first) {
      for (const OpKind kind : {OpKind::forward, OpKind::backward}) add(kind, mb);
    }
  }

  /// Calls visit(send, receive, rank of the receive) for what for_each_transfer says of `action`.
  template <class Visit>
  void for_each(const Action& action, Visit&& visit) const {
    const bool forward = action.kind == OpKind::forward;
    if (!forward && !gives_input_gradient(action.kind)) return;
    const OpKind send = forward ? OpKind::send_forward : OpKind::send_backward;
    const OpKind receive = forward ? OpKind::recv_forward : OpKind::recv_backward;
    const std::size_t row =
        (2 * pipeline_.route_of(action.mb()).index() + (forward ? 0 : 1)) * stages_ + action.stage().index();
    for (std::size_t i = begin_[row]; i < begin_[row + 1]; ++i) {
      const Target& to = targets_[i];
      visit(Action{action.subject, action.microbatch, to.stage.value(), action.slice, send},
            Action{to.stage.value(), action.microbatch, action.subject, action.slice, receive}, to.rank);
    }
  }

 private:
  struct Target {
    StageId stage;
    RankId rank;
  };

  /// A route that no microbatch takes has none.
  void add(OpKind kind, MicrobatchId mb) {
    for (int stage = 0; stage < pipeline_.stages(); ++stage) {
      if (mb.valid()) {
        for_each_transfer(pipeline_, make_action(kind, stage, mb.value()),
                          [&](const Action&, const Action& receive) {
                            targets_.push_back({receive.stage(), pipeline_.rank_of(receive.stage())});
                          });
      }
      begin_.push_back(static_cast<std::uint32_t>(targets_.size()));
    }
  }

  const Pipeline& pipeline_;
  std::size_t stages_;
  std::vector<std::uint32_t> begin_;  ///< by route, direction and stage
  std::vector<Target> targets_;
};

/// The transfers that the cells of one rank make possible to another one.
struct Flow {
  RankId from;
  RankId to;
  std::size_t count = 0;
};

/// Order: ascending by `from`.
[[nodiscard]] std::vector<Flow> flows_of(const TransferIndex& transfers, const CellRows& rows);

/// How many lines each row will have: its cells, and both ends of each transfer.
[[nodiscard]] IdVector<RankId, std::size_t> line_counts(const CellRows& rows, const std::vector<Flow>& flows);

}  // namespace ppsim::lowering
