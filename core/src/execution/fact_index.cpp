#include "fact_index.hpp"

#include <algorithm>

namespace ppsim {

FactIndex::FactIndex(const Pipeline& pipeline, OneRank)
    : pipeline_(pipeline),
      recent_(kOpKindCount * static_cast<std::size_t>(pipeline.stages())),
      row_of_(static_cast<std::size_t>(pipeline.stages()), 0),
      microbatches_(static_cast<std::size_t>(pipeline.microbatches())),
      slices_(static_cast<std::size_t>(pipeline.slices())) {
  for (RankId rank(0); rank.value() < pipeline.ranks(); rank = next(rank)) {
    const std::span<const StageId> stages = pipeline.stages_of(rank);
    for (std::size_t i = 0; i < stages.size(); ++i) row_of_[stages[i]] = i;
    rows_ = std::max(rows_, stages.size());
  }
}

void FactIndex::forget() {
  for (std::vector<InstructionId>& table : dense_) std::fill(table.begin(), table.end(), InstructionId());
  sparse_.clear();
}

/// Where an action of a stage and a microbatch may stand is a matter of its kind, stage, peer and route, and
/// mostly what it was for the one before.
bool FactIndex::belongs(const Action& action, RankId rank) {
  const OpInfo& kind = info(action.kind);
  if (kind.subject != Subject::stage || kind.microbatch != MicrobatchUse::required)
    return belongs_on(pipeline_, action, rank);
  Belonging& recent =
      recent_[static_cast<std::size_t>(action.kind) * row_of_.size() + action.stage().index()];
  const Belonging asked{rank, pipeline_.route_of(action.mb()), action.peer};
  if (recent == asked) return true;
  if (!belongs_on(pipeline_, action, rank)) return false;
  recent = asked;
  return true;
}

bool FactIndex::start(const Program& program, RankId rank) {
  forget();
  bool all_belong = true;
  for (const InstructionId id : program.ids_of(rank)) {
    for (const Action& action : program.actions(id)) {
      const bool belong = belongs(action, rank);
      if (belong) add(rank, action, id);
      all_belong = all_belong && belong;
    }
  }
  return all_belong;
}

InstructionId FactIndex::sparse_provider(RankId rank, const Fact& fact) const {
  const auto found = sparse_.find({rank, fact});
  return found == sparse_.end() ? InstructionId() : found->second;
}

}  // namespace ppsim
