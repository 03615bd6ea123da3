#include "smt.hpp"

#include <algorithm>

namespace ppsim {

StateQuestion::StateQuestion(z3::context& context, const Counters& counters, const Deadline& deadline)
    : context_(context), counters_(counters), deadline_(deadline), solver_(context, "QF_LIA") {
  // The older simplex of Z3: on these questions two to three times as fast as the default.
  z3::params params(context);
  params.set("arith.solver", 2U);
  solver_.set(params);
  solver_.add(counters.states());
}

SmtAnswer StateQuestion::ask() {
  if (deadline_.over()) return {SmtAnswer::Outcome::unknown, 0, "time limit reached"};
  z3::params params(context_);
  params.set("timeout", static_cast<unsigned>(std::clamp(deadline_.remaining_s() * 1000, 1.0, 4e9)));
  solver_.set(params);
  switch (solver_.check()) {
    case z3::unsat:
      return {SmtAnswer::Outcome::never, 0, ""};
    case z3::unknown:
      return {SmtAnswer::Outcome::unknown, 0,
              deadline_.over() ? "time limit reached" : "Z3: " + solver_.reason_unknown()};
    case z3::sat:
      break;
  }
  return {SmtAnswer::Outcome::sometimes, solver_.get_model().eval(counters_.k(), true).get_numeral_int64(),
          ""};
}

SmtAnswer StateQuestion::ask_smallest(std::int64_t from) {
  solver_.push();
  solver_.add(counters_.k() >= context_.int_val(from));
  SmtAnswer best = ask();
  while (best.outcome == SmtAnswer::Outcome::sometimes && best.k > from) {
    solver_.add(counters_.k() < context_.int_val(best.k));
    const SmtAnswer smaller = ask();
    if (smaller.outcome == SmtAnswer::Outcome::never) break;
    best = smaller;
  }
  solver_.pop();
  return best;
}

}  // namespace ppsim
