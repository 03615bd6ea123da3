#include "cell_facts.hpp"

namespace ppsim::lowering {
namespace {

/// Facts of a microbatch of a stage or an edge, in tables that have a place for each microbatch.
bool is_of_microbatch(FactKind kind) {
  return kind != FactKind::reduced && kind != FactKind::updated && kind != FactKind::collected;
}

/// Whether something waits for the gradients of a stage.
bool reads_weight_gradients(const CellRows& rows) {
  const auto reads = [](OpKind kind) {
    return info(kind).subject != Subject::stage;  // REDUCE_GRAD, OPT, a norm
  };
  for (const RankId rank : rows.rank_ids()) {
    if (rows.kinds(rank).any_of(reads)) return true;
  }
  return false;
}

}  // namespace

CellFacts::CellFacts(const Pipeline& pipeline, const CellRows& rows, ActionCosts& costs, Keep keep)
    : pipeline_(pipeline),
      costs_(costs),
      transfers_(pipeline),
      times_(pipeline),
      numbers_(pipeline),
      keep_(keep),
      weights_are_read_(reads_weight_gradients(rows)),
      passes_(numbers_.count()) {
  times_.announce(rows);
}

CellFacts::Pass CellFacts::found(const Action& action) {
  const RankId rank = pipeline_.rank_of(action.stage());
  const auto first_of = [&](const Fact& fact, RankId on) {
    const FactTimes::Place place = times_.place_of(fact, on);
    return FactTimes::Place{place.kind, place.index - static_cast<std::uint32_t>(action.microbatch)};
  };
  Pass pass{.first_need = static_cast<std::uint32_t>(needs_.size()),
            .first_provided = static_cast<std::uint32_t>(provided_.size()),
            .duration = costs_.of_cell(action),
            .is_found = true,
            .is_known = is_compute(action.kind)};
  for_each_required(pipeline_, action, rank, [&](const Fact& fact, bool optional) {
    if (!is_of_microbatch(fact.kind)) {
      pass.is_known = false;
    } else if (!optional || times_.has_any(fact.kind)) {
      const FactTimes::Place first = first_of(fact, rank);
      needs_.push_back({times_.from(first), first, optional, sweeps_from(first)});
    }
  });
  const auto add = [&](const Action& done, RankId on, Nanoseconds delay) {
    for_each_provided(pipeline_, done, on, [&](const Fact& fact) {
      if (fact.kind != FactKind::weight_done || weights_are_read_)
        provided_.push_back(
            {times_.from(first_of(fact, on)), delay, sweeps_from(first_of(fact, on)), on, on < rank});
    });
  };
  add(action, rank, 0);
  transfers_.for_each(action, [&](const Action& send, const Action& receive, RankId receiver) {
    add(receive, receiver, costs_.of_transfer(send));
  });
  pass.last_need = static_cast<std::uint32_t>(needs_.size());
  pass.last_provided = static_cast<std::uint32_t>(provided_.size());
  return pass;
}

std::optional<Fact> CellFacts::first_missing(const Cell& cell, RankId rank) const {
  std::optional<Fact> missing;
  for (const Action& action : cell.actions()) {
    for_each_need_by_rules(action, rank, [&](const Fact& fact, FactTimes::Place place) {
      if (!missing && times_.at(place) < 0) missing = fact;
    });
  }
  return missing;
}

void CellFacts::provide(const Action& action, RankId rank, Nanoseconds end) {
  const auto write = [&](const Action& done, RankId on, Nanoseconds time) {
    for_each_provided(pipeline_, done, on,
                      [&](const Fact& fact) PPSIM_IN_PLACE { times_.set(times_.place_of(fact, on), time); });
  };
  write(action, rank, end);
  transfers_.for_each(action, [&](const Action& send, const Action& receive, RankId receiver) {
    write(receive, receiver, checked_add(end, costs_.of_transfer(send)));
  });
}

}  // namespace ppsim::lowering
