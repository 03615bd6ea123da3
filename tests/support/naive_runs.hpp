#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "ppsim/core/execution/naive_executor.hpp"
#include "support/hand_program.hpp"

namespace ppsim::test {

/// The result of the step-by-step executor, as text that tests compare.
struct Ran {
  NaiveRun::Outcome outcome;
  /// Spans of each rank in list order, `start-end`, rounds after a point, `x` for what did not complete.
  std::vector<std::string> ranks;
  friend bool operator==(const Ran&, const Ran&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Ran& ran);
};
Ran finished(std::vector<std::string> ranks);
Ran deadlock(std::vector<std::string> ranks);

/// Every kind costs something else, so that sums tell what was waited for.
CostTable costs_of_kinds();
Ran run_step_by_step(const Program& program, const TransportCapabilities& capabilities = rendezvous(),
                     const CostTable& table = costs_of_kinds());

/// One stage on one rank.
Program alone(int microbatches, std::vector<std::string> row);
/// Two stages on two ranks; communicators 0 and 1 between them.
HandProgram two(int microbatches, std::vector<std::string> first, std::vector<std::string> second);
TransportCapabilities credits(int n);

}  // namespace ppsim::test
