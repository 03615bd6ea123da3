#pragma once

#include <string>

#include "ppsim/core/execution/analyzed_program.hpp"
#include "ppsim/verifier/solver/solver_query.hpp"

namespace ppsim::verifier {

/// A solver's verdict on deadlock, for comparison with the graph.
struct SolverAnswer {
  enum class Outcome { deadlock_free, deadlock, unknown };
  Outcome outcome = Outcome::unknown;
  std::string reason;  ///< of `unknown`
};

/// Asks Z3 for a time for every start, message and match such that each comes after all that it waits for:
/// a model exists if and only if the Program cannot deadlock. A model is replayed before it is believed. For
/// small Programs: refuses more than kSolverEventLimit events and every residency limit (both: unknown with
/// the reason).
[[nodiscard]] SolverAnswer deadlock_by_z3(const AnalyzedProgram& analyzed,
                                          const SolverOptions& options = {.timeout_s = 10});

inline constexpr int kSolverEventLimit = 20'000;

}  // namespace ppsim::verifier

namespace ppsim {
using verifier::deadlock_by_z3;
using verifier::kSolverEventLimit;
using verifier::SolverAnswer;
}  // namespace ppsim
