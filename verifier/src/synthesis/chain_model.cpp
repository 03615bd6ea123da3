#include "synthesis/chain_model.hpp"

#include <algorithm>
#include <numeric>
#include <sstream>

#include "ppsim/core/ir/check.hpp"

namespace ppsim::verifier::synthesis {
namespace {

constexpr int kMaxTasks = 60'000;

Nanoseconds forward_transfer(const CostTable& costs, int stage) {
  return costs({OpKind::send_forward, stage, stage + 1, 0});
}

Nanoseconds backward_transfer(const CostTable& costs, int stage) {
  return costs({OpKind::send_backward, stage + 1, stage, 0});
}

/// Calls visit for the duration of every action of one microbatch and of every transfer.
template <class Visit>
void for_each_duration(const SynthesisRequest& request, Visit&& visit) {
  const std::vector<OpKind> kinds = phases_of(request.backward);
  const std::vector<RankId> placement = placement_of(request);
  for (std::size_t s = 0; s < placement.size(); ++s) {
    const auto stage = static_cast<int>(s);
    for (const OpKind kind : kinds) visit(request.costs({kind, stage, -1, 0}));
    if (s + 1 == placement.size() || placement[s] == placement[s + 1]) continue;
    visit(forward_transfer(request.costs, stage));
    visit(backward_transfer(request.costs, stage));
  }
}

void describe_broken_placement(const SynthesisRequest& request, std::ostringstream& text) {
  std::vector<bool> used(as_size(std::max(0, request.ranks)), false);
  for (std::size_t s = 0; s < request.placement.size(); ++s) {
    const RankId rank = request.placement[s];
    if (rank.value() >= 0 && rank.value() < request.ranks) {
      used[rank.index()] = true;
    } else {
      text << "rank of stage " << s << ": found " << rank << ", expected 0 to " << request.ranks - 1 << "\n";
    }
  }
  for (std::size_t r = 0; r < used.size(); ++r) {
    if (!used[r] && !request.placement.empty()) text << "rank " << r << " has no stage\n";
  }
  if (!request.placement.empty() && request.kept_order)
    text << "an order can be kept where stage s is on rank s, not with another placement\n";
}

std::string broken_counts(const SynthesisRequest& request) {
  std::ostringstream text;
  if (request.ranks < 1) text << "ranks: found " << request.ranks << ", expected 1 or more\n";
  if (request.microbatches < 1)
    text << "microbatches: found " << request.microbatches << ", expected 1 or more\n";
  if (request.activation_limit < 0)
    text << "activation limit: found " << request.activation_limit << ", expected 1 or more\n";
  if (!(request.timeout_s > 0))
    text << "timeout: found " << request.timeout_s << " s, expected more than 0\n";
  if (request.max_steps && *request.max_steps < 0)
    text << "steps: found " << *request.max_steps << ", expected 0 or more\n";
  const double stages =
      request.placement.empty() ? request.ranks : static_cast<double>(request.placement.size());
  const double tasks = 3.0 * stages * request.microbatches;
  if (tasks > kMaxTasks) {
    text << (request.placement.empty() ? "ranks" : "stages") << " times microbatches: found " << stages
         << " x " << request.microbatches << ", expected at most " << kMaxTasks / 3 << "\n";
  }
  describe_broken_placement(request, text);
  return text.str();
}

std::string broken_costs(const SynthesisRequest& request) {
  std::ostringstream text;
  const auto stages = static_cast<int>(placement_of(request).size());
  for (const OpKind kind : phases_of(request.backward)) {
    for (int s = 0; s < stages; ++s) {
      if (request.costs({kind, s, -1, 0}) > 0) continue;
      text << "cost of " << s << info(kind).text << ": found 0 ns, expected more\n";
    }
  }
  double total = 0;
  for_each_duration(request, [&](Nanoseconds time) { total += static_cast<double>(time); });
  constexpr double kMax = 1e18;
  if (total * request.microbatches > kMax) text << "costs of all actions add up to more than 10^18 ns\n";
  return text.str();
}

/// One line for each broken rule.
Expected<void> unless_broken(std::string lines) {
  if (lines.empty()) return {};
  lines.pop_back();
  return make_error(ErrorCode::bad_argument, "cannot synthesise:\n" + lines);
}

/// How many of `each` fit, at most `count`. Requires: room for one.
int fitting(Bytes capacity, Bytes each, int count) {
  if (each <= 0) return count;
  return static_cast<int>(std::clamp<Bytes>(capacity / each, 1, count));
}

}  // namespace

Expected<void> check_request(const SynthesisRequest& request) {
  PPSIM_RETURN_IF_ERROR(check_counts(request));
  PPSIM_RETURN_IF_ERROR(unless_broken(broken_costs(request)));
  return check_kept_order(request);
}

Nanoseconds common_unit(const SynthesisRequest& request) {
  Nanoseconds unit = 0;
  for_each_duration(request, [&](Nanoseconds time) { unit = std::gcd(unit, time); });
  return unit;
}

ChainModel::ChainModel(const SynthesisRequest& request, Nanoseconds unit)
    : ranks_(request.ranks),
      microbatches_(request.microbatches),
      unit_(unit),
      kinds_(phases_of(request.backward)),
      kept_order_(kept_order_of(request)),
      certain_(synthesis::certain_rooms(request)) {
  place(request);
  read_costs(request);
  start_clocks(request);
  add_precedences();
  keep_order();
  sort_tasks();
}

void ChainModel::place(const SynthesisRequest& request) {
  stages_of_.resize(as_size(ranks_));
  for (const RankId rank : placement_of(request)) {
    const int stage = stages();
    one_stage_each_ = one_stage_each_ && rank == RankId(stage);
    placement_.push_back(rank.value());
    stages_of_[rank.index()].push_back(stage);
    // Of all live microbatches of a stage at least what its W or B will give back is there.
    const auto first = as_size(strand(stage, 0));
    const auto last = as_size(strand(stage, phases() - 1));
    limits_.push_back(fitting(certain_.capacity[rank.index()],
                              std::min(certain_.take[first], certain_.give[last]), microbatches_));
  }
}

void ChainModel::read_costs(const SynthesisRequest& request) {
  const auto rounded = [&](Nanoseconds time) { return (time + unit_ / 2) / unit_; };
  for (int s = 0; s < stages(); ++s) {
    for (const OpKind kind : kinds_)
      durations_.push_back(std::max<Slot>(1, rounded(request.costs({kind, s, -1, 0}))));
    if (s + 1 == stages()) break;
    const bool apart = rank_of_stage(s) != rank_of_stage(s + 1);
    forward_.push_back(apart ? rounded(forward_transfer(request.costs, s)) : 0);
    backward_.push_back(apart ? rounded(backward_transfer(request.costs, s)) : 0);
  }
}

/// No schedule takes longer.
Slot ChainModel::time_of_everything() const {
  const auto sum = [](const std::vector<Slot>& times) {
    return std::accumulate(times.begin(), times.end(), Slot{0});
  };
  return (sum(durations_) + sum(forward_) + sum(backward_)) * microbatches_;
}

/// The first F of a rank starts at once where the stages before it are the first of their ranks, too.
/// Elsewhere it can be put off, at most by as long as everything takes one after the other.
void ChainModel::start_clocks(const SynthesisRequest& request) {
  clock_starts_.assign(as_size(ranks_), 0);
  if (request.objective == Objective::makespan) return;
  const Slot all = time_of_everything();
  Slot clock = 0;
  bool at_once = true;
  for (int s = 0; s < stages(); ++s) {
    const int rank = rank_of_stage(s);
    const bool first = stages_of(rank).front() == s;
    at_once = at_once && first;
    if (first) clock_starts_[as_size(rank)] = at_once ? clock : all;
    if (s + 1 < stages()) clock += duration(s, 0) + transfer(s, s + 1);
  }
}

void ChainModel::precede(int before, int after, Slot transfer) {
  const Slot lag = duration(before) + transfer;
  precedences_.push_back({before, after, lag});
  longest_lag_ = std::max(longest_lag_, lag);
}

void ChainModel::add_precedences() {
  const int last = phases() - 1;
  for (int s = 0; s < stages(); ++s) {
    for (int i = 0; i < microbatches_; ++i) {
      for (int phase = 0; phase <= last; ++phase) {
        if (i + 1 < microbatches_) precede(task(s, phase, i), task(s, phase, i + 1), 0);
        if (phase < last) precede(task(s, phase, i), task(s, phase + 1, i), 0);
      }
      // Live microbatches are the latest ones, so the limit counts back.
      if (i + limit(s) < microbatches_) precede(task(s, last, i), task(s, 0, i + limit(s)), 0);
      if (s + 1 == stages()) continue;
      precede(task(s, 0, i), task(s + 1, 0, i), transfer(s, s + 1));
      precede(task(s + 1, 1, i), task(s, 1, i), transfer(s + 1, s));
    }
  }
}

void ChainModel::keep_order() {
  for (std::size_t r = 0; r < kept_order_.size(); ++r) {
    int forwards = 0;
    int backwards = 0;
    int before = -1;
    for (const bool forward : kept_order_[r]) {
      const int now = task(static_cast<int>(r), forward ? 0 : 1, forward ? forwards++ : backwards++);
      if (before >= 0) precede(before, now, 0);
      before = now;
    }
  }
}

void ChainModel::sort_tasks() {
  const auto count = as_size(tasks());
  std::vector<std::size_t> begin(count + 1, 0);
  std::vector<int> waits(count, 0);
  for (const Precedence& p : precedences_) {
    ++begin[as_size(p.before) + 1];
    ++waits[as_size(p.after)];
  }
  std::partial_sum(begin.begin(), begin.end(), begin.begin());
  std::vector<int> followers(precedences_.size());
  std::vector<std::size_t> next(begin.begin(), begin.end() - 1);
  for (const Precedence& p : precedences_) followers[next[as_size(p.before)]++] = p.after;
  for (std::size_t t = 0; t < count; ++t) {
    if (waits[t] == 0) order_.push_back(static_cast<int>(t));
  }
  for (std::size_t done = 0; done < order_.size(); ++done) {
    const auto from = as_size(order_[done]);
    for (std::size_t f = begin[from]; f < begin[from + 1]; ++f) {
      if (--waits[as_size(followers[f])] == 0) order_.push_back(followers[f]);
    }
  }
  PPSIM_CHECK(order_.size() == count, "a limit of one or more lets a chain finish");
}

Slot ChainModel::round_trip(int stage) const {
  Slot sum = duration(stage, 0);
  for (int s = stage; s + 1 < stages(); ++s) {
    sum += transfer(s, s + 1) + duration(s + 1, 0) + duration(s + 1, 1) + transfer(s + 1, s);
  }
  for (int phase = 1; phase < phases(); ++phase) sum += duration(stage, phase);
  return sum;
}

}  // namespace ppsim::verifier::synthesis

namespace ppsim::verifier {

Expected<void> check_counts(const SynthesisRequest& request) {
  return synthesis::unless_broken(synthesis::broken_counts(request));
}

}  // namespace ppsim::verifier
