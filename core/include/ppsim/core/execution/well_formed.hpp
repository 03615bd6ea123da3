#pragma once

#include <string>
#include <vector>

#include "ppsim/core/execution/execution_graph.hpp"
#include "ppsim/core/ir/program.hpp"

namespace ppsim {

/// One broken rule of a Program and the instruction that breaks it (invalid: something absent).
struct Violation {
  InstructionId instruction;
  std::string message;  ///< "rank 1: 1F0 needs 1RECV_F0, which is not on the rank"
  friend bool operator==(const Violation&, const Violation&) = default;
};

/// Every broken rule: an action on a wrong rank, missing or doubled; B beside I or W; a dependency or `after`
/// that is absent or stands later in the list; a SEND without RECV or the other way round.
[[nodiscard]] std::vector<Violation> well_formed_violations(const Program& program);
/// Requires: `graph` is of the Program, under whatever transport.
[[nodiscard]] std::vector<Violation> well_formed_violations(const Program& program,
                                                            const ExecutionGraph& graph);

/// Every message and every match whose ends name different tensors or collectives.
[[nodiscard]] std::vector<Violation> match_violations(const Program& program);
/// Requires: `graph` is of the Program, under whatever transport.
[[nodiscard]] std::vector<Violation> match_violations(const Program& program, const ExecutionGraph& graph);

}  // namespace ppsim
