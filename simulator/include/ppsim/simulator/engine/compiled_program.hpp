#pragma once

#include <cstdint>
#include <vector>

#include "ppsim/core/execution/analyzed_program.hpp"
#include "ppsim/core/ir/program.hpp"
#include "ppsim/core/ir/tables.hpp"
#include "ppsim/simulator/engine/stuck.hpp"

namespace ppsim::simulator {

/// One operation of a compiled Program. It ends at max(end of `first`, end of `second`) plus its duration.
struct CompiledItem {
  std::uint32_t first = 0;
  std::uint32_t second = 0;
  std::uint32_t duration = 0;  ///< index into BoundCosts::durations
  friend bool operator==(const CompiledItem&, const CompiledItem&) = default;
};
static_assert(sizeof(CompiledItem) == 12);

/// The items of a rank's compute queue, for its span and its busy time.
struct ComputeRow {
  std::uint32_t first_item = 0;  ///< 0: the rank computes nothing
  std::uint32_t last_item = 0;
  std::uint32_t first_count = 0;  ///< into CompiledProgram::duration_counts
  std::uint32_t count_count = 0;
  friend bool operator==(const ComputeRow&, const ComputeRow&) = default;
};

/// How many compute actions of a rank have one duration.
struct DurationCount {
  std::uint32_t duration = 0;
  std::uint32_t count = 0;
  friend bool operator==(const DurationCount&, const DurationCount&) = default;
};

/// A Program without residency limit as straight-line arithmetic: its times are longest paths, so one pass
/// over the items, each of which reads two earlier ones, computes them all. A rendezvous is one item for both
/// of its ends; item 0 is the step's start.
///
/// Items are sorted by depth, so neighbours are independent of each other and what they read was written
/// shortly before.
struct CompiledProgram {
  static constexpr std::uint32_t kJoin =
      0;  ///< duration of an item that only takes the later of its two operands
  static constexpr std::uint32_t kInstant =
      1;  ///< duration of a receipt of what has arrived: no time, one delta cycle
  static constexpr std::uint32_t kFirstBound = 2;

  std::vector<CompiledItem> items;
  std::vector<CostClass> cost_classes;     ///< of the durations from kFirstBound
  std::vector<std::uint64_t> item_counts;  ///< items per duration
  std::vector<std::uint32_t> end_item;     ///< per instruction: the item at whose end it completes
  std::vector<std::uint32_t> flow_items;   ///< per message, then per match: the item that it is
  std::vector<std::uint32_t> last_items;   ///< of the last instruction of every queue, ascending
  IdVector<RankId, ComputeRow> rows;
  std::vector<DurationCount> duration_counts;

  friend bool operator==(const CompiledProgram&, const CompiledProgram&) = default;
};

/// Compiles a Program in time linear in it; its times count the waits of the timed graph.
/// Requires: no residency limit.
/// Errors: why the Program cannot finish with the waits that may occur.
[[nodiscard]] tl::expected<CompiledProgram, Stuck> compile(const AnalyzedProgram& analyzed);

}  // namespace ppsim::simulator

namespace ppsim {
using simulator::compile;
using simulator::CompiledItem;
using simulator::CompiledProgram;
using simulator::ComputeRow;
using simulator::DurationCount;
}  // namespace ppsim
