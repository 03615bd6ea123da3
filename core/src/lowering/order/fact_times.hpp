#pragma once

#include <array>
#include <vector>

#include "lowering/cell_rows.hpp"
#include "lowering/insert/edge_numbers.hpp"
#include "ppsim/core/execution/facts.hpp"
#include "ppsim/core/ir/units.hpp"

namespace ppsim::lowering {

/// When each fact of each rank holds, in one dense table per kind of fact.
class FactTimes {
 public:
  static constexpr Nanoseconds kNever = -2;   ///< nothing provides the fact
  static constexpr Nanoseconds kNotYet = -1;  ///< something will

  /// Where a fact stands in the tables.
  struct Place {
    std::uint32_t kind = 0;
    std::uint32_t index = 0;
  };

  explicit FactTimes(const Pipeline& pipeline);

  /// Sets kNotYet for what the rows provide and something waits for only where it occurs.
  void announce(const CellRows& rows);

  [[nodiscard]] Place place_of(const Fact& fact, RankId rank) const {
    const auto subject = as_size(fact.subject);
    switch (fact.kind) {
      case FactKind::forward_done:
      case FactKind::backward_done:
      case FactKind::weight_done:
      case FactKind::recomputed:
      case FactKind::loaded:
      case FactKind::offloaded:
      case FactKind::reloaded:
      case FactKind::activations_sent:
        return cell(fact, subject);
      case FactKind::received_forward:
        return cell(fact, edges_(StageId(fact.peer), StageId(fact.subject)));
      case FactKind::received_backward:
        return cell(fact, edges_(StageId(fact.subject), StageId(fact.peer)));
      case FactKind::activations_received:
        return cell(fact, 2 * subject + (pipeline_.rank_of(StageId(fact.subject)) == rank ? 1 : 0));
      case FactKind::reduced:
      case FactKind::updated:
      case FactKind::collected:
        return rare_place_of(fact, rank);
    }
    return {};
  }
  /// Whether a fact of this kind was ever set.
  [[nodiscard]] bool has_any(FactKind kind) const { return !times_[static_cast<std::size_t>(kind)].empty(); }
  [[nodiscard]] Nanoseconds at(Place place) const {
    const std::vector<Nanoseconds>& times = times_[place.kind];
    return times.empty() ? kNever : times[place.index];
  }
  void set(Place place, Nanoseconds time) { *from(place) = time; }
  /// The times of a fact and of those that follow it in its table, as long as this lives.
  [[nodiscard]] Nanoseconds* from(Place place) {
    std::vector<Nanoseconds>& times = times_[place.kind];
    if (times.empty()) make_table(place.kind);
    return times.data() + place.index;
  }
  /// The first sweeps of the walk in which ranks see a fact and those that follow it in its table, for those
  /// who write them there; 0 until then. As long as this lives.
  [[nodiscard]] std::int32_t* sweeps_from(Place place);

 private:
  [[nodiscard]] static Place place(FactKind kind, std::size_t index) {
    return {static_cast<std::uint32_t>(kind), static_cast<std::uint32_t>(index)};
  }
  [[nodiscard]] Place cell(const Fact& fact, std::size_t row) const {
    return place(fact.kind, row * cells_ + as_size(fact.microbatch) * slices_ + as_size(fact.slice));
  }
  /// Facts of an update or a collective have no slice and perhaps no microbatch.
  [[nodiscard]] Place rare_place_of(const Fact& fact, RankId rank) const;
  void make_table(std::uint32_t kind);
  [[nodiscard]] std::size_t size_of(FactKind kind) const;

  const Pipeline& pipeline_;
  EdgeNumbers edges_;
  std::size_t slices_;
  std::size_t cells_;       ///< microbatches and slices of a stage
  std::size_t reductions_;  ///< numbers that a REDUCE_GRAD may have
  std::array<std::vector<Nanoseconds>, kFactKindCount> times_;
  std::array<std::vector<std::int32_t>, kFactKindCount> sweeps_;
};

}  // namespace ppsim::lowering
