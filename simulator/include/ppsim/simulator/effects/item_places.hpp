#pragma once

#include <vector>

#include "ppsim/core/execution/analyzed_program.hpp"
#include "ppsim/simulator/engine/compiled_program.hpp"

namespace ppsim::simulator {

/// Where an item of a compiled Program takes its time: on a rank, on the way from a rank to its peer, or,
/// both invalid, on several ranks or nowhere.
struct ItemPlace {
  RankId rank;
  RankId peer;
  friend bool operator==(const ItemPlace&, const ItemPlace&) = default;
};

/// Of every item.
/// Requires: `program` was compiled from `analyzed`.
[[nodiscard]] std::vector<ItemPlace> item_places(const CompiledProgram& program,
                                                 const AnalyzedProgram& analyzed);

/// The actions whose duration an item is; nothing for one that takes no time by itself.
[[nodiscard]] const CostClass* cost_class_of(const CompiledProgram& program, const CompiledItem& item);

}  // namespace ppsim::simulator

namespace ppsim {
using simulator::item_places;
using simulator::ItemPlace;
}  // namespace ppsim
