#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../limits.hpp"
#include "ppsim/core/execution/analyzed_program.hpp"
#include "ppsim/verifier/verify.hpp"

namespace ppsim::verifier {

/// A Program and the limits that its properties are decided within.
struct Question {
  const AnalyzedProgram& analyzed;
  const VerifyOptions& options;
  const Deadline& deadline;
  const Program& program = analyzed.program();

  [[nodiscard]] Limits limits() const { return {deadline, options.memory_budget}; }
  /// Why a Program that does not finish does not.
  [[nodiscard]] std::string why_stuck() const {
    return analyzed.is_matched() ? "the Program deadlocks, which deadlock_free shows"
                                 : "messages do not match, which matched shows";
  }
};

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

Answer check_well_formed(const Question& question);
Answer check_matched(const Question& question);
Answer check_deadlock_free(const Question& question);
Answer check_collective_order(const Question& question);
Answer check_ascending_accumulation(const Question& question);
Answer check_weight_versions(const Question& question);
Answer check_tensor_use(const Question& question);
Answer check_memory(const Question& question, std::vector<WorstCase>& worst);
Answer check_makespan(const Question& question, std::optional<MakespanRange>& range);

/// The most communication operations that a rank's queues let it have in flight.
[[nodiscard]] int max_in_flight(const Program& program);

}  // namespace ppsim::verifier
