#include "query.hpp"

#include "ppsim/core/ir/check.hpp"

namespace ppsim::verifier {

std::string_view answer_name(SolverQuery::Answer answer) {
  switch (answer) {
    case SolverQuery::Answer::sat:
      return "sat";
    case SolverQuery::Answer::unsat:
      return "unsat";
    case SolverQuery::Answer::unknown:
      return "unknown";
  }
  PPSIM_CHECK(false, "an answer without a name");
}

SolverQuery query_of(const QueryTitle& title, SolverQuery::Answer answer, const std::string& body) {
  std::string script = "; " + title.question + "\n; " + title.subject + "\n";
  script += "(set-info :smt-lib-version 2.6)\n(set-info :status ";
  script += answer_name(answer);
  script += ")\n(set-logic " + title.logic + ")\n" + body + "(check-sat)\n(exit)\n";
  return {title.name, answer, std::move(script)};
}

}  // namespace ppsim::verifier
