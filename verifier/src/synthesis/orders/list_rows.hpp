#pragma once

#include <optional>
#include <vector>

#include "synthesis/orders/shop.hpp"

namespace ppsim::verifier::synthesis {

/// The rules by which a rank chooses among the actions that could be next.
struct ListRules {
  std::vector<Slot> keys;  ///< by task: of those that can start soon enough, the least key goes first
  Slot max_wait = 0;       ///< soon enough: at most so long after the first that could start
  std::vector<int> most;   ///< by stage: microbatches that may be live
};

/// Rules of which each prefers some phases, and the first or the last stages of a rank; and one by which the
/// microbatches follow each other steadily.
[[nodiscard]] std::vector<ListRules> simple_rules(const Shop& shop);
/// The last one of them.
[[nodiscard]] ListRules steady_rules(const Shop& shop);

/// Rows that run whatever can start first, within the room. Some rank can always go on: an F starts only
/// where all microbatches could still be finished, the oldest first. An order of F and I that the model keeps
/// is kept. Nothing where the room does not suffice for one microbatch after the other, or for the kept
/// order.
[[nodiscard]] std::optional<TaskRows> list_rows(const Shop& shop, const ListRules& rules);

}  // namespace ppsim::verifier::synthesis
