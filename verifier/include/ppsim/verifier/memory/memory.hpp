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

/// How many cuts branch and bound may need unless told otherwise.
inline constexpr std::size_t kBranchLimit = 10'000;

/// Exact worst case of one rank: a maximum-weight closure of the happens-before order of the rank's
/// completions, by minimum cut; where a tensor is freed by the last of several unordered users (or written
/// first by one of several), branch and bound over which one it is. Without residency limit; with one, an
/// upper bound. The order is that of the waits which always occur. `sizes` has what each tensor of
/// analyzed.tensors() takes. Requires: the Program finishes. Returns: nothing when branch and bound needs
/// more than `branch_limit` cuts. Source: Picard, "Maximal closure of a graph", Management Science 22 (1976).
[[nodiscard]] std::optional<WorstCase> worst_case_memory(const AnalyzedProgram& analyzed,
                                                         const std::vector<Bytes>& sizes, RankId rank,
                                                         std::size_t branch_limit = kBranchLimit);

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
[[nodiscard]] Bytes memory_at(const TensorTable& tensors, const std::vector<Bytes>& sizes, RankId rank,
                              const FiringOrder& firing);

}  // namespace ppsim::verifier

namespace ppsim {
using verifier::firing_order;
using verifier::FiringOrder;
using verifier::memory_at;
using verifier::worst_case_memory;
using verifier::WorstCase;
}  // namespace ppsim
