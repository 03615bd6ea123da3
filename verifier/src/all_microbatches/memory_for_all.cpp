#include <algorithm>

#include "../worst_case.hpp"
#include "ppsim/core/tensors.hpp"
#include "ppsim/verifier/memory.hpp"
#include "proofs.hpp"
#include "smt.hpp"

namespace ppsim {
namespace {

/// "89" or "80-plus-3k".
std::string name_of(const Growing& bytes) {
  std::string text = std::to_string(bytes.constant);
  if (bytes.per_period != 0) text += "-plus-" + std::to_string(bytes.per_period) + "k";
  return text;
}

/// "89" or "80 + 3k".
std::string text_of(const Growing& bytes) {
  std::string text = std::to_string(bytes.constant);
  if (bytes.per_period != 0) text += " + " + std::to_string(bytes.per_period) + "k";
  return text;
}

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
      const auto rank = static_cast<std::size_t>(r);
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
    return replay(*smallest);
  }

  FamilyAnswer replay(std::int64_t k) const {
    const auto program = is_in_reach(k) ? question_.source.get(family_.microbatches(k)) : nullptr;
    if (program == nullptr)
      return {Unknown{"the number that needs too much could not be replayed"}, 0, "smt"};
    VerifyOptions options;
    options.properties = {Property::memory};
    options.sizes = sizes_;
    options.memory_limit = question_.options.memory_limit;
    options.timeout_s = std::max(question_.deadline.remaining_s(), 0.001);
    options.memory_budget = question_.options.memory_budget;
    const VerifyReport report = verify(*program, options);
    const PropertyResult& result = report.results.front();
    if (std::holds_alternative<Proved>(result.verdict))
      return {Unknown{"a state of Z3 is none of the Program's"}, 0, "smt"};
    return {result.verdict, program->pipeline().microbatches(), result.method, result.notes};
  }

  /// Of the question whether the rank can need more than `bytes`.
  [[nodiscard]] QueryTitle title_of(RankId rank, const Growing& bytes) const {
    const std::string number = std::to_string(rank.value());
    return {"memory-rank" + number + "-above-" + name_of(bytes), subject_,
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
    return program == nullptr ? std::nullopt : worst_cases(question_.limits(), *program, sizes_);
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
                                              const SizeTable& sizes) {
  const ExecutionGraph graph = build_execution_graph(program, rendezvous());
  const RunOrder order = run_order(graph);
  if (!order.complete) return std::nullopt;
  const TensorTable table = tensor_table(program);
  const std::vector<Bytes> bytes = tensor_sizes(table, sizes);
  const MemoryQuestion question{program, graph, order, table, bytes};
  std::vector<Bytes> result;
  for (int r = 0; r < program.pipeline().ranks(); ++r) {
    const auto worst = worst_case_within(limits, question, RankId(r));
    if (!worst) return std::nullopt;
    result.push_back(worst->bytes);
  }
  return result;
}

FamilyAnswer memory_for_all(const AllQuestion& question, const PeriodicProgram& family,
                            std::vector<MemoryForAll>& bounds) {
  if (question.options.capabilities.credits)
    return {Unknown{"messages that a transport buffers are not followed over all microbatches"}, 0, "smt"};
  FamilyAnswer answer = guarded([&] { return BoundSearch(question, family).run(bounds); });
  if (question.options.capabilities.residency)
    answer.notes.emplace_back("upper bound: the residency limit is left out");
  return answer;
}

}  // namespace ppsim
