#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "fact_rules.hpp"
#include "pass_numbers.hpp"
#include "ppsim/core/ir/program.hpp"

namespace ppsim {

/// Which instruction (or step of a schedule) provides a fact: the first one of the rank in issue order.
class FactIndex {
 public:
  /// For one rank after another, in the memory that one takes: `start` and `forget` forget the rank before.
  struct OneRank {};
  FactIndex(const Pipeline& pipeline, OneRank);
  FactIndex(const FactIndex&) = delete;  ///< its parts refer to each other
  FactIndex& operator=(const FactIndex&) = delete;
  void forget();
  /// Knows the action as one of the rank. False where it does not belong there.
  /// Requires: called in issue order per rank.
  bool add(RankId rank, const Action& action, InstructionId provider) {
    if (!numbers_.has(action)) return add_by_rules(rank, action, provider);
    Pass& pass = passes_[numbers_(action)];
    if (pass.rank != rank || pass.peer != action.peer) {
      if (!add_by_rules(rank, action, provider)) return false;
      find(action, rank, pass);
      return true;
    }
    for (InstructionId* const provided : pass.provided) {
      if (provided != nullptr && !provided[action.microbatch].valid()) provided[action.microbatch] = provider;
    }
    return true;
  }

  /// Invalid when no action of the rank provides the fact.
  [[nodiscard]] PPSIM_IN_PLACE InstructionId provider(RankId rank, const Fact& fact) const {
    if (!is_dense(rank, fact)) return sparse_provider(rank, fact);
    const std::vector<InstructionId>& table = dense_[static_cast<std::size_t>(fact.kind)];
    return table.empty() ? InstructionId() : table[cell(fact)];
  }

  /// Calls visit(provider) for what an action waits for. False, without a call, where the rules have to be
  /// asked: nothing is known of the action, or it waits for something that no action provides.
  /// Requires: add of the action.
  template <class Visit>
  [[nodiscard]] bool for_each_provider(const Action& action, Visit&& visit) const {
    if (!numbers_.has(action) || !passes_[numbers_(action)].is_known) return false;
    std::array<InstructionId, kMaxNeeds> found;
    std::size_t count = 0;
    for (const Need& need : needs_of(action)) {
      found[count] = provider(need, action);
      if (found[count].valid()) {
        ++count;
      } else if (!need.is_optional) {
        return false;
      }
    }
    for (std::size_t i = 0; i < count; ++i) visit(found[i]);
    return true;
  }
  /// Whether what an action waits for stands before `at`, or comes from other ranks. False where that is not
  /// known.
  [[nodiscard]] bool has_needs_before(const Action& action, InstructionId at) const {
    if (!numbers_.has(action) || !passes_[numbers_(action)].is_known) return false;
    return std::ranges::all_of(needs_of(action), [&](const Need& need) {
      const InstructionId found = provider(need, action);
      return found.valid() ? found < at : need.is_optional || need.is_received;
    });
  }

 private:
  static constexpr std::size_t kMaxNeeds = 16;

  struct Need {
    const std::vector<InstructionId>* table;
    std::uint32_t first_cell = 0;  ///< of microbatch 0
    bool is_optional = false;
    bool is_received = false;
  };
  /// The part of a pass that all microbatches of a route share.
  struct Pass {
    RankId rank;  ///< where it was found to belong, to this peer, if all that it provides is in `provided`
    std::int32_t peer = -1;
    std::array<InstructionId*, 2> provided = {};  ///< cells of microbatch 0 in the dense tables, or null
    std::uint32_t first = 0;                      ///< of needs_
    std::uint32_t count = 0;
    bool is_found = false;
    bool is_known = false;  ///< all that it waits for is in needs_
  };
  void find(const Action& action, RankId rank, Pass& pass);
  void find_needs(const Action& action, RankId rank, Pass& pass);
  [[nodiscard]] std::span<const Need> needs_of(const Action& action) const {
    const Pass& pass = passes_[numbers_(action)];
    return std::span(needs_).subspan(pass.first, pass.count);
  }
  [[nodiscard]] static InstructionId provider(const Need& need, const Action& action) {
    return need.table->empty() ? InstructionId() : (*need.table)[need.first_cell + action.mb().index()];
  }

  /// belongs_on. Where an action of a stage and a microbatch may stand is a matter of its kind, stage, peer
  /// and route, and mostly what it was for the one before.
  [[nodiscard]] bool belongs(const Action& action, RankId rank) {
    const OpInfo& kind = info(action.kind);
    if (kind.subject != Subject::stage || kind.microbatch != MicrobatchUse::required)
      return belongs_on(pipeline_, action, rank);
    Belonging& recent =
        recent_[static_cast<std::size_t>(action.kind) * first_cell_.size() + action.stage().index()];
    const Belonging asked{rank, pipeline_.route_of(action.mb()), action.peer};
    if (recent == asked) return true;
    if (!belongs_on(pipeline_, action, rank)) return false;
    recent = asked;
    return true;
  }
  bool add_by_rules(RankId rank, const Action& action, InstructionId provider) {
    if (!belongs(action, rank)) return false;
    for_each_provided(pipeline_, action, rank,
                      [&](const Fact& fact) PPSIM_IN_PLACE { add(rank, fact, provider); });
    return true;
  }

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
  [[nodiscard]] PPSIM_IN_PLACE std::size_t cell(const Fact& fact) const {
    return first_cell_[StageId(fact.subject)] + as_size(fact.microbatch) * slices_ + as_size(fact.slice);
  }
  PPSIM_IN_PLACE void add(RankId rank, const Fact& fact, InstructionId provider) {
    if (!is_dense(rank, fact)) {
      sparse_.try_emplace({rank, fact}, provider);
      return;
    }
    std::vector<InstructionId>& table = dense_[static_cast<std::size_t>(fact.kind)];
    if (table.empty()) table.resize(cells_);
    InstructionId& entry = table[cell(fact)];
    if (!entry.valid()) entry = provider;
  }
  [[nodiscard]] InstructionId sparse_provider(RankId rank, const Fact& fact) const;

  /// The last thing that was found to belong on a rank.
  struct Belonging {
    RankId rank;
    RouteId route;
    std::int32_t peer = -1;
    friend bool operator==(const Belonging&, const Belonging&) = default;
  };

  const Pipeline& pipeline_;
  std::vector<Belonging> recent_;              ///< by kind and stage
  IdVector<StageId, std::size_t> first_cell_;  ///< in the dense tables, which the stages of a rank share
  std::size_t cells_ = 0;                      ///< of a dense table
  std::size_t slices_;
  PassNumbers numbers_;
  std::vector<Pass> passes_;  ///< by number
  std::vector<Need> needs_;
  std::array<std::vector<InstructionId>, kFactKindCount> dense_;
  std::map<std::pair<RankId, Fact>, InstructionId> sparse_;
};

}  // namespace ppsim
