#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ppsim/core/execution/execution_graph.hpp"
#include "rank_parts.hpp"

namespace ppsim {

/// Per track of RankParts, how far it has come for certain.
using TrackClock = std::span<const std::int32_t>;

/// TrackClocks of instructions, messages or meetings. They lie in the order in which they are made, so that
/// those that are in use lie together.
class TrackClocks {
 public:
  TrackClocks(std::size_t rows, int tracks)
      : tracks_(static_cast<std::size_t>(tracks)),
        place_(rows, kNowhere),
        counts_(std::make_unique_for_overwrite<std::int32_t[]>(rows * tracks_)) {}

  [[nodiscard]] bool has(std::size_t row) const { return place_[row] != kNowhere; }
  /// Requires: has(row).
  [[nodiscard]] std::span<std::int32_t> operator[](std::size_t row) {
    return {counts_.get() + place_[row] * tracks_, tracks_};
  }
  /// A row of zeros.
  std::span<std::int32_t> make(std::size_t row);

 private:
  static constexpr std::size_t kNowhere = ~std::size_t{0};
  std::size_t tracks_;
  std::size_t made_ = 0;
  std::vector<std::size_t> place_;
  std::unique_ptr<std::int32_t[]> counts_;  ///< no vector: rows are filled when they are made
};

/// Carries the clocks of a rank's tracks through a run order of the whole Program.
///
/// The clock of an instruction is that of its start until it completes, and that of its completion from then
/// on. What its partners need of the start is taken into the clock of the message or the meeting, at the
/// latest when the first of the ends completes. Messages and meetings have clocks of their own because their
/// ends are over together: who knows that a RECV is complete knows that its SEND's message is out.
class TrackPass {
 public:
  TrackPass(const ExecutionGraph& graph, const RankParts& parts);

  TrackClock start(InstructionId id);
  /// `own`: the instruction's parts where it is of the rank, else none.
  TrackClock complete(InstructionId id, std::span<const RankParts::Part> own);

 private:
  TrackClock end(std::size_t message, InstructionId id);
  TrackClock sent(std::size_t message);
  TrackClock received(std::size_t message);
  TrackClock met(std::size_t meeting);
  void merge(std::span<std::int32_t> into, InstructionId id);

  const ExecutionGraph& graph_;
  const RankParts& parts_;
  TrackClocks instruction_;
  TrackClocks sent_;
  TrackClocks received_;
  TrackClocks met_;
};

}  // namespace ppsim
