#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "ppsim/core/ir/schedule.hpp"
#include "ppsim/core/ir/tables.hpp"

namespace ppsim::schedules {

/// The actions of a rank of the V placement, in the order in which a microbatch passes it; then the W of the
/// two I.
enum class VKind : std::uint8_t { forward_down, forward_up, input_down, input_up, weight_down, weight_up };
inline constexpr int kVKinds = 6;

/// The order of a rank: kinds, each of which takes the microbatches from 0 on.
using VRow = std::vector<VKind>;
using VOrder = std::vector<VRow>;

/// The V placement on `ranks` ranks, its costs, and how many activations of one stage a rank may hold.
struct VProblem {
  struct Rank {
    std::array<Nanoseconds, kVKinds> duration = {};
    std::array<Nanoseconds, kVKinds> transfer = {};  ///< of what an F or I reads from another rank
  };
  std::vector<Rank> ranks;
  int microbatches = 1;
  int limit = 2;
};

/// Actions that may come before the next one of the order.
enum class ReorderPolicy : std::uint8_t {
  none,
  all,      ///< whatever is ready, the first of the order first
  but_last  ///< likewise, W only where nothing else is ready
};

struct VRun {
  VOrder order;
  bool complete = false;  ///< false where the limit or the order let no rank go on
  Nanoseconds span = 0;   ///< of the longest rank
  Nanoseconds makespan = 0;
  Nanoseconds per_microbatch = 0;  ///< in the middle of the run
};

/// Runs an order under the costs; a rank that is free starts what is ready and allowed, an F only if the
/// order that is left still keeps the limit. Order: O(actions log ranks), for F times those that it
/// overtakes.
[[nodiscard]] VRun run_order(const VProblem& problem, const VOrder& order, ReorderPolicy policy);

/// The order of a Schedule of the V placement.
[[nodiscard]] VOrder order_of(const Schedule& schedule);

/// Requires: every kind of a rank as often as there are microbatches.
[[nodiscard]] Expected<Schedule> schedule_of(const std::string& name, const VOrder& order, int microbatches);

}  // namespace ppsim::schedules
