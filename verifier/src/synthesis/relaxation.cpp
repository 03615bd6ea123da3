#include "synthesis/relaxation.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace ppsim::verifier::synthesis {
namespace {

// Beyond these a bound would be no weaker by much, and the time to find it long.
constexpr int kMaxScanned = 512;
constexpr int kMinScanned = 16;
constexpr int kScans = 20'000'000;  // of all tasks
constexpr std::size_t kMaxThresholds = 512;

/// How far apart the microbatches of two strands are of which one must precede the other.
class Shifts {
 public:
  explicit Shifts(const ChainModel& model) : model_(model) {
    int min = std::numeric_limits<int>::max();
    for (int s = 0; s < model.stages(); ++s) {
      min = std::min(min, model.limit(s));
      min_limit_.push_back(min);
    }
  }

  /// The least d such that in every order microbatch i of strand `from` precedes microbatch i + d of strand
  /// `to`, or more. A microbatch of F waits for a W of its stage or one before it by the limit, an I for all
  /// F, so for these too.
  [[nodiscard]] int operator()(int from, int to) const {
    const int u = from / model_.phases();
    const int s = to / model_.phases();
    if (from == to) return 1;
    const int phase = from % model_.phases();
    const int last = model_.phases() - 1;
    const bool to_forward = to % model_.phases() == 0;
    int shift = std::numeric_limits<int>::max();
    if (phase == 0) shift = !to_forward || u < s ? 0 : min_limit(s);
    // I of all later stages precede an I; W of a stage come behind its I.
    if (phase == 1 && !to_forward && u >= s) shift = 0;
    if (phase == 1 && !to_forward && u < s) shift = min_limit(u);
    if (phase == 1 && to_forward) shift = min_limit(std::min(s, u));
    if (phase == last && (!to_forward || u <= s)) shift = std::min(shift, model_.limit(u));
    return shift;
  }

 private:
  [[nodiscard]] int min_limit(int stage) const { return min_limit_[as_size(stage)]; }

  const ChainModel& model_;
  std::vector<int> min_limit_;  // of the stages up to one
};

/// Tasks of the rank of one task that all precede it, or all follow it: of a strand a range of microbatches.
struct Range {
  int strand = 0;
  int begin = 0;
  int end = 0;
};
using Neighbours = std::vector<Range>;

class Relaxer {
 public:
  explicit Relaxer(const ChainModel& model) : model_(model), shifts_(model) {
    for (int r = 0; r < model.ranks(); ++r) {
      strands_.emplace_back();
      for (const int stage : model.stages_of(r)) {
        for (int phase = 0; phase < model.phases(); ++phase)
          strands_.back().push_back(model.strand(stage, phase));
      }
    }
  }

  Relaxation run() {
    result_.head.assign(as_size(model_.tasks()), 0);
    result_.tail.assign(as_size(model_.tasks()), 0);
    find_heads();
    find_tails();
    for (int r = 0; r < model_.ranks(); ++r)
      result_.lower_bound = std::max({result_.lower_bound, bound_of_rank(r), room_bound(r)});
    return std::move(result_);
  }

 private:
  [[nodiscard]] const std::vector<int>& strands_of(int rank) const { return strands_[as_size(rank)]; }

  void find_predecessors(int task) {
    near_.clear();
    for (const int strand : strands_of(model_.rank_of(task))) {
      const std::int64_t last =
          std::int64_t{model_.microbatch_of(task)} - shifts_(strand, model_.strand_of(task));
      if (last >= 0) near_.push_back({strand, 0, static_cast<int>(last) + 1});
    }
  }

  void find_successors(int task) {
    near_.clear();
    for (const int strand : strands_of(model_.rank_of(task))) {
      const std::int64_t first =
          std::int64_t{model_.microbatch_of(task)} + shifts_(model_.strand_of(task), strand);
      if (first < model_.microbatches())
        near_.push_back({strand, static_cast<int>(first), model_.microbatches()});
    }
  }

  /// max over thresholds h of h + the durations of the neighbours whose time (head or tail) is at least h.
  /// The times ascend with the microbatch before a task and descend after it, so one end of each range is
  /// next.
  [[nodiscard]] Slot packed(const std::vector<Slot>& times, bool before) {
    const int most = std::clamp(kScans / model_.tasks(), kMinScanned, kMaxScanned);
    Slot sum = 0;
    Slot best = 0;
    for (int scanned = 0; scanned < most; ++scanned) {
      Range* chosen = nullptr;
      Slot time = 0;
      for (Range& range : near_) {
        if (range.begin == range.end) continue;
        const int task = range.strand * model_.microbatches() + (before ? range.end - 1 : range.begin);
        const Slot now = times[as_size(task)];
        if (chosen != nullptr && now <= time) continue;
        chosen = &range;
        time = now;
      }
      if (chosen == nullptr) break;
      before ? --chosen->end : ++chosen->begin;
      sum += model_.duration(chosen->strand * model_.microbatches());
      best = scanned == 0 ? time + sum : std::max(best, time + sum);
    }
    return best;
  }

  void find_heads() {
    std::vector<std::vector<Precedence>> into(as_size(model_.tasks()));
    for (const Precedence& p : model_.precedences()) into[as_size(p.after)].push_back(p);
    for (const int task : model_.order()) {
      Slot& head = result_.head[as_size(task)];
      for (const Precedence& p : into[as_size(task)])
        head = std::max(head, result_.head[as_size(p.before)] + p.lag);
      find_predecessors(task);
      if (!near_.empty()) head = std::max(head, packed(result_.head, true));
    }
  }

  void find_tails() {
    std::vector<std::vector<Precedence>> from(as_size(model_.tasks()));
    for (const Precedence& p : model_.precedences()) from[as_size(p.before)].push_back(p);
    for (auto at = model_.order().rbegin(); at != model_.order().rend(); ++at) {
      const int task = *at;
      Slot& tail = result_.tail[as_size(task)];
      tail = -model_.clock_start(model_.rank_of(task));
      for (const Precedence& p : from[as_size(task)]) {
        const Slot behind = result_.tail[as_size(p.after)] + model_.duration(p.after);
        tail = std::max(tail, behind + p.lag - model_.duration(task));
      }
      find_successors(task);
      if (!near_.empty()) tail = std::max(tail, packed(result_.tail, false));
    }
  }

  [[nodiscard]] Slot head(int task) const { return result_.head[as_size(task)]; }
  [[nodiscard]] Slot tail(int task) const { return result_.tail[as_size(task)]; }

  /// max over pairs of thresholds of head + durations of the rank's tasks with at least that head and tail +
  /// tail; and what the rank computes.
  [[nodiscard]] Slot bound_of_rank(int rank) const {
    std::vector<int> tasks;
    for (const int strand : strands_of(rank)) {
      for (int i = 0; i < model_.microbatches(); ++i) tasks.push_back(strand * model_.microbatches() + i);
    }
    std::vector<Slot> heads;
    for (const int task : tasks) heads.push_back(head(task));
    std::ranges::sort(heads);
    std::ranges::sort(tasks, [&](int a, int b) { return tail(a) > tail(b); });
    Slot best = std::accumulate(tasks.begin(), tasks.end(), Slot{0},
                                [&](Slot sum, int task) { return sum + model_.duration(task); });
    const std::size_t step = heads.size() / kMaxThresholds + 1;
    for (std::size_t at = 0; at < heads.size(); at += step) {
      Slot sum = 0;
      for (const int task : tasks) {
        if (head(task) < heads[at]) continue;
        sum += model_.duration(task);
        best = std::max(best, heads[at] + sum + tail(task));
      }
    }
    return best;
  }

  /// Room times time: what all microbatches take of the memory of a rank, each for the shortest time that it
  /// can, fits into the capacity for as long as anything is held. That is less at first, when one F after the
  /// other takes more, and at last, when one W or B after the other gives back.
  [[nodiscard]] Slot room_bound(int rank) const {
    const Rooms& rooms = model_.certain_rooms();
    long double area = 0;
    long double all = 0;
    Bytes step = 0;
    Slot first = std::numeric_limits<Slot>::max();
    Slot last = first;
    Slot begin = first;
    Slot end = first;
    for (const int stage : model_.stages_of(rank)) {
      const auto strand = as_size(model_.strand(stage, 0));
      const auto back = as_size(model_.strand(stage, model_.phases() - 1));
      // All stages hold at least this from the start of F to the end of W or B.
      const Bytes held = std::min(rooms.take[strand], rooms.give[back]);
      const long double count = model_.microbatches();
      area += count * static_cast<long double>(held) * static_cast<long double>(model_.round_trip(stage));
      all += count * static_cast<long double>(held);
      step = std::max(step, held);
      first = std::min(first, model_.duration(stage, 0));
      last = std::min(last, model_.duration(stage, model_.phases() - 1));
      begin = std::min(begin, head(model_.task(stage, 0, 0)));
      end = std::min(end, tail(model_.task(stage, model_.phases() - 1, model_.microbatches() - 1)));
    }
    const long double room = std::min(all, static_cast<long double>(rooms.capacity[as_size(rank)]));
    if (step <= 0 || room <= 0) return 0;
    for (long double held = static_cast<long double>(step); held < room;
         held += static_cast<long double>(step))
      area += (room - held) * static_cast<long double>(first + last);
    // Subtracts the error that floating point may have added.
    const long double time = area / room * (1 - 1e-15L);
    return std::max<Slot>(0, begin + end) + static_cast<Slot>(std::ceil(time - 1e-6L));
  }

  const ChainModel& model_;
  Shifts shifts_;
  std::vector<std::vector<int>> strands_;  // by rank
  Neighbours near_;
  Relaxation result_;
};

}  // namespace

Relaxation relax(const ChainModel& model) { return Relaxer(model).run(); }

}  // namespace ppsim::verifier::synthesis
