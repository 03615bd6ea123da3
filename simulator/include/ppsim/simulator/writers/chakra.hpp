#pragma once

#include <iosfwd>

#include "ppsim/core/execution/analyzed_program.hpp"
#include "ppsim/core/ir/error.hpp"
#include "ppsim/core/ir/tables.hpp"

namespace ppsim::simulator {

/// A Program with its costs. Only refers to its parts.
struct ChakraInput {
  const AnalyzedProgram& analyzed;
  const CostTable& costs;
  const SizeTable& sizes;
};

/// Whether a Chakra trace can say it.
/// Errors: bad_argument for a message or sum without a size; refused for collectives within a microbatch,
/// whose sizes nothing says.
[[nodiscard]] Expected<void> check_chakra(const ChakraInput& input);

/// Writes one rank as an execution trace of MLCommons Chakra, which ASTRA-sim runs: a node for each action,
/// or overlapped pair. What an instruction waits for on its rank are the dependencies of its nodes: the
/// results that it needs as data, all other waits (its queue, `after`, the host, launches) as control. Nodes
/// of a message have the same comm_tag on both ranks. A sum or gather over one rank is computation.
///
/// Units: microseconds, rounded, as the format has them.
/// Requires: check_chakra.
void write_chakra(std::ostream& out, const ChakraInput& input, RankId rank);

/// The ranks of each `pg_name` of the traces, as ASTRA-sim reads them: {"1": [0, 1]}.
void write_chakra_groups(std::ostream& out, const ChakraInput& input);

}  // namespace ppsim::simulator

namespace ppsim {
using simulator::ChakraInput;
using simulator::check_chakra;
using simulator::write_chakra;
using simulator::write_chakra_groups;
}  // namespace ppsim
