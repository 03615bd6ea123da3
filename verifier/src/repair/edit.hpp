#pragma once

#include <optional>
#include <span>
#include <vector>

#include "repair/candidates.hpp"

namespace ppsim::verifier::repairing {

/// A Program after some changes, and the former place of each of its instructions.
struct Edited {
  Program program;
  std::vector<std::vector<InstructionId>> originals;  ///< per instruction: one, or the two of a new group
};

/// Makes the moves, groups and splits among `changes`; credits change no Program.
/// Returns: nothing where the changes do not go together.
[[nodiscard]] std::optional<Edited> apply(const Program& program, const Candidates& candidates,
                                          std::span<const Candidate> changes);

}  // namespace ppsim::verifier::repairing
