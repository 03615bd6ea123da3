#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ppsim/simulator/engine/simulate.hpp"

namespace ppsim::simulator {

/// How many cost vectors the batch engine runs at once: a lane for each.
inline constexpr std::size_t kLanes = 8;

/// A time or a duration in every lane.
struct alignas(64) LaneTimes {
  std::array<Nanoseconds, kLanes> of = {};
  friend bool operator==(const LaneTimes&, const LaneTimes&) = default;
};

/// A compiled Program, laid out for many cost vectors at once. Its operations are the items of the Program in
/// their order; their ends lie in slots, and a slot is used again when everything that reads it is over. Few
/// slots are in use at a time, so that all lanes of them stay in the nearest caches.
class BatchProgram {
 public:
  explicit BatchProgram(const CompiledProgram& program);

  /// Memory that `simulate` reuses from call to call.
  struct Scratch {
    std::vector<LaneTimes> ends;
  };

  /// The times of the first `times.size()` lanes: in each of them what ppsim::simulate gives for its
  /// durations, bit by bit.
  /// Requires: at most kLanes times; durations for kJoin, kInstant and every cost class, in each lane such as
  /// bind_costs gives.
  void simulate(std::span<const LaneTimes> durations, Scratch& scratch, std::span<StepTimes> times) const;

 private:
  /// It ends at max(slot `first`, slot `second`) plus its duration. All are offsets in bytes, which spares
  /// the inner loop a third of its instructions.
  struct Item {
    std::uint32_t first;
    std::uint32_t second;
    std::uint32_t end;
    std::uint32_t duration;
  };
  /// The compute queue of a rank.
  struct Row {
    std::uint32_t first_slot = 0;  ///< 0: the rank computes nothing
    std::uint32_t last_slot = 0;
    std::uint32_t first_duration = 0;
    std::uint32_t first_count = 0;  ///< into duration_counts_
    std::uint32_t count_count = 0;
  };

  void run(std::span<const LaneTimes> durations, LaneTimes* ends) const;
  [[nodiscard]] RankTimes rank_times(const Row& row, std::size_t lane, std::span<const LaneTimes> durations,
                                     const std::vector<LaneTimes>& ends) const;

  std::vector<Item> items_;
  std::size_t durations_ = 0;
  std::size_t slots_ = 1;  ///< slot 0 is the step's start
  std::vector<std::uint32_t> last_slots_;
  IdVector<RankId, Row> rows_;
  std::vector<DurationCount> duration_counts_;
};

/// The times of every cost vector, kLanes at a time.
/// Order: that of `costs`. Requires: all were bound to the Program of `program`.
[[nodiscard]] std::vector<StepTimes> simulate_batch(const BatchProgram& program,
                                                    std::span<const BoundCosts> costs,
                                                    BatchProgram::Scratch& scratch);

}  // namespace ppsim::simulator

namespace ppsim {
using simulator::BatchProgram;
using simulator::kLanes;
using simulator::LaneTimes;
using simulator::simulate_batch;
}  // namespace ppsim
