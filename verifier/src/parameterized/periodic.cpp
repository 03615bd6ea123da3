#include "ppsim/verifier/parameterized/periodic.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "ppsim/core/io/text.hpp"
#include "ppsim/core/ir/check.hpp"
#include "ppsim/core/ir/concatenated.hpp"
#include "ppsim/core/ir/sequences.hpp"
#include "sample.hpp"

namespace ppsim::verifier {
namespace {

template <class... Parts>
tl::unexpected<Error> refused(const Parts&... parts) {
  return make_error(ErrorCode::refused, concatenated(parts...));
}

/// Instance `index` of `after` waits for `shift + index` instances of `before`.
struct ShiftedWait {
  int before = 0;
  int after = 0;
  std::int64_t shift = 0;
  friend auto operator<=>(const ShiftedWait&, const ShiftedWait&) = default;
};

std::vector<ShiftedWait> shifted_waits(const Sample& sample) {
  std::vector<ShiftedWait> waits;
  // Most instances wait as the one before them does, for as many things in the same order.
  std::vector<std::vector<ShiftedWait>> newest(sample.instances.of_series.size());
  for (const InstructionId id : sample.program.ids()) {
    const auto predecessors = sample.graph.predecessors_of(id);
    std::vector<ShiftedWait>& before = newest[as_size(sample.series(id))];
    if (before.size() < predecessors.size()) before.resize(predecessors.size(), {-1, -1, 0});
    for (std::size_t p = 0; p < predecessors.size(); ++p) {
      const ShiftedWait wait{sample.series(predecessors[p]), sample.series(id),
                             sample.index(predecessors[p]) + 1 - sample.index(id)};
      if (before[p] != wait) waits.push_back(before[p] = wait);
    }
  }
  sort_unique(waits);
  return waits;
}

bool same_pair(const ShiftedWait& a, const ShiftedWait& b) {
  return a.before == b.before && a.after == b.after;
}

/// The waits between one pair of series at k and at k + 1: each shift stays, or grows or shrinks by one with
/// k. Of those that move alike the largest implies the others.
class PairFit {
 public:
  using Range = std::span<const ShiftedWait>;
  PairFit(Range at_k, Range at_next, std::int64_t k) : next_(at_next), k_(k) {
    for (const ShiftedWait& wait : at_k) add(wait);
  }
  [[nodiscard]] bool holds() const { return holds_; }
  void append_to(std::vector<SeriesWait>& waits, const ShiftedWait& pair) const {
    for (std::int64_t slope = -1; slope <= 1; ++slope) {
      if (const auto& best = best_[as_size(slope + 1)])
        waits.push_back({pair.before, pair.after, {*best, slope}});
    }
  }

 private:
  void add(const ShiftedWait& wait) {
    for (const std::int64_t slope : {0, 1, -1}) {
      ShiftedWait moved = wait;
      moved.shift += slope;
      if (!std::ranges::binary_search(next_, moved)) continue;
      auto& best = best_[as_size(slope + 1)];
      best = std::max(best.value_or(wait.shift - slope * k_), wait.shift - slope * k_);
      return;
    }
    holds_ = false;
  }

  Range next_;
  std::int64_t k_;
  std::optional<std::int64_t> best_[3];
  bool holds_ = true;
};

std::string text_of(const Sample& sample, int series) {
  const InstructionId id = sample.instances.of_series[as_size(series)].front();
  return "rank " + std::to_string(sample.program.rank_of(id).value()) + ": " +
         actions_text(sample.program, id);
}

/// The instances of a series run one after another; where a Program does not say so, check_series does.
std::vector<ShiftedWait> with_self_waits(std::vector<ShiftedWait> waits, std::size_t series) {
  for (int s = 0; s < static_cast<int>(series); ++s) waits.push_back({s, s, 0});
  sort_unique(waits);
  return waits;
}

Expected<void> fit_waits(const Sample& a, const Sample& b, PeriodicProgram& family) {
  const std::vector<ShiftedWait> at_k = with_self_waits(shifted_waits(a), family.series.size());
  const std::vector<ShiftedWait> at_next = with_self_waits(shifted_waits(b), family.series.size());
  auto other = at_next.begin();
  for (auto begin = at_k.begin(); begin != at_k.end();) {
    const auto end =
        std::find_if(begin, at_k.end(), [&](const ShiftedWait& w) { return !same_pair(w, *begin); });
    while (other != at_next.end() && *other < *begin && !same_pair(*other, *begin)) ++other;
    const auto other_end =
        std::find_if(other, at_next.end(), [&](const ShiftedWait& w) { return !same_pair(w, *begin); });
    const PairFit fit({begin, end}, {other, other_end}, a.k);
    if (!fit.holds())
      return refused(text_of(a, begin->after), " does not wait alike in each period for ",
                     text_of(a, begin->before));
    fit.append_to(family.waits, *begin);
    begin = end;
    other = other_end;
  }
  return {};
}

std::int64_t microbatch_of(const Sample& sample, InstructionId id) {
  return sample.program.actions(id).front().microbatch;
}

Expected<void> fit_series(const Sample& a, const Sample& b, int number, PeriodicProgram& family) {
  const std::int64_t count = a.instances.count(number);
  const std::int64_t next = b.instances.count(number);
  if (count == 0 || next == 0) return refused("an instruction occurs for some numbers of periods only");
  const InstructionId first = a.instances.of_series[as_size(number)].front();
  const InstructionId first_next = b.instances.of_series[as_size(number)].front();
  Series series;
  series.rank = a.program.rank_of(first);
  series.actions.assign(a.program.actions(first).begin(), a.program.actions(first).end());
  for (std::size_t i = 0; i < series.actions.size(); ++i) {
    series.actions[i].microbatch = -1;
    series.microbatch.push_back(
        line(a.program.actions(first)[i].microbatch, b.program.actions(first_next)[i].microbatch, a.k));
  }
  // One instance tells no stride; one period more adds the second.
  const Sample& several = count > 1 ? a : b;
  const auto& instances = several.instances.of_series[as_size(number)];
  if (instances.size() > 1)
    series.stride = microbatch_of(several, instances[1]) - microbatch_of(several, instances[0]);
  series.count = line(count, next, a.k);
  family.series.push_back(std::move(series));
  return {};
}

/// The series whose instances complete together, by the messages and matches of a sample.
void fit_events(const Sample& sample, PeriodicProgram& family) {
  const auto join = [&](std::vector<int> members) {
    for (const int s : members) {
      if (family.series[as_size(s)].event >= 0) return;
    }
    for (const int s : members) family.series[as_size(s)].event = static_cast<int>(family.events.size());
    family.events.push_back(std::move(members));
  };
  for (const Message& message : sample.graph.messages) {
    if (message.complete()) join({sample.series(message.send), sample.series(message.receive)});
  }
  for (const CollectiveMatch& match : sample.graph.matches) {
    std::vector<int> members;
    for (const InstructionId id : sample.graph.members_of(match)) members.push_back(sample.series(id));
    join(std::move(members));
  }
  for (int s = 0; s < static_cast<int>(family.series.size()); ++s) {
    if (!is_communication(family.series[as_size(s)].actions.front().kind)) join({s});
  }
}

/// Compares a sample with the periodic program whose member it should be.
class MemberCheck {
 public:
  MemberCheck(const PeriodicProgram& family, const Sample& sample) : family_(family), sample_(sample) {}

  Expected<void> run() {
    if (!sample_.instances.lost.empty()) {
      const InstructionId id(sample_.instances.lost.front());
      return refused(actions_text(sample_.program, id), " is no instruction of the periodic program");
    }
    for (std::size_t s = 0; s < family_.series.size(); ++s) {
      PPSIM_RETURN_IF_ERROR(check_series(static_cast<int>(s)));
    }
    PPSIM_RETURN_IF_ERROR(check_waits_known());
    PPSIM_RETURN_IF_ERROR(check_waits_hold());
    return check_events();
  }

 private:
  [[nodiscard]] std::span<const InstructionId> ids(int series) const {
    const auto s = as_size(series);
    if (s >= sample_.instances.of_series.size()) return {};
    return sample_.instances.of_series[s];
  }

  [[nodiscard]] Expected<void> check_series(int number) const {
    const Series& series = family_.series[as_size(number)];
    if (sample_.instances.count(number) != series.count.at(sample_.k))
      return refused("rank ", std::to_string(series.rank.value()), " has another number of some instruction");
    const auto instances = ids(number);
    for (std::size_t i = 0; i < instances.size(); ++i) {
      const bool in_order = i == 0 || sample_.order.precedes(instances[i - 1], instances[i]);
      if (!in_order || !has_microbatches(series, instances[i], static_cast<std::int64_t>(i)))
        return refused(text_of(sample_, number), " does not come again in order");
    }
    return {};
  }

  [[nodiscard]] bool has_microbatches(const Series& series, InstructionId id, std::int64_t instance) const {
    const auto actions = sample_.program.actions(id);
    for (std::size_t a = 0; a < actions.size(); ++a) {
      if (actions[a].microbatch != series.microbatch[a].at(sample_.k) + series.stride * instance)
        return false;
    }
    return true;
  }

  /// Every wait of the sample is one of the periodic program.
  [[nodiscard]] Expected<void> check_waits_known() const {
    for (const ShiftedWait& wait : shifted_waits(sample_)) {
      const auto [first, last] = std::equal_range(
          family_.waits.begin(), family_.waits.end(), SeriesWait{wait.before, wait.after, {}},
          [](const SeriesWait& a, const SeriesWait& b) {
            return std::pair(a.before, a.after) < std::pair(b.before, b.after);
          });
      const bool known =
          std::any_of(first, last, [&](const SeriesWait& w) { return w.shift.at(sample_.k) >= wait.shift; });
      if (!known)
        return refused(text_of(sample_, wait.after), " has a wait for ", text_of(sample_, wait.before),
                       " that others of its kind have not");
    }
    return {};
  }

  /// Every wait of the periodic program is implied by those of the sample.
  [[nodiscard]] Expected<void> check_waits_hold() const {
    for (const SeriesWait& wait : family_.waits) {
      const auto before = ids(wait.before);
      const auto after = ids(wait.after);
      const std::int64_t shift = wait.shift.at(sample_.k);
      for (std::size_t i = 0; i < after.size() && !before.empty(); ++i) {
        const std::int64_t needed =
            std::min(static_cast<std::int64_t>(i) + shift, static_cast<std::int64_t>(before.size()));
        if (needed <= 0) continue;
        if (!sample_.order.precedes(before[as_size(needed - 1)], after[i]))
          return refused(text_of(sample_, wait.after), " lacks a wait for ", text_of(sample_, wait.before),
                         " that others of its kind have");
      }
    }
    return {};
  }

  [[nodiscard]] Expected<void> check_together(std::span<const InstructionId> members) const {
    const int event = family_.series[as_size(sample_.series(members.front()))].event;
    const bool same = std::ranges::all_of(members, [&](InstructionId id) {
      return family_.series[as_size(sample_.series(id))].event == event &&
             sample_.index(id) == sample_.index(members.front());
    });
    const bool all = event >= 0 && members.size() == family_.events[as_size(event)].size();
    if (!same || !all)
      return refused(actions_text(sample_.program, members.front()), " meets what others of its kind do not");
    return {};
  }

  [[nodiscard]] Expected<void> check_events() const {
    for (const Message& message : sample_.graph.messages) {
      if (!message.complete() || !message.matched)
        return refused("a message without counterpart, or between different tensors");
      PPSIM_RETURN_IF_ERROR(check_together(std::array{message.send, message.receive}));
    }
    for (const CollectiveMatch& match : sample_.graph.matches) {
      if (!match.complete || !match.matched) return refused("a collective that does not match");
      PPSIM_RETURN_IF_ERROR(check_together(sample_.graph.members_of(match)));
    }
    return {};
  }

  const PeriodicProgram& family_;
  const Sample& sample_;
};

SeriesTable table_of(const PeriodicProgram& family) {
  SeriesTable table;
  for (const Series& series : family.series) {
    table.add(key_of(series.rank, series.actions, series.part));
    table.set_split(key_of(series.rank, series.actions, 0), series.split);
  }
  return table;
}

/// As many as a period adds; those of which it adds none stand each for itself.
void set_splits(const Program& at_k, const Program& at_next, SeriesTable& table) {
  std::map<SeriesKey, int> next = occurrences_of(at_next);
  for (const auto& [key, count] : occurrences_of(at_k)) {
    const int added = next[key] - count;
    table.set_split(key, added > 0 ? added : count);
  }
}

Expected<AnalyzedProgram> plain_program(const Program& program, const SeriesRule& rule) {
  const AnalyzedProgram analyzed(program, always(rule.launches));
  PPSIM_RETURN_IF_ERROR(check_plain(program, analyzed.graph()));
  return analyzed;
}

}  // namespace

Sample::Sample(const AnalyzedProgram& of, const SeriesRule& rule, SeriesTable& table, bool may_add)
    : analyzed(of),
      order(program, graph),
      instances(instances_of(program, rule, table, may_add)),
      k(program.pipeline().microbatches() / rule.period) {}

Expected<PeriodicProgram> find_periodic(const Program& at_k, const Program& at_next, const SeriesRule& rule,
                                        bool with_tensors) {
  PPSIM_ASSIGN_OR_RETURN(const auto first, plain_program(at_k, rule));
  PPSIM_ASSIGN_OR_RETURN(const auto next, plain_program(at_next, rule));
  SeriesTable table;
  set_splits(at_k, at_next, table);
  const Sample a(first, rule, table, true);
  const int known = table.size();
  const Sample b(next, rule, table, true);
  if (table.size() != known) return refused("an instruction occurs with more microbatches only");
  PeriodicProgram family;
  family.ranks = at_k.pipeline().ranks();
  family.rule = rule;
  family.remainder = at_k.pipeline().microbatches() % rule.period;
  family.first = static_cast<int>(a.k);
  for (int s = 0; s < known; ++s) {
    PPSIM_RETURN_IF_ERROR(fit_series(a, b, s, family));
  }
  for (const auto& [key, s] : table.numbers()) {
    Series& series = family.series[as_size(s)];
    series.part = key[1];
    series.split = table.split(key_of(series.rank, series.actions, 0));
  }
  PPSIM_RETURN_IF_ERROR(fit_waits(a, b, family));
  fit_events(a, family);
  for (const Sample* sample : {&a, &b}) {
    PPSIM_RETURN_IF_ERROR(MemberCheck(family, *sample).run());
  }
  family.with_tensors = with_tensors;
  if (!with_tensors) return family;
  PPSIM_ASSIGN_OR_RETURN(auto tensors, find_tensors(a, b));
  family.tensors = std::move(tensors);
  return family;
}

Expected<void> check_member(const PeriodicProgram& family, const Program& program) {
  PPSIM_ASSIGN_OR_RETURN(const auto analyzed, plain_program(program, family.rule));
  SeriesTable table = table_of(family);
  const Sample sample(analyzed, family.rule, table, false);
  auto good = MemberCheck(family, sample).run();
  if (!good || !family.with_tensors) return good;
  return check_tensors(family.tensors, sample);
}

}  // namespace ppsim::verifier
