#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lowering/order/after_edge.hpp"
#include "ppsim/core/execution/rank_ranges.hpp"
#include "ppsim/core/ir/schedule.hpp"

namespace ppsim::lowering {

/// The kinds of the actions in a row.
class RowKinds {
 public:
  void add(OpKind kind) { bits_ |= bit(kind); }

  /// Whether is_wanted(kind) holds of one.
  template <class IsWanted>
  [[nodiscard]] bool any_of(const IsWanted& is_wanted) const {
    for (std::size_t k = 0; k < kOpKindCount; ++k) {
      const auto kind = static_cast<OpKind>(k);
      if ((bits_ & bit(kind)) != 0 && is_wanted(kind)) return true;
    }
    return false;
  }

 private:
  static_assert(kOpKindCount <= 32);
  [[nodiscard]] static std::uint32_t bit(OpKind kind) { return 1U << static_cast<unsigned>(kind); }

  std::uint32_t bits_ = 0;
};

/// The rows of a Schedule, seen in place until a pass replaces one.
/// Requires: the Schedule outlives the rows.
class CellRows {
 public:
  explicit CellRows(const Schedule& schedule);
  CellRows(const CellRows&) = delete;
  CellRows& operator=(const CellRows&) = delete;

  [[nodiscard]] std::span<const Cell> operator[](RankId rank) const { return rows_[rank]; }
  [[nodiscard]] int ranks() const { return static_cast<int>(rows_.size()); }
  [[nodiscard]] IdRange<RankId> rank_ids() const { return {RankId(0), RankId(ranks())}; }
  /// Of all rows.
  [[nodiscard]] std::size_t cells() const;
  /// The ranges in which rows are worked on at the same time.
  [[nodiscard]] std::vector<RankRange> ranges() const { return rank_ranges(ranks(), cells()); }
  /// Found once, for who would have to look at every cell of a row.
  [[nodiscard]] const RowKinds& kinds(RankId rank) const { return kinds_[rank]; }
  /// Requires: no edges of the rank, which name places in its row.
  void replace(RankId rank, std::vector<Cell> cells);

  /// Which cells wait for which beyond their dependencies, by place in the row; ascending.
  [[nodiscard]] const std::vector<AfterEdge>& after(RankId rank) const { return after_[rank]; }
  void add_after(RankId rank, const std::vector<AfterEdge>& edges);
  void forget_after();

 private:
  IdVector<RankId, std::vector<Cell>> owned_;
  IdVector<RankId, std::span<const Cell>> rows_;
  IdVector<RankId, RowKinds> kinds_;
  IdVector<RankId, std::vector<AfterEdge>> after_;
};

}  // namespace ppsim::lowering
