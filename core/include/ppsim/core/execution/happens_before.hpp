#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ppsim/core/execution/clock_plan.hpp"
#include "ppsim/core/execution/execution_graph.hpp"
#include "ppsim/core/ir/program.hpp"

namespace ppsim {

/// For the instructions of one rank: which of them are complete before another one starts, in every timing
/// that the execution model allows, through whatever chain over other ranks.
class HappensBefore {
 public:
  /// Requires: a plan of the graph.
  static HappensBefore of_rank(const Program& program, const ExecutionGraph& graph, const ClockPlan& plan,
                               RankId rank);

  /// True when the completion of `first` precedes the start of `second` in every timing.
  /// Requires: both on the rank.
  [[nodiscard]] bool completes_before_start(InstructionId first, InstructionId second) const;
  /// True when the completion of `first` precedes (or is) the completion of `second` in every timing.
  [[nodiscard]] bool completes_before_completion(InstructionId first, InstructionId second) const;

  /// Per queue track of the rank, how many of the track's instructions are complete for certain before `id`
  /// starts. Tracks: track_of(instruction); positions within the track: index_in_track(instruction).
  [[nodiscard]] std::span<const std::int32_t> complete_before_start(InstructionId id) const;
  [[nodiscard]] std::span<const std::int32_t> complete_before_completion(InstructionId id) const;
  [[nodiscard]] int tracks() const { return tracks_; }
  [[nodiscard]] int track_of(InstructionId id) const { return track_[offset(id)]; }
  [[nodiscard]] int index_in_track(InstructionId id) const { return index_in_track_[offset(id)]; }

 private:
  friend class HappensBeforeMaker;
  [[nodiscard]] std::size_t offset(InstructionId id) const { return as_size(id.value() - first_.value()); }
  [[nodiscard]] std::size_t row(InstructionId id) const { return offset(id) * as_size(tracks_); }

  InstructionId first_;
  int tracks_ = 0;
  std::vector<std::int32_t> track_;  ///< an instruction on several queues counts in its first
  std::vector<std::int32_t> index_in_track_;
  std::vector<std::int32_t> before_start_;  ///< [instruction][track]
  std::vector<std::int32_t> before_end_;    ///< [instruction][track]
};

}  // namespace ppsim
