#pragma once

#include <string>

#include "ppsim/schedules/registry.hpp"
#include "ppsim/verifier/parameterized/all_microbatches.hpp"
#include "support/lowered.hpp"

namespace ppsim::test {

/// The lowered Program of a schedule for every number of microbatches that it accepts.
ProgramFor programs_of(const std::string& name, ScheduleParameters parameters, LoweringOptions options = {});

/// The known repetitions for every number of microbatches, on communicators per edge.
Repetitions repetitions_of(const std::string& name, const ScheduleParameters& parameters);

/// The same after `change` of the draft, which knows the number of microbatches.
using ChangeDraft = std::function<void(ProgramDraft&, int microbatches)>;
ProgramFor changed(ProgramFor programs, ChangeDraft change);

/// Swaps two instructions of a rank where the one with the action `first` stands directly before that with
/// `second`. Returns: whether it did.
bool swap_neighbours(std::vector<InstructionDraft>& row, const Action& first, const Action& second);

/// Two kinds of instructions that change places wherever one stands directly before the other on a rank. The
/// kinds are those of a position in its list, so they may be others for some number of microbatches.
struct SwappedKinds {
  int rank = 0;
  std::size_t position = 0;  ///< of the first; the other is the next
  int from = 0;              ///< microbatch
};
/// A schedule's Programs after that; their `after` lists are empty, so that more orders are possible.
ProgramFor with_swapped_kinds(ProgramFor programs, const SwappedKinds& swapped);

}  // namespace ppsim::test
