#include "fact_index.hpp"

#include <algorithm>

namespace ppsim {

FactIndex::FactIndex(const Pipeline& pipeline, OneRank)
    : pipeline_(pipeline),
      recent_(kOpKindCount * static_cast<std::size_t>(pipeline.stages())),
      first_cell_(static_cast<std::size_t>(pipeline.stages()), 0),
      slices_(static_cast<std::size_t>(pipeline.slices())),
      numbers_(pipeline) {
  const std::size_t cells_of_stage = static_cast<std::size_t>(pipeline.microbatches()) * slices_;
  for (RankId rank(0); rank.value() < pipeline.ranks(); rank = next(rank)) {
    const std::span<const StageId> stages = pipeline.stages_of(rank);
    for (std::size_t i = 0; i < stages.size(); ++i) first_cell_[stages[i]] = i * cells_of_stage;
    cells_ = std::max(cells_, stages.size() * cells_of_stage);
  }
}

void FactIndex::know_passes() {
  passes_.resize(numbers_.count());
  numbers_.for_each(PassNumbers::kPasses, [&](const Action& action) { find(action); });
  numbers_.for_each(PassNumbers::kTransfers, [&](const Action& action) { find(action); });
}

void FactIndex::find(const Action& action) {
  const RankId rank = pipeline_.rank_of(action.stage());
  Pass& pass = passes_[numbers_(action)];
  pass = {static_cast<std::uint32_t>(needs_.size()), 0, true};
  for_each_required(pipeline_, action, rank, [&](const Fact& fact, bool optional) {
    if (!is_dense(rank, fact)) {
      pass.is_known = false;
    } else {
      needs_.push_back({fact.kind, optional, static_cast<std::uint32_t>(cell(fact) - action.mb().index())});
    }
  });
  pass.count = static_cast<std::uint32_t>(needs_.size()) - pass.first;
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
