#include "action_costs.hpp"

#include <algorithm>

#include "ppsim/core/ir/sequences.hpp"

namespace ppsim::lowering {

std::vector<RankId> partners_of(const Pipeline& pipeline, const Action& action, RankId rank) {
  std::vector<RankId> ranks;
  switch (info(action.kind).resource) {
    case Resource::compute:
    case Resource::copy:
      return {};
    case Resource::p2p:
      return {action.peer_rank()};
    case Resource::collective:
      if (action.kind == OpKind::collective) ranks = pipeline.spec().collectives[action.collective()].members;
      if (action.kind == OpKind::reduce_grad) {
        for (const StageId s : pipeline.spec().blocks[action.block()].stages)
          ranks.push_back(pipeline.rank_of(s));
      }
      break;
  }
  sort_unique(ranks);
  std::erase(ranks, rank);
  return ranks;
}

ActionCosts::ActionCosts(const Pipeline& pipeline, const CostTable* table)
    : table_(table),
      edges_(pipeline),
      subjects_(std::max(
          {as_size(pipeline.stages()), as_size(pipeline.blocks()), pipeline.spec().collectives.size()})),
      slices_(as_size(pipeline.slices())) {
  if (table_ != nullptr) known_.assign((kOpKindCount * subjects_ + 2 * edges_.count()) * slices_, -1);
}

Nanoseconds ActionCosts::of_cell(const Cell& cell) {
  if (table_ == nullptr) return 0;
  const std::span<const Action> actions = cell.actions();
  if (cell.overlapped()) return (*table_)(cost_class_of(actions, InstructionForm::overlap));
  const Action& action = actions.front();
  // SEND_A and RECV_A name a rank as their peer; they are few.
  if (is_transfer(action.kind)) return (*table_)(cost_class_of(action));
  const auto kind = static_cast<std::size_t>(action.kind);
  return remembered((kind * subjects_ + as_size(action.subject)) * slices_ + action.slice, action);
}

Nanoseconds ActionCosts::of_transfer(const Action& send) {
  if (table_ == nullptr) return 0;
  const bool forward = send.kind == OpKind::send_forward;
  const std::size_t edge =
      forward ? edges_(send.stage(), send.peer_stage()) : edges_(send.peer_stage(), send.stage());
  const std::size_t row = kOpKindCount * subjects_ + 2 * edge + (forward ? 0 : 1);
  return remembered(row * slices_ + send.slice, send);
}

Nanoseconds ActionCosts::remembered(std::size_t index, const Action& action) {
  if (known_[index] < 0) known_[index] = (*table_)(cost_class_of(action));
  return known_[index];
}

}  // namespace ppsim::lowering
