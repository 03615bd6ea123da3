#pragma once

#include <array>
#include <vector>

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

  [[nodiscard]] Place place_of(const Fact& fact, RankId rank) const;
  [[nodiscard]] Nanoseconds at(Place place) const {
    const std::vector<Nanoseconds>& times = times_[place.kind];
    return times.empty() ? kNever : times[place.index];
  }
  void set(Place place, Nanoseconds time);

 private:
  [[nodiscard]] std::size_t size_of(FactKind kind) const;

  const Pipeline& pipeline_;
  EdgeNumbers edges_;
  std::size_t reductions_;  ///< numbers that a REDUCE_GRAD may have
  std::array<std::vector<Nanoseconds>, kFactKindCount> times_;
};

}  // namespace ppsim::lowering
