#include "fact_index.hpp"

#include <algorithm>

namespace ppsim {

FactIndex::FactIndex(const Pipeline& pipeline, OneRank)
    : pipeline_(pipeline),
      recent_(kOpKindCount * as_size(pipeline.stages())),
      first_cell_(as_size(pipeline.stages()), 0),
      slices_(as_size(pipeline.slices())),
      numbers_(pipeline),
      passes_(numbers_.count()) {
  const std::size_t cells_of_stage = as_size(pipeline.microbatches()) * slices_;
  for (RankId rank(0); rank.value() < pipeline.ranks(); rank = next(rank)) {
    const std::span<const StageId> stages = pipeline.stages_of(rank);
    for (std::size_t i = 0; i < stages.size(); ++i) first_cell_[stages[i]] = i * cells_of_stage;
    cells_ = std::max(cells_, stages.size() * cells_of_stage);
  }
}

/// Finds what an action of the rank waits for, and the cells of the tables that it fills. Requires: all that
/// it provides has been added, so that the tables exist.
void FactIndex::find(const Action& action, RankId rank, Pass& pass) {
  if (!pass.is_found) find_needs(action, rank, pass);
  std::array<InstructionId*, 2> provided = {};
  std::size_t count = 0;
  bool is_known = true;
  for_each_provided(pipeline_, action, rank, [&](const Fact& fact) {
    is_known = is_known && count < provided.size() && is_dense(rank, fact);
    if (!is_known) return;
    std::vector<InstructionId>& table = dense_[static_cast<std::size_t>(fact.kind)];
    provided[count++] = table.data() + cell(fact) - action.mb().index();
  });
  if (!is_known) return;
  pass.rank = rank;
  pass.peer = action.peer;
  pass.provided = provided;
}

void FactIndex::find_needs(const Action& action, RankId rank, Pass& pass) {
  pass.is_found = true;
  pass.first = static_cast<std::uint32_t>(needs_.size());
  bool is_dense_alone = true;
  for_each_required(pipeline_, action, rank, [&](const Fact& fact, bool optional) {
    if (!is_dense(rank, fact)) {
      is_dense_alone = false;
      return;
    }
    const bool is_received =
        fact.kind == FactKind::received_forward || fact.kind == FactKind::received_backward;
    needs_.push_back({&dense_[static_cast<std::size_t>(fact.kind)],
                      static_cast<std::uint32_t>(cell(fact) - action.mb().index()), optional, is_received});
  });
  pass.count = static_cast<std::uint32_t>(needs_.size()) - pass.first;
  pass.is_known = is_dense_alone && pass.count <= kMaxNeeds;
}

void FactIndex::forget() {
  for (std::vector<InstructionId>& table : dense_) std::ranges::fill(table, InstructionId());
  sparse_.clear();
}

InstructionId FactIndex::sparse_provider(RankId rank, const Fact& fact) const {
  const auto found = sparse_.find({rank, fact});
  return found == sparse_.end() ? InstructionId() : found->second;
}

}  // namespace ppsim
