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

  /// The most that live at once. Within one round, ends come before starts.
  int peak(const Program& program, const TimedTrace& trace, RankId rank) {
    std::fill(first_cell_.begin(), first_cell_.end(), kNoCell);
    lives_.clear();
    collect(program, trace, rank);
    starts_.clear();
    ends_.clear();
    list_in_issue_order(trace);
    sort(starts_);
    sort(ends_);
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

  /// An action that begins a life, or may end one.
  struct Pass {
    std::size_t cell;
    InstructionId id;
    bool begins;
    bool ends;
  };

  void collect(const Program& program, const TimedTrace& trace, RankId rank) {
    passes_.clear();
    const bool training = trains(program, rank);
    for (const InstructionId id : program.ids_of(rank)) {
      for (const Action& action : program.actions(id)) {
        const bool forward = action.kind == OpKind::forward;
        const bool ends = training ? gives_weight_gradient(action.kind) : forward;
        if (!forward && !ends) continue;
        passes_.push_back({cell_of(action), id, forward, ends});
        Life& life = lives_[passes_.back().cell];
        const Span& span = trace.spans[id];
        if (forward) life.from = std::min(life.from, span.start);
        if (ends) life.to = std::max(life.to, span.end);
      }
    }
  }

  /// Lists each start and end once. The passes of a rank run in issue order, so that both are sorted but
  /// where an action occurs twice.
  void list_in_issue_order(const TimedTrace& trace) {
    for (const Pass& pass : passes_) {
      Life& life = lives_[pass.cell];
      const Span& span = trace.spans[pass.id];
      if (pass.begins && life.from == span.start) {
        starts_.push_back(life.from);
        life.from = kNever;
      }
      if (pass.ends && life.to == span.end) {
        ends_.push_back(life.to);
        life.to = kNotYet;
      }
    }
  }

  static void sort(std::vector<Instant>& times) {
    if (!std::is_sorted(times.begin(), times.end())) std::sort(times.begin(), times.end());
  }

  std::size_t cell_of(const Action& action) {
    std::size_t& first = first_cell_[action.stage().index()];
    if (first == kNoCell) {
      first = lives_.size();
      lives_.resize(lives_.size() + cells_of_stage_);
    }
    return first + action.mb().index() * slices_ + action.slice;
  }

  std::size_t cells_of_stage_;
  std::size_t slices_;
  std::vector<std::size_t> first_cell_;
  std::vector<Life> lives_;
  std::vector<Pass> passes_;  ///< in issue order
  std::vector<Instant> starts_;
  std::vector<Instant> ends_;
};

}  // namespace

IdVector<RankId, int> peak_live_activations(const Program& program, const TimedTrace& trace) {
  const auto parts = by_rank_ranges(program, [&](const RankRange& ranks) {
    std::vector<int> part;
    Lives lives(program.pipeline());
    for (RankId rank = ranks.first; rank < ranks.last; rank = next(rank))
      part.push_back(lives.peak(program, trace, rank));
    return part;
  });
  IdVector<RankId, int> peaks;
  for (const std::vector<int>& part : parts) {
    for (const int peak : part) peaks.push_back(peak);
  }
  return peaks;
}

}  // namespace ppsim::simulator
