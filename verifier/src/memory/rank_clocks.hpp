#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "limits.hpp"
#include "ppsim/core/execution/analyzed_program.hpp"
#include "ppsim/core/execution/clock_plan.hpp"

namespace ppsim::verifier {

/// One elementary completion of a rank: of a compute or copy instruction, of a message that the rank sends or
/// that is sent to it, or of its membership in a collective. Those of a track happen one after another.
struct Point {
  std::int32_t track = -1;
  std::int32_t index = 0;
};

/// True when all of `a` is in `b`.
[[nodiscard]] bool is_within(ClockView a, ClockView b);

/// When a RECV completes, with credits, whose message is there.
enum class Receipts : std::uint8_t {
  at_once,  ///< as E5 has it: its point is the message's arrival, which may come before the RECV starts
  lag,  ///< some time later, as in HappensBefore and where sends are eager; elsewhere more may happen then
        ///< than can
};

/// The parts of a rank's clocks.
struct ClockRequest {
  const AnalyzedProgram& analyzed;
  const ClockPlan& plan;  ///< of its guaranteed_graph()
  RankId rank;
  Receipts receipts = Receipts::at_once;
};

class RankPoints;

/// For one rank: which of its elementary completions must precede which others, and each start, in every
/// timing and through whatever chain over other ranks.
///
/// Finer than HappensBefore, which speaks of whole instructions: a group completes with the last of its
/// messages, so several unordered events free what it sends. A message completes at once for both ends
/// (rendezvous), so a rank whose SEND was received knows that it is complete.
class RankClocks {
 public:
  /// Errors: throws LimitReached.
  RankClocks(const ClockRequest& request, const Limits& limits);

  [[nodiscard]] RankId rank() const { return rank_; }
  [[nodiscard]] std::size_t tracks() const { return tracks_; }
  /// The instructions that must be complete before one of the rank starts; it starts as soon as they are.
  [[nodiscard]] ClockView before_start(InstructionId id) const {
    return row(before_start_, as_size(id.value() - first_.value()));
  }
  /// The elementary completions which together complete an instruction of the rank once it has started.
  [[nodiscard]] std::span<const Point> points_of(InstructionId id) const {
    const auto i = as_size(id.value() - first_.value());
    return {points_.data() + point_begin_[i], point_begin_[i + 1] - point_begin_[i]};
  }
  /// A point and all that must precede it.
  [[nodiscard]] ClockView before(Point point) const {
    return row(before_point_, track_begin_[as_size(point.track)] + as_size(point.index));
  }

 private:
  friend class RankPoints;
  [[nodiscard]] ClockView row(const std::vector<std::int32_t>& rows, std::size_t index) const {
    return {rows.data() + index * tracks_, tracks_};
  }

  [[nodiscard]] std::int32_t* row_of(Point point);
  /// Null where the event is none of the rank's.
  [[nodiscard]] std::int32_t* row_of(const RankPoints& points, ClockEvent event, std::uint32_t subject);

  RankId rank_;
  InstructionId first_;
  std::size_t tracks_ = 0;
  std::vector<std::size_t> point_begin_;
  std::vector<Point> points_;
  std::vector<std::size_t> track_begin_;
  std::vector<std::int32_t> before_start_;  ///< [instruction of the rank][track]
  std::vector<std::int32_t> before_point_;  ///< [point, track by track][track]
};

}  // namespace ppsim::verifier
