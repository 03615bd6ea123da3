#include <algorithm>
#include <limits>
#include <utility>

#include "cutoff.hpp"
#include "memory/worst_case.hpp"
#include "ppsim/core/memory/tensors.hpp"
#include "ppsim/verifier/memory/memory.hpp"
#include "proofs.hpp"
#include "smt.hpp"

namespace ppsim::verifier {
namespace {

/// "89" or "80-plus-3k".
std::string bytes_name(const AffineCount& bytes) {
  std::string text = std::to_string(bytes.constant);
  if (bytes.per_period != 0) text += "-plus-" + std::to_string(bytes.per_period) + "k";
  return text;
}

/// "89" or "80 + 3k".
std::string text_of(const AffineCount& bytes) {
  std::string text = std::to_string(bytes.constant);
  if (bytes.per_period != 0) text += " + " + std::to_string(bytes.per_period) + "k";
  return text;
}

/// The family with the ends that bounds may count on: members of a collective end one by one once all have
/// started, and an eager SEND before its RECV.
PeriodicProgram with_ends_apart(PeriodicProgram family, bool eager) {
  const auto joined = std::exchange(family.events, {});
  const auto add_event = [&](std::vector<int> members) {
    for (const int s : members) family.series[as_size(s)].event = static_cast<int>(family.events.size());
    family.events.push_back(std::move(members));
  };
  const auto wait_for_start_of = [&](int member, int after) {
    for (const SeriesWait& w : family.waits) {
      if (w.after == member) family.end_waits.push_back({w.before, after, w.shift});
    }
  };
  for (const std::vector<int>& members : joined) {
    const OpKind kind = family.series[as_size(members.front())].actions.front().kind;
    const bool meets = is_collective(kind);
    if (members.size() == 1 || (!meets && !eager)) {
      add_event(members);
      continue;
    }
    for (const int after : members) {
      add_event({after});
      for (const int member : members) {
        if (meets && member != after) wait_for_start_of(member, after);
      }
    }
    if (!meets) family.end_waits.push_back({members.front(), members.back(), {1, 0}});
  }
  return family;
}

/// The waits that every run of a family's members keeps.
TransportCapabilities kept_waits(const PeriodicProgram& family, bool eager) {
  TransportCapabilities waits = always(family.rule.launches);
  if (eager) waits.credits = kUnlimitedCredits;
  return waits;
}

constexpr const char* kNotReplayed = "the number that needs too much could not be replayed";

/// verify's answer about memory for one number of microbatches; nothing where it is not known.
std::optional<FamilyAnswer> replay(const AllQuestion& question, std::int64_t microbatches) {
  const auto program = question.source.is_in_reach(microbatches)
                           ? question.source.get(static_cast<int>(microbatches))
                           : nullptr;
  if (program == nullptr) return std::nullopt;
  const VerifyReport report = verify_one(question, Property::memory, *program);
  const PropertyResult& result = report.results.front();
  return FamilyAnswer{result.verdict, program->pipeline().microbatches(), result.method, result.notes};
}

/// Bounds from single members by minimum cuts, where states of long ones have counterparts in shorter ones:
/// then what the first members need tells what all do, whatever the sizes are.
class MemberSearch {
 public:
  MemberSearch(const AllQuestion& question, const PeriodicProgram& family)
      : question_(question), family_(family), sizes_(*question.options.sizes) {}

  /// Nothing: the family has no such counterparts, or its members are too large to look at.
  std::optional<FamilyAnswer> run(std::vector<MemoryForAll>& bounds) {
    const auto cutoff = find_cutoff(family_, sizes_);
    if (!cutoff || !is_affordable(cutoff->from + 1)) return std::nullopt;
    if (!look_at_long(*cutoff)) return std::nullopt;
    for (std::int64_t k = cutoff->from - 1; k >= family_.first; --k) {
      if (!look_at_short(k)) return std::nullopt;
    }
    bounds = bounds_;
    return judge();
  }

 private:
  /// Whether all members up to this one are of a size to look at each.
  [[nodiscard]] bool is_affordable(std::int64_t k) const {
    const std::int64_t members = k - family_.first + 1;
    return question_.source.is_in_reach(family_.microbatches(k) * members / 2);
  }

  [[nodiscard]] std::optional<std::vector<Bytes>> worst_at(std::int64_t k,
                                                           const std::vector<Bytes>& enough) const {
    const auto program = question_.source.get(family_.microbatches(k));
    if (program == nullptr) return std::nullopt;
    return worst_cases(question_.limits(), *program,
                       {sizes_, enough, kept_waits(family_, question_.options.capabilities.eager)});
  }

  void note_broken(const std::vector<Bytes>& worst, std::int64_t k) {
    const auto& limit = question_.options.memory_limit;
    if (limit && std::ranges::any_of(worst, [&](Bytes need) { return need > *limit; })) broken_at_ = k;
  }

  /// The lines that long members stay below: with each period some state may need as much more. Returns:
  /// whether the members could be looked at and the next one is below.
  bool look_at_long(const Cutoff& cutoff) {
    const auto worst = worst_at(cutoff.from, {});
    const auto next = worst_at(cutoff.from + 1, {});
    if (!worst || !next) return false;
    note_broken(*worst, cutoff.from);
    for (std::size_t r = 0; r < worst->size(); ++r) {
      const std::int64_t growth = cutoff.growth[r];
      bounds_.push_back({RankId(static_cast<std::int32_t>(r)),
                         {(*worst)[r] - growth * cutoff.from, growth},
                         family_.rule.period,
                         family_.microbatches(cutoff.from)});
      if ((*next)[r] > (*worst)[r] + growth) return false;
    }
    long_ = bounds_;
    return true;
  }

  bool look_at_short(std::int64_t k) {
    std::vector<Bytes> enough;
    for (const MemoryForAll& bound : bounds_)
      enough.push_back(
          std::min(bound.bytes.at(k), question_.options.memory_limit.value_or(bound.bytes.at(k))));
    const auto worst = worst_at(k, enough);
    if (!worst) return false;
    note_broken(*worst, k);
    for (MemoryForAll& bound : bounds_) {
      const Bytes need = (*worst)[bound.rank.index()];
      if (need <= bound.bytes.at(k)) continue;
      bound.bytes.constant += need - bound.bytes.at(k);
      bound.reached_at = family_.microbatches(k);
    }
    return true;
  }

  /// The smallest member with a rank beyond the limit.
  [[nodiscard]] FamilyAnswer judge() const {
    if (!question_.options.memory_limit) return {Proved{}, 0, "flow"};
    std::optional<std::int64_t> smallest = broken_at_;
    for (const MemoryForAll& line : long_) {
      if (broken_at_ || line.bytes.per_period == 0) continue;
      const std::int64_t k =
          (*question_.options.memory_limit - line.bytes.constant) / line.bytes.per_period + 1;
      smallest = std::min(smallest.value_or(k), k);
    }
    if (smallest) return refuted_from(*smallest);
    return {Proved{}, 0, "flow"};
  }

  /// The lines may be above the needs, so a few more members are tried.
  [[nodiscard]] FamilyAnswer refuted_from(std::int64_t k) const {
    constexpr int kMaxMemoryReplays = 20;
    for (int i = 0; i < kMaxMemoryReplays; ++i, ++k) {
      auto answer = replay(question_, family_.rule.period * k + family_.remainder);
      if (answer && std::holds_alternative<Refuted>(answer->verdict)) return *std::move(answer);
      if (!answer || !std::holds_alternative<Proved>(answer->verdict)) break;
    }
    const std::string of =
        family_.rule.period == 1 ? "" : " (mod " + std::to_string(family_.rule.period) + ")";
    return {Unknown{"within the limit for all m" +
                    (of.empty() ? of : " = " + std::to_string(family_.remainder) + of) + " below " +
                    std::to_string(family_.rule.period * k + family_.remainder) +
                    ", but the need may grow with m and exceed it later"},
            0, "flow"};
  }

  const AllQuestion& question_;
  const PeriodicProgram& family_;
  const SizeTable& sizes_;
  std::vector<MemoryForAll> bounds_;
  std::vector<MemoryForAll> long_;         ///< of these, what long members alone say
  std::optional<std::int64_t> broken_at_;  ///< the smallest member that was looked at and is beyond the limit
};

/// The bounds of one family's ranks in the making.
class BoundSearch {
 public:
  BoundSearch(const AllQuestion& question, const PeriodicProgram& family)
      : question_(question),
        family_(family),
        sizes_(*question.options.sizes),
        counters_(context_, family),
        subject_(subject_of(question, family)) {}

  FamilyAnswer run(std::vector<MemoryForAll>& bounds) {
    if (std::string why = guess(); !why.empty()) return {Unknown{why}, 0, "smt"};
    for (MemoryForAll& bound : bounds_) {
      if (std::string why = prove(bound); !why.empty()) return {Unknown{why}, 0, "smt"};
    }
    bounds = bounds_;
    return judge();
  }

 private:
  /// The line through the worst cases of the first two large members, which grows where they do.
  std::string guess() {
    const int least = steady_from(family_.ranks) + family_.rule.head + family_.rule.tail;
    const std::int64_t k = std::max<std::int64_t>(family_.first, least / family_.rule.period + 1);
    const auto at_k = worst_at(k);
    const auto at_next = worst_at(k + 1);
    if (!at_k || !at_next)
      return question_.deadline.over() ? "time limit reached"
                                       : "the worst case of one number of microbatches is not known";
    for (int r = 0; r < family_.ranks; ++r) {
      const auto rank = as_size(r);
      const std::int64_t growth = std::max<std::int64_t>((*at_next)[rank] - (*at_k)[rank], 0);
      bounds_.push_back(
          {RankId(r), {(*at_k)[rank] - growth * k, growth}, family_.rule.period, family_.microbatches(k)});
    }
    return {};
  }

  /// Asks for a state of any member beyond the bound, and raises the bound by what that member needs.
  std::string prove(MemoryForAll& bound) {
    StateQuestion beyond(context_, counters_, question_);
    z3::expr_vector definitions(context_);
    const z3::expr bytes = counters_.memory(bound.rank, sizes_, definitions);
    beyond.add(definitions);
    for (;;) {
      beyond.add(bytes > counters_.value(bound.bytes));
      const QueryTitle title = title_of(bound.rank, bound.bytes);
      SmtAnswer answer = beyond.ask(title);
      if (answer.outcome == SmtAnswer::Outcome::sometimes && !is_in_reach(answer.k))
        answer = beyond.ask_smallest(family_.first, title);
      if (answer.outcome == SmtAnswer::Outcome::never) return {};
      if (answer.outcome == SmtAnswer::Outcome::unknown) return answer.reason;
      const auto worst = worst_at(answer.k);
      if (!worst)
        return question_.deadline.over() ? "time limit reached"
                                         : "the worst case of one number of microbatches is not known";
      const Bytes need = (*worst)[bound.rank.index()];
      if (need <= bound.bytes.at(answer.k)) return "a state of Z3 is none of the Program's";
      bound.bytes.constant += need - bound.bytes.at(answer.k);
      bound.reached_at = family_.microbatches(answer.k);
    }
  }

  /// The smallest member with a rank beyond the limit.
  FamilyAnswer judge() {
    if (!question_.options.memory_limit) return {Proved{}, 0, "smt"};
    const Bytes limit = *question_.options.memory_limit;
    std::optional<std::int64_t> smallest;
    for (const MemoryForAll& bound : bounds_) {
      if (bound.bytes.per_period == 0 && bound.bytes.constant <= limit) continue;
      StateQuestion beyond(context_, counters_, question_);
      z3::expr_vector definitions(context_);
      beyond.add(counters_.memory(bound.rank, sizes_, definitions) > context_.int_val(limit));
      beyond.add(definitions);
      if (smallest) beyond.add(counters_.k() < context_.int_val(*smallest));
      const SmtAnswer answer = beyond.ask_smallest(family_.first, title_of(bound.rank, {limit, 0}));
      if (answer.outcome == SmtAnswer::Outcome::unknown) return {Unknown{answer.reason}, 0, "smt"};
      if (answer.outcome == SmtAnswer::Outcome::sometimes) smallest = answer.k;
    }
    if (!smallest) return {Proved{}, 0, "smt"};
    auto answer = replay(question_, family_.rule.period * *smallest + family_.remainder);
    if (!answer) return {Unknown{kNotReplayed}, 0, "smt"};
    if (std::holds_alternative<Proved>(answer->verdict))
      return {Unknown{"a state of Z3 is none of the Program's"}, 0, "smt"};
    return *std::move(answer);
  }

  /// Of the question whether the rank can need more than `bytes`.
  [[nodiscard]] QueryTitle title_of(RankId rank, const AffineCount& bytes) const {
    const std::string number = std::to_string(rank.value());
    return {"memory-rank" + number + "-above-" + bytes_name(bytes), subject_,
            "Is there a state, for some number k of periods, in which rank " + number + " needs more than " +
                text_of(bytes) + " bytes?",
            "QF_LIA"};
  }

  [[nodiscard]] bool is_in_reach(std::int64_t k) const {
    return question_.source.is_in_reach(family_.rule.period * k + family_.remainder);
  }

  [[nodiscard]] std::optional<std::vector<Bytes>> worst_at(std::int64_t k) const {
    if (!is_in_reach(k)) return std::nullopt;
    const auto program = question_.source.get(family_.microbatches(k));
    if (program == nullptr) return std::nullopt;
    return worst_cases(question_.limits(), *program,
                       {sizes_, {}, kept_waits(family_, question_.options.capabilities.eager)});
  }

  const AllQuestion& question_;
  const PeriodicProgram& family_;
  const SizeTable& sizes_;
  z3::context context_;
  Counters counters_;
  std::string subject_;
  std::vector<MemoryForAll> bounds_;
};

}  // namespace

std::optional<std::vector<Bytes>> worst_cases(const Limits& limits, const Program& program,
                                              const RankSizes& of_ranks) {
  const AnalyzedProgram analyzed(program, of_ranks.waits);
  if (!analyzed.order().complete) return std::nullopt;
  const std::vector<Bytes> bytes = tensor_sizes(analyzed.tensors(), of_ranks.sizes);
  constexpr Bytes kMax = std::numeric_limits<Bytes>::max();
  std::vector<Bytes> result(as_size(program.pipeline().ranks()), 0);
  for (std::size_t t = 0; t < bytes.size(); ++t) {
    Bytes& all = result[analyzed.tensors().tensors[t].rank.index()];
    all = bytes[t] > kMax - all ? kMax : all + bytes[t];
  }
  std::vector<RankId> ranks;
  for (std::size_t r = 0; r < result.size(); ++r) {
    if (of_ranks.enough.empty() || result[r] > of_ranks.enough[r])
      ranks.emplace_back(static_cast<std::int32_t>(r));
  }
  for (const std::optional<WorstCase>& worst : worst_cases_within(limits, analyzed, bytes, ranks)) {
    if (!worst) return std::nullopt;
    result[worst->rank.index()] = worst->bytes;
  }
  return result;
}

FamilyAnswer memory_for_all(const AllQuestion& question, const PeriodicProgram& family,
                            std::vector<MemoryForAll>& bounds) {
  const TransportCapabilities& transport = question.options.capabilities;
  if (transport.credits && !transport.eager)
    return {Unknown{"messages that a transport buffers are not followed over all microbatches"}, 0, "smt"};
  const PeriodicProgram apart = with_ends_apart(family, transport.eager);
  FamilyAnswer answer = guarded([&] {
    // Whoever wants to see queries is asked to follow Z3, which answers the same.
    if (!question.options.queries) {
      if (const auto found = MemberSearch(question, apart).run(bounds)) return *found;
    }
    return BoundSearch(question, apart).run(bounds);
  });
  if (transport.residency) answer.notes.emplace_back("upper bound: the residency limit is left out");
  return answer;
}

}  // namespace ppsim::verifier
