#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tracks.hpp"

namespace ppsim {

/// A part of the instruction `of` is over before an item of the order happens, in every timing.
struct Precedence {
  InstructionId of;
  CertificateTracks::Part part;
  std::uint32_t item = 0;  ///< as in RunOrder: start or completion of an instruction
};

/// Looks for a precedence that does not hold: follows how far each rank can tell that the tracks in question
/// have come, over all ranks, from the first of the instructions to the last of the items.
/// Requires: `order` holds for the graph.
/// Returns: the index of one that some timing breaks.
[[nodiscard]] std::optional<std::size_t> find_broken(const CertificateTracks& tracks,
                                                     const ExecutionGraph& graph,
                                                     const std::vector<std::uint32_t>& order,
                                                     const std::vector<Precedence>& precedences);

}  // namespace ppsim
