#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "fact_rules.hpp"
#include "ppsim/core/ir/program.hpp"

namespace ppsim {

/// Which instruction (or step of a schedule) provides a fact: the first one of the rank in issue order.
class FactIndex {
 public:
  /// For one rank after another, in the memory that one takes: `start` and `forget` forget the rank before.
  struct OneRank {};
  FactIndex(const Pipeline& pipeline, OneRank);
  void forget();
  /// Returns: whether all actions of the rank belong there.
  bool start(const Program& program, RankId rank);

  /// Requires: belongs_on(pipeline, action, rank); called in issue order per rank.
  void add(RankId rank, const Action& action, InstructionId provider) {
    for_each_provided(pipeline_, action, rank,
                      [&](const Fact& fact) PPSIM_IN_PLACE { add(rank, fact, provider); });
  }

  /// Invalid when no action of the rank provides the fact.
  [[nodiscard]] PPSIM_IN_PLACE InstructionId provider(RankId rank, const Fact& fact) const {
    if (!is_dense(rank, fact)) return sparse_provider(rank, fact);
    const std::vector<InstructionId>& table = dense_[static_cast<std::size_t>(fact.kind)];
    return table.empty() ? InstructionId() : table[cell(fact)];
  }

 private:
  /// Facts about one stage live on the stage's rank alone, so a dense table per kind is enough. Callers know
  /// the kind when they are compiled, so that nothing is left of the switch where this is inlined.
  [[nodiscard]] PPSIM_IN_PLACE bool is_dense(RankId rank, const Fact& fact) const {
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
  [[nodiscard]] std::size_t cell(const Fact& fact) const {
    return (row_of_[StageId(fact.subject)] * microbatches_ + static_cast<std::size_t>(fact.microbatch)) *
               slices_ +
           static_cast<std::size_t>(fact.slice);
  }
  PPSIM_IN_PLACE void add(RankId rank, const Fact& fact, InstructionId provider) {
    if (!is_dense(rank, fact)) {
      sparse_.try_emplace({rank, fact}, provider);
      return;
    }
    std::vector<InstructionId>& table = dense_[static_cast<std::size_t>(fact.kind)];
    if (table.empty()) table.resize(rows_ * microbatches_ * slices_);
    InstructionId& entry = table[cell(fact)];
    if (!entry.valid()) entry = provider;
  }
  [[nodiscard]] InstructionId sparse_provider(RankId rank, const Fact& fact) const;
  [[nodiscard]] bool belongs(const Action& action, RankId rank);

  /// What was found to belong on a rank last.
  struct Belonging {
    RankId rank;
    RouteId route;
    std::int32_t peer = -1;
    friend bool operator==(const Belonging&, const Belonging&) = default;
  };

  const Pipeline& pipeline_;
  std::vector<Belonging> recent_;          ///< by kind and stage
  IdVector<StageId, std::size_t> row_of_;  ///< of the dense tables
  std::size_t rows_ = 0;
  std::size_t microbatches_;
  std::size_t slices_;
  std::array<std::vector<InstructionId>, kFactKindCount> dense_;
  std::map<std::pair<RankId, Fact>, InstructionId> sparse_;
};

}  // namespace ppsim
