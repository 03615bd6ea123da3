#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "action_costs.hpp"
#include "execution/fact_rules.hpp"
#include "execution/pass_numbers.hpp"
#include "fact_times.hpp"
#include "lowering/insert/transfers.hpp"
#include "lowering/step_rows.hpp"

namespace ppsim::lowering {

/// What the steps of some rows wait for and make true, and when. What a pass needs and provides is found
/// once for all microbatches where it has a number: places in the tables of facts move on by a microbatch.
class StepFacts {
 public:
  /// Requires: all of them outlive it.
  StepFacts(const Pipeline& pipeline, const StepRows& rows, ActionCosts& costs);

  /// Calls visit(place) for the facts that a step waits for.
  template <class Visit>
  void for_each_need(const Step& step, RankId rank, Visit&& visit) const {
    for (const Action& action : step.actions()) {
      if (const Pass* pass = pass_of(action)) {
        for (const Need& need : needs_of(*pass)) {
          const FactTimes::Place place = moved(need.first, action);
          if (!need.is_optional || times_.at(place) != FactTimes::kNever) visit(place);
        }
        continue;
      }
      for_each_need_by_rules(action, rank, [&](const Fact&, FactTimes::Place place) { visit(place); });
    }
  }
  /// The first fact that a step waits for and that does not hold yet.
  [[nodiscard]] std::optional<Fact> first_missing(const Step& step, RankId rank) const;

  /// Writes the time of everything that the completion of a step makes true, on other ranks too.
  void provide(const Step& step, RankId rank, Nanoseconds end) {
    for (const Action& action : step.actions()) {
      if (const Pass* pass = pass_of(action)) {
        for (const Provided& fact : provided_by(*pass))
          times_.set(moved(fact.first, action), checked_add(end, fact.delay));
      } else {
        provide(action, rank, end);
      }
    }
  }

  /// Negative where the fact does not hold yet.
  [[nodiscard]] Nanoseconds at(FactTimes::Place place) const { return times_.at(place); }

 private:
  struct Need {
    FactTimes::Place first;  ///< of microbatch 0
    bool is_optional = false;
  };
  struct Provided {
    FactTimes::Place first;  ///< of microbatch 0
    Nanoseconds delay = 0;   ///< after the end of the pass
  };
  /// Its parts of needs_ and provided_.
  struct Pass {
    std::uint32_t first_need = 0;
    std::uint32_t last_need = 0;
    std::uint32_t first_provided = 0;
    std::uint32_t last_provided = 0;
    bool is_known = false;
  };

  /// Null where the rules are asked.
  [[nodiscard]] const Pass* pass_of(const Action& action) const {
    if (!numbers_.has(action)) return nullptr;
    const Pass& pass = passes_[numbers_(action)];
    return pass.is_known ? &pass : nullptr;
  }
  [[nodiscard]] std::span<const Need> needs_of(const Pass& pass) const {
    return std::span(needs_).subspan(pass.first_need, pass.last_need - pass.first_need);
  }
  [[nodiscard]] std::span<const Provided> provided_by(const Pass& pass) const {
    return std::span(provided_).subspan(pass.first_provided, pass.last_provided - pass.first_provided);
  }
  [[nodiscard]] static FactTimes::Place moved(FactTimes::Place first, const Action& action) {
    return {first.kind, first.index + static_cast<std::uint32_t>(action.microbatch)};
  }

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
  void find(const Action& action, bool weights_are_read);

  const Pipeline& pipeline_;
  ActionCosts& costs_;
  TransferIndex transfers_;
  FactTimes times_;
  PassNumbers numbers_;
  std::vector<Pass> passes_;  ///< by number
  std::vector<Need> needs_;
  std::vector<Provided> provided_;
};

}  // namespace ppsim::lowering
