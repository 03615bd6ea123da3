#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "ppsim/core/ir/capabilities.hpp"
#include "ppsim/core/ir/program.hpp"
#include "ppsim/core/memory/tensors.hpp"

namespace ppsim::test {

/// The rules that follow from the lists alone.
struct ListRules {
  bool ordered = true;  ///< whatever an instruction waits for is there and stands earlier in its list
  bool paired = true;   ///< every transfer has two ends, every collective all of its members
  bool matched = true;  ///< whatever meets names the same thing

  friend bool operator==(const ListRules&, const ListRules&) = default;
};
[[nodiscard]] ListRules read_lists(const Program& program);

/// The answers of all reachable states of a small Program, read off E1 to E9 independently: neither the
/// execution graph nor the naive executor is asked.
struct Reachable {
  ListRules lists;         ///< where something does not match, nothing is explored
  bool hangs = false;      ///< some state is not the end and has no successor
  std::size_t states = 0;  ///< visited
  /// Per rank, the sets of its tensors that are live in some state, without those within another set. Bit n
  /// is the n-th tensor of the rank in the table.
  IdVector<RankId, std::vector<std::uint64_t>> live;

  /// The most bytes of a rank's tensors that are live in one state.
  [[nodiscard]] Bytes most(const TensorTable& table, const std::vector<Bytes>& sizes, RankId rank) const;
};

/// Visits every state: computation and transfers in flight may end in any order, and what can start does so
/// at once. Only a place of a residency limit may be taken late, by whichever is ready then.
/// Returns: nothing when there are more than `limit` states, 128 events or 64 tensors on a rank.
[[nodiscard]] std::optional<Reachable> reachable_states(const Program& program,
                                                        const TransportCapabilities& capabilities,
                                                        const TensorTable& table, std::size_t limit);

}  // namespace ppsim::test
