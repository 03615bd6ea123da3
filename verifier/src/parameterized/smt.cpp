#include "smt.hpp"

#include "ppsim/core/ir/hash.hpp"

namespace ppsim::verifier {

std::string subject_of(const AllQuestion& question, const PeriodicProgram& family) {
  if (!question.options.queries) return {};
  const int first = family.microbatches(family.first);
  const auto program = question.source.get(first);
  return std::to_string(family.rule.period) + "k + " + std::to_string(family.remainder) +
         " microbatches, k >= " + std::to_string(family.first) + "; Program " +
         (program == nullptr ? "unknown" : program_hash(*program)) + " for " + std::to_string(first);
}

StateQuestion::StateQuestion(z3::context& context, const Counters& counters, const AllQuestion& question)
    : context_(context), counters_(counters), question_(question), solver_(context, "QF_LIA") {
  // The older simplex of Z3: on these questions two to three times as fast as the default.
  z3::params params(context);
  params.set("arith.solver", 2U);
  solver_.set(params);
  solver_.add(counters.states());
}

SmtAnswer StateQuestion::ask(const QueryTitle& title) {
  const AllMicrobatchesOptions& options = question_.options;
  const SolverReply reply =
      ask_z3(solver_, title, {question_.deadline.remaining_s(), options.memory_budget, options.queries});
  switch (reply.answer) {
    case SolverQuery::Answer::unsat:
      return {SmtAnswer::Outcome::never, 0, ""};
    case SolverQuery::Answer::unknown:
      return {SmtAnswer::Outcome::unknown, 0, reply.reason};
    case SolverQuery::Answer::sat:
      break;
  }
  return {SmtAnswer::Outcome::sometimes, solver_.get_model().eval(counters_.k(), true).get_numeral_int64(),
          ""};
}

SmtAnswer StateQuestion::ask_smallest(std::int64_t from, const QueryTitle& title) {
  solver_.push();
  solver_.add(counters_.k() >= context_.int_val(from));
  QueryTitle narrowed = title;
  narrowed.name += "-k-from-" + std::to_string(from);
  SmtAnswer best = ask(narrowed);
  while (best.outcome == SmtAnswer::Outcome::sometimes && best.k > from) {
    solver_.add(counters_.k() < context_.int_val(best.k));
    narrowed.name = title.name + "-k-below-" + std::to_string(best.k);
    const SmtAnswer smaller = ask(narrowed);
    if (smaller.outcome == SmtAnswer::Outcome::never) break;
    best = smaller;
  }
  solver_.pop();
  return best;
}

}  // namespace ppsim::verifier
