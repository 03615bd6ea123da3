#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "action_costs.hpp"
#include "execution/fact_rules.hpp"
#include "execution/pass_numbers.hpp"
#include "fact_times.hpp"
#include "lowering/cell_rows.hpp"
#include "lowering/insert/transfers.hpp"

namespace ppsim::lowering {

/// The facts that the cells of some rows wait for and make true, with their times. For a pass with a number
/// they are found once for all microbatches, which follow each other in the tables of facts.
class CellFacts {
 public:
  /// The facts that a pass waits for and makes true, alike for all microbatches of its route.
  struct Pass {
    std::uint32_t first_need = 0;
    std::uint32_t last_need = 0;
    std::uint32_t first_provided = 0;
    std::uint32_t last_provided = 0;
    Nanoseconds duration = 0;
    bool is_found = false;
    bool is_known = false;  ///< else the rules have to be asked
  };

  enum class Keep : std::uint8_t { times, times_and_sweeps };

  /// Requires: all of them outlive it.
  CellFacts(const Pipeline& pipeline, const CellRows& rows, ActionCosts& costs, Keep keep = Keep::times);

  /// Null where the rules have to be asked.
  [[nodiscard]] const Pass* pass_of(const Action& action) {
    if (!numbers_.has(action)) return nullptr;
    Pass& pass = passes_[numbers_(action)];
    if (!pass.is_found) pass = found(action);
    return pass.is_known ? &pass : nullptr;
  }
  /// The time of the last fact that a pass waits for: 0 where it waits for nothing, negative where one does
  /// not hold yet.
  [[nodiscard]] Nanoseconds ready_at(const Pass& pass, std::int32_t microbatch) const {
    Nanoseconds latest = 0;
    for (std::uint32_t i = pass.first_need; i < pass.last_need; ++i) {
      const Nanoseconds time = needs_[i].times[microbatch];
      if (time < 0 && !(needs_[i].is_optional && time == FactTimes::kNever)) return FactTimes::kNotYet;
      latest = std::max(latest, time);
    }
    return latest;
  }
  /// Writes the time of everything that the end of a pass makes true, on other ranks too.
  void provide(const Pass& pass, std::int32_t microbatch, Nanoseconds end) {
    for (std::uint32_t i = pass.first_provided; i < pass.last_provided; ++i)
      provided_[i].times[microbatch] = checked_add(end, provided_[i].delay);
  }

  /// The first sweep of the walk in which the rank of a pass sees all that the pass waits for.
  /// Requires: ready_at says that all of it holds; sweeps are kept.
  [[nodiscard]] std::int32_t sweep_of_needs(const Pass& pass, std::int32_t microbatch) const {
    std::int32_t latest = 0;
    for (std::uint32_t i = pass.first_need; i < pass.last_need; ++i)
      latest = std::max(latest, needs_[i].sweeps[microbatch]);
    return latest;
  }
  /// A pass retires in this sweep. Calls visit(rank) for those that see what it makes true; they see it in
  /// the next sweep where they have had their turn. Requires: sweeps are kept.
  template <class Visit>
  void show_from(const Pass& pass, std::int32_t microbatch, std::int32_t sweep, const Visit& visit) {
    for (std::uint32_t i = pass.first_provided; i < pass.last_provided; ++i) {
      provided_[i].sweeps[microbatch] = sweep + (provided_[i].is_seen_later ? 1 : 0);
      visit(provided_[i].rank);
    }
  }
  /// Prefetches the memory that the passes of the next microbatches will read and write: no processor
  /// predicts that by itself for many ranks.
  void expect_after(const Pass& pass, std::int32_t microbatch) const {
    constexpr std::int32_t kOfLine = 8;  // times in a line of the cache
    if (microbatch % kOfLine != 0) return;
    const std::int32_t next = microbatch + kOfLine;
    for (std::uint32_t i = pass.first_need; i < pass.last_need; ++i) {
      __builtin_prefetch(needs_[i].times + next);
      __builtin_prefetch(needs_[i].sweeps + next);
    }
    for (std::uint32_t i = pass.first_provided; i < pass.last_provided; ++i) {
      __builtin_prefetch(provided_[i].times + next, 1);
      __builtin_prefetch(provided_[i].sweeps + next, 1);
    }
  }

  /// Calls visit(place) for the facts that a cell waits for.
  template <class Visit>
  void for_each_need(const Cell& cell, RankId rank, Visit&& visit) {
    for (const Action& action : cell.actions()) {
      if (const Pass* pass = pass_of(action)) {
        for (std::uint32_t i = pass->first_need; i < pass->last_need; ++i) {
          const FactTimes::Place first = needs_[i].first;
          const FactTimes::Place place{first.kind,
                                       first.index + static_cast<std::uint32_t>(action.microbatch)};
          if (!needs_[i].is_optional || times_.at(place) != FactTimes::kNever) visit(place);
        }
        continue;
      }
      for_each_need_by_rules(action, rank, [&](const Fact&, FactTimes::Place place) { visit(place); });
    }
  }
  /// The first fact that a cell waits for and that does not hold yet.
  [[nodiscard]] std::optional<Fact> first_missing(const Cell& cell, RankId rank) const;
  /// Writes the time of everything that the completion of a cell makes true, on other ranks too.
  void provide(const Cell& cell, RankId rank, Nanoseconds end) {
    for (const Action& action : cell.actions()) {
      if (const Pass* pass = pass_of(action)) {
        provide(*pass, action.microbatch, end);
      } else {
        provide(action, rank, end);
      }
    }
  }

  /// Negative where the fact does not hold yet.
  [[nodiscard]] Nanoseconds at(FactTimes::Place place) const { return times_.at(place); }

 private:
  struct Need {
    const Nanoseconds* times;  ///< by microbatch
    FactTimes::Place first;    ///< of microbatch 0
    bool is_optional = false;
    const std::int32_t* sweeps = nullptr;  ///< by microbatch, where they are kept
  };
  struct Provided {
    Nanoseconds* times;              ///< by microbatch
    Nanoseconds delay = 0;           ///< after the end of the pass
    std::int32_t* sweeps = nullptr;  ///< by microbatch, where they are kept
    RankId rank;                     ///< that sees it
    bool is_seen_later = false;      ///< it stands before that of the pass
  };

  /// Calls visit(fact, place).
  template <class Visit>
  void for_each_need_by_rules(const Action& action, RankId rank, const Visit& visit) const {
    for_each_required(pipeline_, action, rank, [&](const Fact& fact, bool optional) PPSIM_IN_PLACE {
      if (optional && !times_.has_any(fact.kind)) return;
      const FactTimes::Place place = times_.place_of(fact, rank);
      if (!optional || times_.at(place) != FactTimes::kNever) visit(fact, place);
    });
  }
  void provide(const Action& action, RankId rank, Nanoseconds end);
  [[nodiscard]] Pass found(const Action& action);
  [[nodiscard]] std::int32_t* sweeps_from(FactTimes::Place place) {
    return keep_ == Keep::times ? nullptr : times_.sweeps_from(place);
  }

  const Pipeline& pipeline_;
  ActionCosts& costs_;
  TransferIndex transfers_;
  FactTimes times_;
  PassNumbers numbers_;
  Keep keep_;
  bool weights_are_read_;
  std::vector<Pass> passes_;  ///< by number
  std::vector<Need> needs_;
  std::vector<Provided> provided_;
};

}  // namespace ppsim::lowering
