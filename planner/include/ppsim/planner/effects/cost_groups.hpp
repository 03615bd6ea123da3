#pragma once

#include <compare>
#include <cstdint>
#include <ostream>
#include <string_view>
#include <vector>

#include "ppsim/core/ir/tables.hpp"
#include "ppsim/planner/evaluate.hpp"
#include "ppsim/simulator/effects/item_places.hpp"

namespace ppsim::planner {

/// Costs that change together, of a Program. As text: `F`, `SEND_B`, `compute`, `transfers`, `collectives`,
/// `rank:3`, `stage:2`, `link:0-1`, `F:2`, `SEND_F:0-1`, `F:2.1` for a slice.
struct CostGroup {
  enum class What : std::uint8_t {
    kind,         ///< all actions of a kind
    compute,      ///< all computation
    transfers,    ///< all messages
    collectives,  ///< all collectives
    rank,         ///< computation and copies of rank `first`
    stage,        ///< computation and copies of stage `first`; an overlapped pair is its forward's
    link,         ///< messages between ranks `first` and `second`, either way
    cost_class,   ///< one class of costs; -1 in its key matches anything
  };
  What what = What::kind;
  CostClass key = {};  ///< of a kind, its kind; of a rank, stage or link, its numbers
  friend auto operator<=>(const CostGroup&, const CostGroup&) = default;
};
std::ostream& operator<<(std::ostream& out, const CostGroup& group);

/// Errors: bad_argument for anything else than a text as above.
[[nodiscard]] Expected<CostGroup> cost_group_from_text(std::string_view text);

/// Whether costs of a class that take their time at a place belong to a group.
[[nodiscard]] bool contains(const CostGroup& group, const CostClass& key, const ItemPlace& place);

/// How the costs of a Program fall into groups. By kind there are also compute, transfers and collectives.
enum class CostGrouping : std::uint8_t { kind, rank, stage, link, cost_class };
/// "kind", "rank", "stage", "link" or "class". Errors: bad_argument.
[[nodiscard]] Expected<CostGrouping> cost_grouping_from_name(std::string_view name);

/// A step as longest paths: what each item of its compiled Program takes, and where. What follows the
/// pipeline, where the costs know of it, is at the end, as items of no group.
struct PricedItems {
  CompiledProgram program;
  std::vector<Nanoseconds> costs;
  std::vector<ItemPlace> places;
  std::vector<std::uint32_t> pipeline_ends;  ///< the last items of the pipeline: the step may end later

  [[nodiscard]] bool is_in(const CostGroup& group, std::size_t item) const;
  /// Those that occur. Order: ascending.
  [[nodiscard]] std::vector<CostGroup> groups(CostGrouping grouping) const;
};

/// Errors: bad_argument where times are no longest paths: under a residency limit, and where actions slow
/// each other down; those of binding costs.
[[nodiscard]] Expected<PricedItems> priced_items(const SimulatedStep& step);
/// The same under other costs.
[[nodiscard]] Expected<PricedItems> priced_items(const SimulatedStep& step, const CostBinding& costs);

}  // namespace ppsim::planner

namespace ppsim {
using planner::cost_group_from_text;
using planner::cost_grouping_from_name;
using planner::CostGroup;
using planner::CostGrouping;
}  // namespace ppsim
