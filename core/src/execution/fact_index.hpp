#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "ppsim/core/execution/facts.hpp"
#include "ppsim/core/ir/program.hpp"

namespace ppsim {

/// Which instruction (or step of a schedule) provides a fact: the first one of the rank in issue order.
class FactIndex {
 public:
  /// For all ranks at once. Requires: `pipeline` outlives the index.
  explicit FactIndex(const Pipeline& pipeline);

  /// For one rank after another, in the memory that one takes: `start` forgets the rank before.
  struct OneRank {};
  FactIndex(const Pipeline& pipeline, OneRank);
  void start(const Program& program, RankId rank);

  /// Requires: belongs_on(pipeline, action, rank); called in issue order per rank.
  void add(RankId rank, const Action& action, InstructionId provider);

  /// Invalid when no action of the rank provides the fact.
  [[nodiscard]] InstructionId provider(RankId rank, const Fact& fact) const;

 private:
  /// Facts about one stage live on the stage's rank alone, so a dense table per kind is enough.
  [[nodiscard]] bool is_dense(RankId rank, const Fact& fact) const;
  [[nodiscard]] std::size_t cell(const Fact& fact) const;
  void add(RankId rank, const Fact& fact, InstructionId provider);

  const Pipeline& pipeline_;
  IdVector<StageId, std::size_t> row_of_;  ///< of the dense tables
  std::size_t rows_ = 0;
  std::array<std::vector<InstructionId>, kFactKindCount> dense_;
  std::map<std::pair<RankId, Fact>, InstructionId> sparse_;
  std::vector<Fact> scratch_;
};

}  // namespace ppsim
