#include "synthesis/relaxation.hpp"

#include <algorithm>
#include <array>
#include <numeric>

namespace ppsim::verifier::synthesis {
namespace {

// Beyond these a bound would be no weaker by much, and the time to find it long.
constexpr int kMaxScanned = 512;
constexpr int kMinScanned = 16;
constexpr int kScans = 20'000'000;  // of all tasks
constexpr std::size_t kMaxThresholds = 512;

/// Tasks of the rank of one task that all precede it, or all follow it: per phase a range of microbatches.
struct Neighbours {
  int rank = 0;
  std::array<int, 3> begin = {};
  std::array<int, 3> end = {};
};

Neighbours predecessors_of(const ChainModel& model, int task) {
  const int phase = model.phase_of(task);
  const int i = model.microbatch_of(task);
  Neighbours result{.rank = model.rank_of(task)};
  for (int q = 0; q < model.phases(); ++q) {
    const int count = q == phase ? i : q < phase ? i + 1 : std::max(0, i - model.limit() + 1);
    result.end[static_cast<std::size_t>(q)] = count;
  }
  return result;
}

Neighbours successors_of(const ChainModel& model, int task) {
  const int phase = model.phase_of(task);
  const int i = model.microbatch_of(task);
  Neighbours result{.rank = model.rank_of(task)};
  for (int q = 0; q < model.phases(); ++q) {
    const int first = q == phase ? i + 1 : q > phase ? i : i + model.limit();
    result.begin[static_cast<std::size_t>(q)] = std::min(first, model.microbatches());
    result.end[static_cast<std::size_t>(q)] = model.microbatches();
  }
  return result;
}

/// max over thresholds h of h + the durations of the neighbours whose time (head or tail) is at least h. The
/// times ascend with the microbatch before a task and descend behind it, so one end of each range is next.
Slot packed(const ChainModel& model, const std::vector<Slot>& times, Neighbours near, bool before) {
  const int most = std::clamp(kScans / model.tasks(), kMinScanned, kMaxScanned);
  Slot sum = 0;
  Slot best = 0;
  for (int scanned = 0; scanned < most; ++scanned) {
    int chosen = -1;
    int phase = 0;
    for (int q = 0; q < model.phases(); ++q) {
      const auto at = static_cast<std::size_t>(q);
      if (near.begin[at] == near.end[at]) continue;
      const int task = model.task(near.rank, q, before ? near.end[at] - 1 : near.begin[at]);
      if (chosen < 0 || times[static_cast<std::size_t>(task)] > times[static_cast<std::size_t>(chosen)]) {
        chosen = task;
        phase = q;
      }
    }
    if (chosen < 0) break;
    before ? --near.end[static_cast<std::size_t>(phase)] : ++near.begin[static_cast<std::size_t>(phase)];
    sum += model.duration(chosen);
    const Slot packed = times[static_cast<std::size_t>(chosen)] + sum;
    best = scanned == 0 ? packed : std::max(best, packed);
  }
  return best;
}

bool any(const Neighbours& near) { return near.begin != near.end; }

void find_heads(const ChainModel& model, Relaxation& result) {
  std::vector<std::vector<Precedence>> into(static_cast<std::size_t>(model.tasks()));
  for (const Precedence& p : model.precedences()) into[static_cast<std::size_t>(p.after)].push_back(p);
  for (const int task : model.order()) {
    Slot& head = result.head[static_cast<std::size_t>(task)];
    for (const Precedence& p : into[static_cast<std::size_t>(task)])
      head = std::max(head, result.head[static_cast<std::size_t>(p.before)] + p.lag);
    const Neighbours near = predecessors_of(model, task);
    if (any(near)) head = std::max(head, packed(model, result.head, near, true));
  }
}

void find_tails(const ChainModel& model, Relaxation& result) {
  std::vector<std::vector<Precedence>> from(static_cast<std::size_t>(model.tasks()));
  for (const Precedence& p : model.precedences()) from[static_cast<std::size_t>(p.before)].push_back(p);
  for (auto at = model.order().rbegin(); at != model.order().rend(); ++at) {
    const int task = *at;
    Slot& tail = result.tail[static_cast<std::size_t>(task)];
    tail = -model.clock_start(model.rank_of(task));
    for (const Precedence& p : from[static_cast<std::size_t>(task)]) {
      const Slot behind = result.tail[static_cast<std::size_t>(p.after)] + model.duration(p.after);
      tail = std::max(tail, behind + p.lag - model.duration(task));
    }
    const Neighbours near = successors_of(model, task);
    if (any(near)) tail = std::max(tail, packed(model, result.tail, near, false));
  }
}

/// max over pairs of thresholds of head + durations of the rank's tasks with at least that head and tail +
/// tail.
Slot bound_of_rank(const ChainModel& model, const Relaxation& known, int rank) {
  std::vector<int> tasks(static_cast<std::size_t>(model.phases() * model.microbatches()));
  std::iota(tasks.begin(), tasks.end(), model.task(rank, 0, 0));
  const auto head = [&](int task) { return known.head[static_cast<std::size_t>(task)]; };
  const auto tail = [&](int task) { return known.tail[static_cast<std::size_t>(task)]; };
  std::vector<Slot> heads;
  for (const int task : tasks) heads.push_back(head(task));
  std::ranges::sort(heads);
  std::ranges::sort(tasks, [&](int a, int b) { return tail(a) > tail(b); });
  const std::size_t step = heads.size() / kMaxThresholds + 1;
  Slot best = 0;
  for (std::size_t at = 0; at < heads.size(); at += step) {
    Slot sum = 0;
    for (const int task : tasks) {
      if (head(task) < heads[at]) continue;
      sum += model.duration(task);
      best = std::max(best, heads[at] + sum + tail(task));
    }
  }
  return best;
}

}  // namespace

Relaxation relax(const ChainModel& model) {
  Relaxation result;
  result.head.assign(static_cast<std::size_t>(model.tasks()), 0);
  result.tail.assign(static_cast<std::size_t>(model.tasks()), 0);
  find_heads(model, result);
  find_tails(model, result);
  for (int r = 0; r < model.ranks(); ++r)
    result.lower_bound = std::max(result.lower_bound, bound_of_rank(model, result, r));
  return result;
}

}  // namespace ppsim::verifier::synthesis
