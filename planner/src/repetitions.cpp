#include "ppsim/planner/repetitions.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "ppsim/core/lowering/earliest_times.hpp"

namespace ppsim::planner {
namespace {

constexpr int kMaxSettled = 4;  // after so many times as many microbatches as at unit costs
constexpr std::int64_t kMaxMicrobatches = 1 << 22;  // of all schedules for one period, on all ranks

/// Rank, kind, subject, peer and slice of an action: what its repetitions have in common.
using Recurring = std::tuple<int, OpKind, int, int, int>;
using Starts = std::map<Recurring, std::vector<Nanoseconds>>;

/// When each action starts, again and again; nothing where the schedule does not exist.
std::optional<Starts> starts_of(const CostedScheduleFor& schedule_for, int microbatches) {
  const auto costed = schedule_for(microbatches);
  if (!costed) return std::nullopt;
  const auto times = earliest_times(costed->schedule, costed->costs);
  if (!times) return std::nullopt;
  Starts starts;
  for (const EarliestTimes::Item& item : times->walk) {
    const Cell& cell = costed->schedule.row(item.rank)[as_size(item.position)];
    const Action& first = cell.actions().front();
    starts[{item.rank.value(), first.kind, first.subject, first.peer, first.slice}].push_back(item.start);
  }
  return starts;
}

/// The microbatches between which times are to repeat, of those of the schedule.
struct Window {
  int begin = 0;
  int end = 0;
  int microbatches = 1;

  /// Where the window begins or ends in a row of so many repetitions.
  [[nodiscard]] std::size_t place(int microbatch, std::size_t count) const {
    return count * as_size(microbatch) / as_size(microbatches);
  }
};

/// An action that comes again through the window, each time a period later after the same time.
struct Pace {
  Nanoseconds first = 0;
  Nanoseconds last = 0;
  Nanoseconds period = 0;
};

/// Nothing where that time differs, or nothing comes again.
std::optional<Pace> pace_of(const Window& window, const std::vector<Nanoseconds>& at, std::size_t added) {
  const std::size_t begin = window.place(window.begin, at.size());
  const std::size_t end = window.place(window.end, at.size());
  if (added == 0 || begin + added >= end) return std::nullopt;
  const Pace pace{at[begin], at[end - 1], at[begin + added] - at[begin]};
  for (std::size_t i = begin; i + added < end; ++i) {
    if (at[i + added] - at[i] != pace.period) return std::nullopt;
  }
  return pace;
}

/// True where all that is in flight at one time has one pace: else one thing goes ahead of the other. What
/// runs in phases, as F and B of GPipe do, has one in each.
bool keep_pace(std::vector<Pace> paces) {
  std::ranges::sort(paces, {}, &Pace::first);
  for (std::size_t i = 1; i < paces.size(); ++i) {
    if (paces[i].first > paces[i - 1].last) continue;
    if (paces[i].period != paces[i - 1].period) return false;
    paces[i].last = std::max(paces[i].last, paces[i - 1].last);
  }
  return !paces.empty();
}

/// True where in the window everything comes again a period later, each kind of action alike on all ranks.
bool repeat(const Window& window, const Starts& starts, const Starts& a_period_more) {
  std::map<OpKind, std::set<Nanoseconds>> of_kind;
  std::vector<Pace> paces;
  for (const auto& [recurring, at] : starts) {
    const auto more = a_period_more.find(recurring);
    if (more == a_period_more.end() || more->second.size() < at.size()) return false;
    const std::size_t added = more->second.size() - at.size();
    if (added == 0) continue;
    const auto pace = pace_of(window, at, added);
    if (!pace) return false;
    paces.push_back(*pace);
    of_kind[std::get<OpKind>(recurring)].insert(pace->period);
  }
  return keep_pace(std::move(paces)) &&
         std::ranges::all_of(of_kind, [](const auto& periods) { return periods.second.size() == 1; });
}

/// Looks for a number of microbatches after which times repeat.
class Search {
 public:
  Search(const Repetition& lists, const CostedScheduleFor& schedule_for, int ranks)
      : lists_(lists), schedule_for_(schedule_for), ranks_(ranks) {}

  std::optional<Repetition> run() const {
    for (int settled = std::max(lists_.from / 2, 1); settled <= kMaxSettled * lists_.from; settled *= 2) {
      for (const int period : std::set<int>{lists_.period, ranks_, 2 * ranks_}) {
        if (period % lists_.period == 0 && all_repeat(settled, period))
          return Repetition{settled + lists_.from, period};
      }
    }
    return std::nullopt;
  }

 private:
  /// True where times repeat from microbatch `settled` on, for every remainder of the rows' period that is
  /// accepted.
  [[nodiscard]] bool all_repeat(int settled, int period) const {
    // The parts before the repeated period and after the last one are within lists_.from.
    const int least = settled + 3 * lists_.from + 2 * period;
    if (std::int64_t{least} * ranks_ * lists_.period > kMaxMicrobatches) return false;
    bool some = false;
    for (int m = least; m < least + lists_.period; ++m) {
      const auto starts = starts_of(schedule_for_, m);
      if (!starts) continue;
      const auto more = starts_of(schedule_for_, m + period);
      if (!more || !repeat({settled, m - lists_.from, m}, *starts, *more)) return false;
      some = true;
    }
    return some;
  }

  const Repetition& lists_;
  const CostedScheduleFor& schedule_for_;
  int ranks_;
};

bool is_one_way(CommunicatorPolicy policy) {
  return policy == CommunicatorPolicy::per_edge || policy == CommunicatorPolicy::per_stage_edge;
}

}  // namespace

Repetitions repetitions_at_unit_costs(const ScheduleInfo& info, const ScheduleParameters& parameters,
                                      CommunicatorPolicy communicators) {
  if (info.repetitions == nullptr) return {};
  Repetitions result = info.repetitions(parameters);
  if (!is_one_way(communicators)) result.queues = result.lists;
  return result;
}

std::optional<Repetition> lists_under_costs(const Repetition& lists, const CostedScheduleFor& schedule_for) {
  for (int m = lists.from + 1; m <= lists.from + 2 * lists.period; ++m) {
    const auto costed = schedule_for(m);
    if (costed) return Search(lists, schedule_for, costed->schedule.pipeline().ranks()).run();
  }
  return std::nullopt;
}

Repetitions repetitions_under_costs(const Repetitions& at_unit_costs, CommunicatorPolicy communicators,
                                    const CostedScheduleFor& schedule_for) {
  Repetitions result = at_unit_costs;
  if (!result.lists) return result;
  result.lists = lists_under_costs(*result.lists, schedule_for);
  if (!is_one_way(communicators)) result.queues = result.lists;
  return result;
}

}  // namespace ppsim::planner
