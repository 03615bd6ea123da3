#include "counters.hpp"

namespace ppsim::verifier {
namespace {

z3::expr max_of(const z3::expr& a, const z3::expr& b) { return z3::ite(a >= b, a, b); }
z3::expr min_of(const z3::expr& a, const z3::expr& b) { return z3::ite(a <= b, a, b); }

bool is_communication_series(const Series& series) { return is_communication(series.actions.front().kind); }

}  // namespace

Counters::Counters(z3::context& context, const PeriodicProgram& family)
    : context_(context),
      family_(family),
      k_(context.int_const("k")),
      states_(context),
      waits_of_(family.series.size()) {
  for (const SeriesWait& wait : family.waits) waits_of_[as_size(wait.after)].push_back(&wait);
  states_.push_back(k_ >= family.first);
  for (std::size_t e = 0; e < family.events.size(); ++e) {
    complete_.push_back(context.int_const(("x" + std::to_string(e)).c_str()));
    states_.push_back(complete_[e] >= 0 && complete_[e] <= count(family.events[e].front()));
  }
  for (const SeriesWait& w : family.waits) {
    const int event = family.series[as_size(w.after)].event;
    if (event != family.series[as_size(w.before)].event || w.shift != AffineCount{})
      states_.push_back(wait(w, complete(event)));
  }
  for (const SeriesWait& w : family.end_waits)
    states_.push_back(wait(w, complete(family.series[as_size(w.after)].event)));
}

z3::expr Counters::value(const AffineCount& number) const {
  z3::expr constant = context_.int_val(number.constant);
  if (number.per_period == 0) return constant;
  return constant + context_.int_val(number.per_period) * k_;
}

z3::expr Counters::count(int series) const { return value(family_.series[as_size(series)].count); }

/// The first `instances` of what waits may start: the last of them needs the first (instances - 1 + shift) of
/// the other series, or all. Where no instance or all of the other cannot matter, the clause says only that.
z3::expr Counters::wait(const SeriesWait& w, const z3::expr& instances) const {
  const Series& before = family_.series[as_size(w.before)];
  const Series& after = family_.series[as_size(w.after)];
  const z3::expr& other = complete(before.event);
  z3::expr clause = other >= instances + value({w.shift.constant - 1, w.shift.per_period});
  const bool below = w.shift.per_period == 0 && w.shift.constant <= 1;
  const AffineCount most{after.count.constant + w.shift.constant - 1,
                         after.count.per_period + w.shift.per_period};
  const bool within =
      most.per_period <= before.count.per_period && most.at(family_.first) <= before.count.at(family_.first);
  if (!below) clause = clause || instances <= 0;
  if (!within) clause = clause || other >= count(w.before);
  return clause;
}

z3::expr Counters::may_start(int series, const z3::expr& instances) const {
  z3::expr_vector all(context_);
  for (const SeriesWait* w : waits_of_[as_size(series)]) all.push_back(wait(*w, instances));
  all.push_back(instances <= count(series));
  return z3::mk_and(all);
}

z3::expr Counters::memory(RankId rank, const SizeTable& sizes, z3::expr_vector& definitions) const {
  std::vector<z3::expr> started(family_.series.size(), k_);
  std::vector<char> known(family_.series.size(), 0);
  const auto start_of = [&](int series) -> const z3::expr& {
    const auto s = as_size(series);
    if (known[s] == 0) {
      known[s] = 1;
      started[s] = context_.int_const(("s" + std::to_string(series)).c_str());
      definitions.push_back(started[s] >= complete(family_.series[s].event) && may_start(series, started[s]));
    }
    return started[s];
  };
  z3::expr bytes = context_.int_val(0);
  for (const TensorSeries& tensor : family_.tensors) {
    const Bytes size = sizes(tensor.size_class);
    if (tensor.rank != rank || size == 0) continue;
    const z3::expr all = value(tensor.count);
    const auto within = [&](const z3::expr& instances, const TensorSeries::Touch& touch) {
      const AffineCount of_series = family_.series[as_size(touch.series)].count;
      if (touch.shift == AffineCount{} && of_series == tensor.count) return instances;
      // The instances that touch the tensors end at `last` and those complete make up a beginning of them
      // all.
      const AffineCount last = touch.direction > 0
                                   ? AffineCount{touch.shift.constant + tensor.count.constant,
                                                 touch.shift.per_period + tensor.count.per_period}
                                   : AffineCount{touch.shift.constant + 1, touch.shift.per_period};
      if (last == of_series && tensor.count == of_series) return instances;
      return max_of(context_.int_val(0), min_of(all, instances - value(last) + all));
    };
    z3::expr born = all;
    for (std::size_t w = 0; w < tensor.writers.size(); ++w) {
      const z3::expr one = within(start_of(tensor.writers[w].series), tensor.writers[w]);
      born = w == 0 ? one : max_of(born, one);
    }
    z3::expr dead = context_.int_val(0);
    for (std::size_t u = 0; u < tensor.users.size(); ++u) {
      const int event = family_.series[as_size(tensor.users[u].series)].event;
      const z3::expr one = within(complete(event), tensor.users[u]);
      dead = u == 0 ? one : min_of(dead, one);
    }
    bytes = bytes + context_.int_val(size) * (born - dead);
  }
  return bytes;
}

z3::expr Counters::ready(int series) const {
  const z3::expr& at = complete(family_.series[as_size(series)].event);
  return may_start(series, at + 1);
}

z3::expr_vector Counters::stuck(int residency) const {
  z3::expr_vector result(context_);
  std::vector<z3::expr> resident;
  std::vector<z3::expr_vector> of_rank;  // copies of an expr_vector share their items
  std::vector<z3::expr_vector> left_out;
  for (int r = 0; r < family_.ranks; ++r) {
    of_rank.emplace_back(context_);
    left_out.emplace_back(context_);
  }
  for (std::size_t s = 0; s < family_.series.size(); ++s) {
    const Series& series = family_.series[s];
    resident.push_back(context_.bool_const(("r" + std::to_string(s)).c_str()));
    const z3::expr is_ready = ready(static_cast<int>(s));
    if (!is_communication_series(series)) {
      result.push_back(!is_ready);
      continue;
    }
    result.push_back(z3::implies(resident[s], is_ready));
    of_rank[series.rank.index()].push_back(resident[s]);
    left_out[series.rank.index()].push_back(is_ready && !resident[s]);
  }
  for (const std::vector<int>& members : family_.events) {
    z3::expr_vector absent(context_);
    for (const int s : members) {
      if (is_communication_series(family_.series[as_size(s)])) absent.push_back(!resident[as_size(s)]);
    }
    if (!absent.empty()) result.push_back(z3::mk_or(absent));
  }
  for (std::size_t r = 0; r < of_rank.size(); ++r) {
    if (of_rank[r].empty()) continue;
    const auto most = static_cast<unsigned>(residency);
    result.push_back(z3::atmost(of_rank[r], most));
    result.push_back(!z3::mk_or(left_out[r]) || z3::atleast(of_rank[r], most));
  }
  z3::expr_vector incomplete(context_);
  for (std::size_t e = 0; e < family_.events.size(); ++e)
    incomplete.push_back(complete_[e] < count(family_.events[e].front()));
  result.push_back(z3::mk_or(incomplete));
  return result;
}

}  // namespace ppsim::verifier
