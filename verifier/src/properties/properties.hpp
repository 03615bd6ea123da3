#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../limits.hpp"
#include "ppsim/core/execution/execution_graph.hpp"
#include "ppsim/core/ir/program.hpp"
#include "ppsim/verifier/verify.hpp"

namespace ppsim::verifier {

/// What the properties of one Program have in common. Built once, in the order of the members.
struct Question {
  const Program& program;
  const VerifyOptions& options;
  const Deadline& deadline;
  ExecutionGraph graph;
  RunOrder order;
  std::optional<ExecutionGraph> fewer_waits;  ///< those that always occur, where others may
  bool matched = true;                        ///< no message or meeting of different things
  bool finishes = false;                      ///< deadlock_free is proved

  /// The graph of the orders that every run keeps: what bounds rest on. `order` is one of it, too.
  [[nodiscard]] const ExecutionGraph& guaranteed() const { return fewer_waits ? *fewer_waits : graph; }
  [[nodiscard]] Limits limits() const { return {deadline, options.memory_budget}; }
  /// Why it does not. Requires: !finishes.
  [[nodiscard]] std::string why_stuck() const {
    return matched ? "the Program deadlocks, which deadlock_free shows"
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

/// The most communication operations that queues alone let a rank have under way.
[[nodiscard]] int most_under_way(const Program& program);

}  // namespace ppsim::verifier
