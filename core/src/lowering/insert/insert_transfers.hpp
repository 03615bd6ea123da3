#pragma once

#include "lowering/cell_rows.hpp"
#include "lowering/insert/transfers.hpp"
#include "lowering/lines.hpp"
#include "ppsim/core/ir/tables.hpp"
#include "ppsim/core/lowering/earliest_times.hpp"

namespace ppsim::lowering {

/// The cells in the order of the walk; directly after each one its SENDs, on its own rank, and their RECVs,
/// on the receiving ranks. Stages of one rank hand over directly. What the rows order by `after` stays so.
class TransferInserter {
 public:
  /// With `keep_times` a line carries its time: a cell its start, a transfer the end of its producer.
  /// Requires: pipeline and rows outlive it.
  TransferInserter(const Pipeline& pipeline, const CellRows& rows, bool keep_times);

  /// Prefetches what `add` will read of a later item: cells of many ranks lie far from each other.
  void expect(const EarliestTimes::Item& item) const {
    const Cell* const cell = &rows_[item.rank][as_size(item.position)];
    __builtin_prefetch(cell);
    __builtin_prefetch(reinterpret_cast<const char*>(cell + 1) - 1);
  }
  /// The next item of the walk.
  void add(const EarliestTimes::Item& item);
  /// Requires: the whole walk was added.
  [[nodiscard]] LineRows finish() &&;

 private:
  const CellRows& rows_;
  TransferIndex transfers_;
  LineRows lines_;
  IdVector<RankId, LineWriter> writers_;
  IdVector<RankId, std::vector<std::int32_t>> line_of_cell_;  ///< for rows that order cells by `after`
};

/// The lines that a TransferInserter makes of the walk, added while the walk goes on. With costs lines carry
/// their times. Errors: those of the walk.
[[nodiscard]] Expected<LineRows> insert_transfers(const Pipeline& pipeline, const CellRows& rows,
                                                  const CostTable* costs);

}  // namespace ppsim::lowering
