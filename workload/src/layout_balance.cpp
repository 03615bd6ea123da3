#include <limits>

#include "ppsim/core/ir/check.hpp"
#include "ppsim/workload/layout.hpp"

namespace ppsim::workload {
namespace {

constexpr std::int64_t kImpossible = std::numeric_limits<std::int64_t>::max();

/// Cuts of a row of layers into stages.
class Partition {
 public:
  Partition(const LayoutTimes& times, int stages)
      : times_(times), stages_(static_cast<std::size_t>(stages)), until_(times.layers.size() + 1, 0) {
    for (std::size_t i = 0; i < times.layers.size(); ++i)
      until_[i + 1] = checked_add(until_[i], times.layers[i]);
  }

  PipelineLayout run() {
    limit_ = fastest();
    find_evenest();
    PipelineLayout layout;
    for (std::size_t s = 0, first = 0; s < stages_; ++s) {
      const std::size_t next = next_of(s, first);
      layout.stages.push_back({.layers = static_cast<std::int64_t>(next - first)});
      first = next;
    }
    layout.stages.front().embedding = true;
    layout.stages.back().loss = true;
    return layout;
  }

 private:
  [[nodiscard]] std::size_t layers() const { return times_.layers.size(); }

  [[nodiscard]] Nanoseconds time(std::size_t stage, std::size_t first, std::size_t next) const {
    return until_[next] - until_[first] + (stage == 0 ? times_.embedding : 0) +
           (stage + 1 == stages_ ? times_.loss : 0);
  }

  /// Whether stages of at most this time, each filled as far as it goes, hold everything.
  [[nodiscard]] bool holds(Nanoseconds limit) const {
    std::size_t next = 0;
    for (std::size_t s = 0; s < stages_; ++s) {
      const std::size_t first = next;
      if (time(s, first, first) > limit) return false;
      while (next < layers() && time(s, first, next + 1) <= limit) ++next;
    }
    return next == layers();
  }

  /// The least time of the slowest stage.
  [[nodiscard]] Nanoseconds fastest() const {
    Nanoseconds low = 0;
    Nanoseconds high = checked_add(checked_add(times_.embedding, times_.loss), until_.back());
    while (low < high) {
      const Nanoseconds middle = low + (high - low) / 2;
      if (holds(middle)) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  }

  [[nodiscard]] std::int64_t& rest(std::size_t stage, std::size_t first) {
    return rest_[stage * (layers() + 1) + first];
  }

  /// rest(s, i): the least sum of squares of the stages from s on, which share the layers from i on.
  void find_evenest() {
    rest_.assign((stages_ + 1) * (layers() + 1), kImpossible);
    rest(stages_, layers()) = 0;
    for (std::size_t s = stages_; s-- > 0;) {
      for (std::size_t first = 0; first <= layers(); ++first)
        rest(s, first) = cost(s, first, next_of(s, first));
    }
  }

  [[nodiscard]] std::int64_t cost(std::size_t stage, std::size_t first, std::size_t next) {
    if (time(stage, first, next) > limit_ || rest(stage + 1, next) == kImpossible) return kImpossible;
    const auto count = static_cast<std::int64_t>(next - first);
    return count * count + rest(stage + 1, next);
  }

  /// The best end of a stage that begins at `first`; of equals the first.
  [[nodiscard]] std::size_t next_of(std::size_t stage, std::size_t first) {
    std::size_t best = first;
    for (std::size_t next = first + 1; next <= layers() && time(stage, first, next) <= limit_; ++next) {
      if (cost(stage, first, next) < cost(stage, first, best)) best = next;
    }
    return best;
  }

  const LayoutTimes& times_;
  std::size_t stages_;
  std::vector<Nanoseconds> until_;  ///< sums of the times of the layers before
  Nanoseconds limit_ = 0;
  std::vector<std::int64_t> rest_;
};

}  // namespace

PipelineLayout balanced_layout(const LayoutTimes& times, int stages) {
  PPSIM_CHECK(stages >= 1, "a cut needs a stage");
  return Partition(times, stages).run();
}

}  // namespace ppsim::workload
