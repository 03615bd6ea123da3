#pragma once

#include <string>

#include "ppsim/verifier/solver/solver_query.hpp"

namespace ppsim::verifier {

/// How a query is called and explained in its file.
struct QueryTitle {
  std::string name;
  std::string subject;   ///< "Program 0123...": what it is about
  std::string question;  ///< that `sat` answers with yes
  std::string logic;     ///< of the standard
};

/// The file of a query whose declarations and assertions are `body`.
[[nodiscard]] SolverQuery query_of(const QueryTitle& title, SolverQuery::Answer answer,
                                   const std::string& body);

}  // namespace ppsim::verifier
