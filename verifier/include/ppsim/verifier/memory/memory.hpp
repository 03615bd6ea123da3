#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ppsim/core/certificate/certificate.hpp"
#include "ppsim/core/execution/analyzed_program.hpp"
#include "ppsim/core/ir/units.hpp"

namespace ppsim::verifier {

/// The most memory that a rank can need, over every timing that the execution model allows, and why.
struct WorstCase {
  RankId rank;
  Bytes bytes = 0;
  std::vector<std::uint32_t> live;  ///< tensors of the table that are live at the worst moment, ascending
  std::vector<InstructionId>
      reached;  ///< of the rank: at the worst moment exactly what must precede their starts is complete
  /// Proof of witness.bytes >= bytes; equal but for tensors with several last users and, with credits,
  /// groups.
  MemoryWitness witness;

  friend bool operator==(const WorstCase&, const WorstCase&) = default;
};

/// A Program that finishes, and what its tensors take. Only refers to its parts.
struct MemoryQuestion {
  const AnalyzedProgram& analyzed;
  const std::vector<Bytes>& sizes;  ///< per tensor of the table
  const Program& program = analyzed.program();
  const ExecutionGraph& graph = analyzed.guaranteed_graph();  ///< bounds rest on what always occurs
  const RunOrder& order = analyzed.order();
  const TensorTable& table = analyzed.tensors();
};

/// Exact worst case of one rank: a maximum-weight closure of the happens-before order of the rank's
/// completions, by minimum cut; where a tensor is freed by the last of several unordered users (or written
/// first by one of several), branch and bound over which one it is. Without residency limit; with one, an
/// upper bound. Returns: nothing when branch and bound needs more than `branch_limit` cuts. Source: Picard,
/// "Maximal closure of a graph", Management Science 22 (1976).
[[nodiscard]] std::optional<WorstCase> worst_case_memory(const MemoryQuestion& question, RankId rank,
                                                         std::size_t branch_limit = 10'000);

/// Starts and completions of all instructions in an order that a run can take, encoded as in RunOrder.
struct FiringOrder {
  std::vector<std::uint32_t> items;
  std::size_t moment = 0;  ///< how many items have happened at the worst moment

  friend bool operator==(const FiringOrder&, const FiringOrder&) = default;
};

/// A run that passes through the worst moment of `worst`.
[[nodiscard]] FiringOrder firing_order(const ExecutionGraph& graph, const RunOrder& order,
                                       const WorstCase& worst);

/// Memory of `rank` after the first `moment` items of a firing order, counted from the tensors alone.
[[nodiscard]] Bytes memory_at(const MemoryQuestion& question, RankId rank, const FiringOrder& firing);

}  // namespace ppsim::verifier

namespace ppsim {
using verifier::firing_order;
using verifier::FiringOrder;
using verifier::memory_at;
using verifier::MemoryQuestion;
using verifier::worst_case_memory;
using verifier::WorstCase;
}  // namespace ppsim
