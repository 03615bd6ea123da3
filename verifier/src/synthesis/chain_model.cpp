#include "synthesis/chain_model.hpp"

#include <algorithm>
#include <numeric>
#include <sstream>

#include "ppsim/core/ir/check.hpp"

namespace ppsim::verifier::synthesis {
namespace {

constexpr int kMaxTasks = 60'000;

Nanoseconds forward_transfer(const CostTable& costs, int rank) {
  return costs({OpKind::send_forward, rank, rank + 1, 0});
}

Nanoseconds backward_transfer(const CostTable& costs, int rank) {
  return costs({OpKind::send_backward, rank + 1, rank, 0});
}

/// Calls visit for the duration of every action of one microbatch and of every transfer.
template <class Visit>
void for_each_duration(const SynthesisRequest& request, Visit&& visit) {
  const std::vector<OpKind> kinds = phases_of(request.backward);
  for (int r = 0; r < request.ranks; ++r) {
    for (const OpKind kind : kinds) visit(request.costs({kind, r, -1, 0}));
    if (r + 1 == request.ranks) continue;
    visit(forward_transfer(request.costs, r));
    visit(backward_transfer(request.costs, r));
  }
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
  const double tasks = 3.0 * request.ranks * request.microbatches;
  if (tasks > kMaxTasks) {
    text << "ranks times microbatches: found " << request.ranks << " x " << request.microbatches
         << ", expected at most " << kMaxTasks / 3 << "\n";
  }
  return text.str();
}

std::string broken_costs(const SynthesisRequest& request) {
  std::ostringstream text;
  for (const OpKind kind : phases_of(request.backward)) {
    for (int r = 0; r < request.ranks; ++r) {
      if (request.costs({kind, r, -1, 0}) > 0) continue;
      text << "cost of " << r << info(kind).text << ": found 0 ns, expected more\n";
    }
  }
  double total = 0;
  for_each_duration(request, [&](Nanoseconds time) { total += static_cast<double>(time); });
  constexpr double kMax = 1e18;
  if (total * request.microbatches > kMax) text << "costs of all actions add up to more than 10^18 ns\n";
  return text.str();
}

}  // namespace

std::vector<OpKind> phases_of(BackwardForm form) {
  if (form == BackwardForm::fused) return {OpKind::forward, OpKind::backward};
  return {OpKind::forward, OpKind::backward_input, OpKind::backward_weight};
}

Expected<void> check_request(const SynthesisRequest& request) {
  std::string broken = broken_counts(request);
  if (broken.empty()) broken = broken_costs(request);
  if (broken.empty()) return check_kept_order(request);
  broken.pop_back();
  return make_error(ErrorCode::bad_argument, "cannot synthesise:\n" + broken);
}

Nanoseconds common_unit(const SynthesisRequest& request) {
  Nanoseconds unit = 0;
  for_each_duration(request, [&](Nanoseconds time) { unit = std::gcd(unit, time); });
  return unit;
}

ChainModel::ChainModel(const SynthesisRequest& request, Nanoseconds unit)
    : ranks_(request.ranks),
      microbatches_(request.microbatches),
      limit_(std::min(request.activation_limit, request.microbatches)),
      unit_(unit),
      kinds_(phases_of(request.backward)),
      kept_order_(kept_order_of(request)) {
  read_costs(request);
  add_precedences();
  keep_order();
  sort_tasks();
}

void ChainModel::read_costs(const SynthesisRequest& request) {
  const auto rounded = [&](Nanoseconds time) { return (time + unit_ / 2) / unit_; };
  Slot clock = 0;
  for (int r = 0; r < ranks_; ++r) {
    for (const OpKind kind : kinds_)
      durations_.push_back(std::max<Slot>(1, rounded(request.costs({kind, r, -1, 0}))));
    clock_starts_.push_back(request.objective == Objective::span ? clock : 0);
    if (r + 1 == ranks_) break;
    forward_.push_back(rounded(forward_transfer(request.costs, r)));
    backward_.push_back(rounded(backward_transfer(request.costs, r)));
    clock += duration(r, 0) + forward_.back();
  }
}

void ChainModel::precede(int before, int after, Slot transfer) {
  const Slot lag = duration(before) + transfer;
  precedences_.push_back({before, after, lag});
  longest_lag_ = std::max(longest_lag_, lag);
}

void ChainModel::add_precedences() {
  const int last = phases() - 1;
  for (int r = 0; r < ranks_; ++r) {
    for (int i = 0; i < microbatches_; ++i) {
      for (int phase = 0; phase <= last; ++phase) {
        if (i + 1 < microbatches_) precede(task(r, phase, i), task(r, phase, i + 1), 0);
        if (phase < last) precede(task(r, phase, i), task(r, phase + 1, i), 0);
      }
      // Live microbatches are the latest ones, so the limit counts back.
      if (i + limit_ < microbatches_) precede(task(r, last, i), task(r, 0, i + limit_), 0);
      if (r + 1 == ranks_) continue;
      precede(task(r, 0, i), task(r + 1, 0, i), transfer(r, r + 1));
      precede(task(r + 1, 1, i), task(r, 1, i), transfer(r + 1, r));
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
  const auto count = static_cast<std::size_t>(tasks());
  std::vector<std::size_t> begin(count + 1, 0);
  std::vector<int> waits(count, 0);
  for (const Precedence& p : precedences_) {
    ++begin[static_cast<std::size_t>(p.before) + 1];
    ++waits[static_cast<std::size_t>(p.after)];
  }
  std::partial_sum(begin.begin(), begin.end(), begin.begin());
  std::vector<int> followers(precedences_.size());
  std::vector<std::size_t> next(begin.begin(), begin.end() - 1);
  for (const Precedence& p : precedences_) followers[next[static_cast<std::size_t>(p.before)]++] = p.after;
  for (std::size_t t = 0; t < count; ++t) {
    if (waits[t] == 0) order_.push_back(static_cast<int>(t));
  }
  for (std::size_t done = 0; done < order_.size(); ++done) {
    const auto from = static_cast<std::size_t>(order_[done]);
    for (std::size_t f = begin[from]; f < begin[from + 1]; ++f) {
      if (--waits[static_cast<std::size_t>(followers[f])] == 0) order_.push_back(followers[f]);
    }
  }
  PPSIM_CHECK(order_.size() == count, "a limit of one or more lets a chain finish");
}

Slot ChainModel::round_trip(int rank) const {
  Slot sum = duration(rank, 0);
  for (int r = rank; r + 1 < ranks_; ++r) {
    sum += transfer(r, r + 1) + duration(r + 1, 0) + duration(r + 1, 1) + transfer(r + 1, r);
  }
  for (int phase = 1; phase < phases(); ++phase) sum += duration(rank, phase);
  return sum;
}

}  // namespace ppsim::verifier::synthesis
