#pragma once

#include <z3++.h>

#include <string>

#include "limits.hpp"
#include "query.hpp"

namespace ppsim::verifier {

/// Parameters of a question that may take so long. SIGINT stays with the program: what Z3 would do about it
/// is to give up one question and go on.
[[nodiscard]] z3::params parameters_of_question(z3::context& context, double timeout_s);

/// An answer of Z3.
struct SolverReply {
  SolverQuery::Answer answer = SolverQuery::Answer::unknown;
  std::string reason;  ///< of `unknown`
};

/// Whether what `solver` holds can be satisfied, within the limits; a crash of Z3 is an unknown with a
/// reason. Nobody is told.
[[nodiscard]] SolverReply check_within(z3::solver& solver, const SolverOptions& limits);

/// The same, and tells options.queries.
[[nodiscard]] SolverReply ask_z3(z3::solver& solver, const QueryTitle& title, const SolverOptions& options);

}  // namespace ppsim::verifier
