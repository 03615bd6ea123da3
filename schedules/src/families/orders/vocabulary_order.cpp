#include "vocabulary_order.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <queue>
#include <utility>
#include <vector>

namespace ppsim::schedules {
namespace {

constexpr Nanoseconds kNever = std::numeric_limits<Nanoseconds>::max();

enum Pass : std::size_t {
  kForward,
  kBackward,
  kOutputForward,
  kOutputBackward,
  kInputForward,
  kInputBackward,
};
constexpr std::size_t kPasses = 6;
constexpr std::array kPreference = {kOutputBackward, kOutputForward, kInputForward,
                                    kInputBackward,  kForward,       kBackward};
constexpr int kInputsAhead = 2;

/// Which of the rank's stages a pass belongs to: the stage itself, its output shard, its input shard.
int chunk_of(Pass pass) { return static_cast<int>(pass) / 2; }
OpKind kind_of(Pass pass) { return pass % 2 == 0 ? OpKind::forward : OpKind::backward; }

/// One match of a collective: over when all ranks have come to it.
struct Match {
  int arrived = 0;
  Nanoseconds last = 0;
  Nanoseconds over = kNever;
};

struct Rank {
  std::array<int, kPasses> next = {};  ///< per pass: the microbatch whose turn it is
  std::array<Nanoseconds, kPasses> cost = {};
  Nanoseconds forward_from = 0;   ///< time of a transfer from the rank before
  Nanoseconds backward_from = 0;  ///< from the rank behind
  Nanoseconds output_from = 0;    ///< from the last rank to the output shard
  Nanoseconds input_from = 0;     ///< from the first rank to the input shard
  Nanoseconds free = 0;
  std::vector<Nanoseconds> inputs;     ///< per microbatch: arrival of what F reads
  std::vector<Nanoseconds> gradients;  ///< of what B reads
  std::vector<Nanoseconds> output_inputs;
  std::vector<Nanoseconds> input_gradients;
};

class Scheduler {
 public:
  Scheduler(ScheduleBuilder& builder, const Pipeline& pipeline, const VocabularyLayout& layout,
            const CostTable& costs)
      : builder_(builder),
        layout_(layout),
        ranks_(as_size(pipeline.ranks())),
        microbatches_(pipeline.microbatches()),
        softmax_(as_size(microbatches_)),
        gradient_(softmax_.size()),
        embedding_(softmax_.size()) {
    for (int r = 0; r < count(); ++r) read_costs(r, costs);
    const auto match_cost = [&](CollectiveId id) {
      return id.valid() ? costs(cost_class_of(make_action(OpKind::collective, id.value(), 0))) : 0;
    };
    softmax_cost_ = match_cost(layout.softmax);
    gradient_cost_ = match_cost(layout.gradient);
    embedding_cost_ = match_cost(layout.embedding);
  }

  void run() {
    wake_all(0);
    while (!wakes_.empty()) {
      const auto [time, r] = wakes_.top();
      wakes_.pop();
      if (at(r).free > time) continue;  // it looks again when it is free
      for (const Pass pass : kPreference) {
        if (!ready(r, pass, time)) continue;
        start(r, pass, time);
        break;
      }
    }
  }

 private:
  using Wake = std::pair<Nanoseconds, int>;
  struct Turn {
    int rank;
    int microbatch;
  };

  void read_costs(int r, const CostTable& costs) {
    const auto cost = [&](const Action& action) { return costs(cost_class_of(action)); };
    const int p = count();
    Rank& rank = at(r);
    for (const Pass pass : kPreference) {
      rank.cost[pass] = cost(make_action(kind_of(pass), chunk_of(pass) * p + r, 0));
    }
    if (r > 0) {
      rank.forward_from = cost(make_transfer(OpKind::send_forward, r - 1, 0, r));
      rank.input_from = cost(make_transfer(OpKind::send_backward, 0, 0, 2 * p + r));
    }
    if (r + 1 < p) {
      rank.backward_from = cost(make_transfer(OpKind::send_backward, r + 1, 0, r));
      rank.output_from = cost(make_transfer(OpKind::send_forward, p - 1, 0, p + r));
    }
    rank.inputs.assign(softmax_.size(), r == 0 && !layout_.shards_input() ? 0 : kNever);
    rank.gradients.assign(softmax_.size(), kNever);
    rank.output_inputs.assign(softmax_.size(), kNever);
    rank.input_gradients.assign(softmax_.size(), kNever);
  }

  Rank& at(int r) { return ranks_[as_size(r)]; }
  [[nodiscard]] int count() const { return static_cast<int>(ranks_.size()); }

  void wake(Nanoseconds time, int r) { wakes_.emplace(time, r); }
  void wake_all(Nanoseconds time) {
    for (int r = 0; r < count(); ++r) wake(time, r);
  }

  bool ready(int r, Pass pass, Nanoseconds time) {
    const Rank& rank = at(r);
    const int mb = rank.next[pass];
    if (mb == microbatches_) return false;
    switch (pass) {
      case kForward:
        return rank.inputs[as_size(mb)] <= time && mb - rank.next[kBackward] < count() - r + layout_.extra;
      case kBackward:
        return mb < rank.next[kForward] && rank.gradients[as_size(mb)] <= time;
      case kOutputForward:
        return mb == rank.next[kOutputBackward] && rank.output_inputs[as_size(mb)] <= time;
      case kOutputBackward:
        // Directly before the next S, so that the ranks stay together.
        return mb < rank.next[kOutputForward] && softmax_[as_size(mb)].over <= time &&
               (mb + 1 == microbatches_ || rank.output_inputs[as_size(mb + 1)] <= time);
      case kInputForward:
        return layout_.shards_input() && mb < at(0).next[kForward] + kInputsAhead;
      case kInputBackward:
        return rank.input_gradients[as_size(mb)] <= time;
    }
    return false;
  }

  void start(int r, Pass pass, Nanoseconds time) {
    Rank& rank = at(r);
    const int mb = rank.next[pass]++;
    rank.free = time + rank.cost[pass];
    wake(rank.free, r);
    builder_.add(kind_of(pass), StageId(chunk_of(pass) * count() + r), MicrobatchId(mb));
    switch (pass) {
      case kForward:
        if (r == 0 && layout_.shards_input()) wake_all(time);
        return hand_on(r, mb, rank.free);
      case kBackward:
        return hand_back(r, mb, rank.free);
      case kOutputForward:
        return meet_softmax(r, mb, rank.free);
      case kOutputBackward:
        if (layout_.two_barriers()) meet_gradient(r, mb, rank.free);
        return;
      case kInputForward:
        return meet_embedding(r, mb, rank.free);
      case kInputBackward:
        return;
    }
  }

  void arrive(std::vector<Nanoseconds>& times, int mb, int r, Nanoseconds time) {
    times[as_size(mb)] = time;
    wake(time, r);
  }

  /// To the next rank, or from the last one to all shards.
  void hand_on(int r, int mb, Nanoseconds end) {
    if (r + 1 < count()) return arrive(at(r + 1).inputs, mb, r + 1, end + at(r + 1).forward_from);
    for (int q = 0; q < count(); ++q) arrive(at(q).output_inputs, mb, q, end + at(q).output_from);
  }

  /// To the rank before, or from the first one to the input shards.
  void hand_back(int r, int mb, Nanoseconds end) {
    if (r > 0) return arrive(at(r - 1).gradients, mb, r - 1, end + at(r - 1).backward_from);
    if (!layout_.shards_input()) return;
    for (int q = 0; q < count(); ++q) arrive(at(q).input_gradients, mb, q, end + at(q).input_from);
  }

  /// Whether all ranks have come to the collective now.
  bool join(CollectiveId id, Match& match, Turn turn, Nanoseconds time) {
    builder_.add(RankId(turn.rank), make_action(OpKind::collective, id.value(), turn.microbatch));
    match.last = std::max(match.last, time);
    return ++match.arrived == count();
  }

  void meet_softmax(int r, int mb, Nanoseconds end) {
    Match& match = softmax_[as_size(mb)];
    if (!join(layout_.softmax, match, {r, mb}, end)) return;
    match.over = match.last + softmax_cost_;
    wake_all(match.over);
    if (!layout_.two_barriers()) arrive(at(count() - 1).gradients, mb, count() - 1, match.over);
  }

  void meet_gradient(int r, int mb, Nanoseconds end) {
    Match& match = gradient_[as_size(mb)];
    if (!join(layout_.gradient, match, {r, mb}, end)) return;
    arrive(at(count() - 1).gradients, mb, count() - 1, match.last + gradient_cost_);
  }

  void meet_embedding(int r, int mb, Nanoseconds end) {
    Match& match = embedding_[as_size(mb)];
    if (!join(layout_.embedding, match, {r, mb}, end)) return;
    arrive(at(0).inputs, mb, 0, match.last + embedding_cost_);
  }

  ScheduleBuilder& builder_;
  const VocabularyLayout& layout_;
  std::vector<Rank> ranks_;
  int microbatches_;
  std::vector<Match> softmax_;
  std::vector<Match> gradient_;
  std::vector<Match> embedding_;
  Nanoseconds softmax_cost_ = 0;
  Nanoseconds gradient_cost_ = 0;
  Nanoseconds embedding_cost_ = 0;
  std::priority_queue<Wake, std::vector<Wake>, std::greater<>> wakes_;
};

}  // namespace

void add_vocabulary_rows(ScheduleBuilder& builder, const Pipeline& pipeline, const VocabularyLayout& layout,
                         const CostTable& costs) {
  Scheduler(builder, pipeline, layout, costs).run();
}

}  // namespace ppsim::schedules
