#include <algorithm>
#include <limits>
#include <span>
#include <utility>
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
      : cells_of_stage_(as_size(pipeline.microbatches()) * as_size(pipeline.slices())),
        slices_(as_size(pipeline.slices())),
        first_cell_(as_size(pipeline.stages()), kNoCell) {}

  /// The most that live at once. Within one round, ends come before starts.
  int peak(const Program& program, const TimedTrace& trace, RankId rank) {
    if (const int counted = peak_in_issue_order(program, trace, rank); counted >= 0) return counted;
    forget();
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

  void forget() {
    std::ranges::fill(first_cell_, kNoCell);
    lives_.clear();
  }

  /// Where passes follow each other, and each life has one that begins it and one that ends it, counting is
  /// enough. -1 elsewhere: a measured pass may take no time, or begin
  /// before the one before it has ended.
  int peak_in_issue_order(const Program& program, const TimedTrace& trace, RankId rank) {
    forget();
    const bool training = trains(program, rank);
    const auto ends = [&](const Action& action) {
      return training ? gives_weight_gradient(action.kind) : action.kind == OpKind::forward;
    };
    int live = 0;
    int most = 0;
    Instant free = kNotYet;
    for (const InstructionId id : program.ids_of(rank)) {
      const std::span<const Action> actions = program.actions(id);
      if (!is_pass(actions.front().kind)) continue;
      const Span& span = trace.spans[id];
      if (span.start < free || span.end <= span.start) return -1;
      free = span.end;
      for (const Action& action : actions) {
        if (action.kind != OpKind::forward) continue;
        Life& life = lives_[cell_of(action)];
        if (std::exchange(life.from, span.start) != kNever) return -1;
        most = std::max(most, ++live);
      }
      for (const Action& action : actions) {
        if (!ends(action)) continue;
        Life& life = lives_[cell_of(action)];
        if (life.from == kNever || std::exchange(life.to, span.end) != kNotYet) return -1;
        --live;
      }
    }
    return most;
  }

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
    if (!std::ranges::is_sorted(times)) std::ranges::sort(times);
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
