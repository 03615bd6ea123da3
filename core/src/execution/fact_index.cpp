#include "fact_index.hpp"

#include <algorithm>

namespace ppsim {

FactIndex::FactIndex(const Pipeline& pipeline)
    : pipeline_(pipeline), rows_(static_cast<std::size_t>(pipeline.stages())) {
  for (std::size_t s = 0; s < rows_; ++s) row_of_.push_back(s);
}

FactIndex::FactIndex(const Pipeline& pipeline, OneRank)
    : pipeline_(pipeline), row_of_(static_cast<std::size_t>(pipeline.stages()), 0) {
  for (RankId rank(0); rank.value() < pipeline.ranks(); rank = next(rank)) {
    const std::span<const StageId> stages = pipeline.stages_of(rank);
    for (std::size_t i = 0; i < stages.size(); ++i) row_of_[stages[i]] = i;
    rows_ = std::max(rows_, stages.size());
  }
}

void FactIndex::start(const Program& program, RankId rank) {
  for (std::vector<InstructionId>& table : dense_) std::fill(table.begin(), table.end(), InstructionId());
  sparse_.clear();
  for (InstructionId id = program.first(rank); id < program.last(rank); id = next(id)) {
    for (const Action& action : program.actions(id)) {
      if (belongs_on(pipeline_, action, rank)) add(rank, action, id);
    }
  }
}

void FactIndex::add(RankId rank, const Action& action, InstructionId provider) {
  scratch_.clear();
  provided_facts(pipeline_, action, rank, scratch_);
  for (const Fact& fact : scratch_) add(rank, fact, provider);
}

bool FactIndex::is_dense(RankId rank, const Fact& fact) const {
  switch (fact.kind) {
    case FactKind::forward_done:
    case FactKind::backward_done:
    case FactKind::weight_done:
    case FactKind::recomputed:
    case FactKind::loaded:
    case FactKind::offloaded:
    case FactKind::reloaded:
      return true;
    case FactKind::received_forward:
    case FactKind::received_backward:
      return pipeline_.is_chain();
    case FactKind::activations_received:
      return pipeline_.rank_of(StageId(fact.subject)) == rank;
    case FactKind::activations_sent:
      return true;
    case FactKind::reduced:
    case FactKind::collected:
    case FactKind::updated:
      return false;
  }
  return false;
}

std::size_t FactIndex::cell(const Fact& fact) const {
  const auto microbatches = static_cast<std::size_t>(pipeline_.microbatches());
  const auto slices = static_cast<std::size_t>(pipeline_.slices());
  return (row_of_[StageId(fact.subject)] * microbatches + static_cast<std::size_t>(fact.microbatch)) *
             slices +
         static_cast<std::size_t>(fact.slice);
}

void FactIndex::add(RankId rank, const Fact& fact, InstructionId provider) {
  if (!is_dense(rank, fact)) {
    sparse_.try_emplace({rank, fact}, provider);
    return;
  }
  std::vector<InstructionId>& table = dense_[static_cast<std::size_t>(fact.kind)];
  if (table.empty()) {
    table.resize(rows_ * static_cast<std::size_t>(pipeline_.microbatches()) *
                 static_cast<std::size_t>(pipeline_.slices()));
  }
  InstructionId& entry = table[cell(fact)];
  if (!entry.valid()) entry = provider;
}

InstructionId FactIndex::provider(RankId rank, const Fact& fact) const {
  if (is_dense(rank, fact)) {
    const std::vector<InstructionId>& table = dense_[static_cast<std::size_t>(fact.kind)];
    return table.empty() ? InstructionId() : table[cell(fact)];
  }
  const auto found = sparse_.find({rank, fact});
  return found == sparse_.end() ? InstructionId() : found->second;
}

}  // namespace ppsim
