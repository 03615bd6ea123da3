#include "fact_index.hpp"

#include <algorithm>

namespace ppsim {

FactIndex::FactIndex(const Pipeline& pipeline, OneRank)
    : pipeline_(pipeline),
      recent_(kOpKindCount * static_cast<std::size_t>(pipeline.stages())),
      first_cell_(static_cast<std::size_t>(pipeline.stages()), 0),
      slices_(static_cast<std::size_t>(pipeline.slices())) {
  const std::size_t cells_of_stage = static_cast<std::size_t>(pipeline.microbatches()) * slices_;
  for (RankId rank(0); rank.value() < pipeline.ranks(); rank = next(rank)) {
    const std::span<const StageId> stages = pipeline.stages_of(rank);
    for (std::size_t i = 0; i < stages.size(); ++i) first_cell_[stages[i]] = i * cells_of_stage;
    cells_ = std::max(cells_, stages.size() * cells_of_stage);
  }
}

void FactIndex::forget() {
  for (std::vector<InstructionId>& table : dense_) std::fill(table.begin(), table.end(), InstructionId());
  sparse_.clear();
}

InstructionId FactIndex::sparse_provider(RankId rank, const Fact& fact) const {
  const auto found = sparse_.find({rank, fact});
  return found == sparse_.end() ? InstructionId() : found->second;
}

}  // namespace ppsim
