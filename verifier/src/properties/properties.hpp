#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../limits.hpp"
#include "ppsim/core/execution/analyzed_program.hpp"
#include "ppsim/verifier/verify.hpp"

namespace ppsim::verifier {

/// An answer before name and time are put to it.
struct Answer {
  Verdict verdict;
  std::string method = "static";
  std::vector<std::string> notes = {};
};

inline Verdict proved_unless(std::vector<Violation> violations) {
  if (violations.empty()) return Proved{};
  return Refuted{std::move(violations)};
}

/// Why a Program that does not finish does not.
inline std::string why_stuck(const AnalyzedProgram& analyzed) {
  return analyzed.is_matched() ? "the Program deadlocks, which deadlock_free shows"
                               : "messages do not match, which matched shows";
}

Answer check_well_formed(const AnalyzedProgram& analyzed);
Answer check_matched(const AnalyzedProgram& analyzed);
Answer check_deadlock_free(const AnalyzedProgram& analyzed, const VerifyOptions& options,
                           const Deadline& deadline);
Answer check_collective_order(const AnalyzedProgram& analyzed);
Answer check_ascending_accumulation(const AnalyzedProgram& analyzed);
Answer check_weight_versions(const AnalyzedProgram& analyzed);
Answer check_tensor_use(const AnalyzedProgram& analyzed, const Limits& limits);
Answer check_memory(const AnalyzedProgram& analyzed, const VerifyOptions& options, const Limits& limits,
                    std::vector<WorstCase>& worst);
Answer check_makespan(const AnalyzedProgram& analyzed, const VerifyOptions& options,
                      std::optional<MakespanRange>& range);

/// The most communication operations that a rank's queues let it have in flight.
[[nodiscard]] int max_in_flight(const Program& program);

}  // namespace ppsim::verifier
