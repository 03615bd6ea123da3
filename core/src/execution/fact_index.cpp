#include "fact_index.hpp"

#include <algorithm>

namespace ppsim {

FactIndex::FactIndex(const Pipeline& pipeline)
    : pipeline_(pipeline),
      rows_(static_cast<std::size_t>(pipeline.stages())),
      microbatches_(static_cast<std::size_t>(pipeline.microbatches())),
      slices_(static_cast<std::size_t>(pipeline.slices())) {
  for (std::size_t s = 0; s < rows_; ++s) row_of_.push_back(s);
}

FactIndex::FactIndex(const Pipeline& pipeline, OneRank)
    : pipeline_(pipeline),
      row_of_(static_cast<std::size_t>(pipeline.stages()), 0),
      microbatches_(static_cast<std::size_t>(pipeline.microbatches())),
      slices_(static_cast<std::size_t>(pipeline.slices())) {
  for (RankId rank(0); rank.value() < pipeline.ranks(); rank = next(rank)) {
    const std::span<const StageId> stages = pipeline.stages_of(rank);
    for (std::size_t i = 0; i < stages.size(); ++i) row_of_[stages[i]] = i;
    rows_ = std::max(rows_, stages.size());
  }
}

bool FactIndex::start(const Program& program, RankId rank) {
  for (std::vector<InstructionId>& table : dense_) std::fill(table.begin(), table.end(), InstructionId());
  sparse_.clear();
  bool all_belong = true;
  for (InstructionId id = program.first(rank); id < program.last(rank); id = next(id)) {
    for (const Action& action : program.actions(id)) {
      const bool belongs = belongs_on(pipeline_, action, rank);
      if (belongs) add(rank, action, id);
      all_belong = all_belong && belongs;
    }
  }
  return all_belong;
}

InstructionId FactIndex::sparse_provider(RankId rank, const Fact& fact) const {
  const auto found = sparse_.find({rank, fact});
  return found == sparse_.end() ? InstructionId() : found->second;
}

}  // namespace ppsim
