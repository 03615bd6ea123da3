#include "fact_index.hpp"

#include <algorithm>

namespace ppsim {

FactIndex::FactIndex(const Program& program) : pipeline_(program.pipeline()) {
  for (int r = 0; r < pipeline_.ranks(); ++r) {
    const RankId rank(r);
    for (auto id = program.first(rank); id < program.last(rank); id = InstructionId(id.value() + 1)) {
      for (const Action& action : program.actions(id)) {
        if (belongs_on(pipeline_, action, rank)) add(rank, action, id);
      }
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
  return (static_cast<std::size_t>(fact.subject) * microbatches + static_cast<std::size_t>(fact.microbatch)) *
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
    table.resize(static_cast<std::size_t>(pipeline_.stages()) *
                 static_cast<std::size_t>(pipeline_.microbatches()) *
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
