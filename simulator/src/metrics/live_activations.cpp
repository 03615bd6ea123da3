#include <algorithm>
#include <limits>
#include <vector>

#include "ppsim/core/execution/rank_ranges.hpp"
#include "ppsim/core/ir/inference.hpp"
#include "ppsim/simulator/metrics/metrics.hpp"

namespace ppsim::simulator {
namespace {

constexpr Instant kNever{std::numeric_limits<Nanoseconds>::max(), 0};
constexpr Instant kNotYet{-1, 0};

/// When an activation of a rank begins to live, and when it ends.
struct Life {
  Instant from = kNever;  ///< the first start of its F
  Instant to = kNotYet;   ///< the last end of its B or W; of the F itself where the rank has no backward
};

/// The lives of a rank's activations: those of a stage stand together, in the order in which stages occur.
class Lives {
 public:
  explicit Lives(const Pipeline& pipeline)
      : cells_of_stage_(static_cast<std::size_t>(pipeline.microbatches()) *
                        static_cast<std::size_t>(pipeline.slices())),
        slices_(static_cast<std::size_t>(pipeline.slices())),
        first_cell_(static_cast<std::size_t>(pipeline.stages()), kNoCell) {}

  void collect(const Program& program, const TimedTrace& trace, RankId rank) {
    std::fill(first_cell_.begin(), first_cell_.end(), kNoCell);
    lives_.clear();
    const bool training = trains(program, rank);
    for (InstructionId id = program.first(rank); id < program.last(rank); id = next(id)) {
      const Span& span = trace.spans[id];
      for (const Action& action : program.actions(id)) {
        const bool forward = action.kind == OpKind::forward;
        if (forward) at(action).from = std::min(at(action).from, span.start);
        if (training ? gives_weight_gradient(action.kind) : forward)
          at(action).to = std::max(at(action).to, span.end);
      }
    }
  }

  /// The most that live at once. Within one round, ends come before starts.
  int peak() {
    starts_.clear();
    ends_.clear();
    for (const Life& life : lives_) {
      if (life.from != kNever) starts_.push_back(life.from);
      if (life.to != kNotYet) ends_.push_back(life.to);
    }
    std::sort(starts_.begin(), starts_.end());
    std::sort(ends_.begin(), ends_.end());
    int live = 0;
    int most = 0;
    std::size_t ended = 0;
    for (const Instant& start : starts_) {
      for (; ended < ends_.size() && ends_[ended] <= start; ++ended) --live;
      most = std::max(most, ++live);
    }
    return most;
  }

 private:
  static constexpr std::size_t kNoCell = std::numeric_limits<std::size_t>::max();

  Life& at(const Action& action) {
    std::size_t& first = first_cell_[action.stage().index()];
    if (first == kNoCell) {
      first = lives_.size();
      lives_.resize(lives_.size() + cells_of_stage_);
    }
    return lives_[first + action.mb().index() * slices_ + action.slice];
  }

  std::size_t cells_of_stage_;
  std::size_t slices_;
  std::vector<std::size_t> first_cell_;
  std::vector<Life> lives_;
  std::vector<Instant> starts_;
  std::vector<Instant> ends_;
};

}  // namespace

IdVector<RankId, int> peak_live_activations(const Program& program, const TimedTrace& trace) {
  const auto parts = by_rank_ranges(program, [&](const RankRange& ranks) {
    std::vector<int> part;
    Lives lives(program.pipeline());
    for (RankId rank = ranks.first; rank < ranks.last; rank = next(rank)) {
      lives.collect(program, trace, rank);
      part.push_back(lives.peak());
    }
    return part;
  });
  IdVector<RankId, int> peaks;
  for (const std::vector<int>& part : parts) {
    for (const int peak : part) peaks.push_back(peak);
  }
  return peaks;
}

}  // namespace ppsim::simulator
