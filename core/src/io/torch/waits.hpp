#pragma once

#include <span>
#include <vector>

#include "ppsim/core/ir/program.hpp"

namespace ppsim {

/// The meaning of PyTorch's WAIT cell: whatever its rank issues from position `before` on waits until the
/// instruction at position `what` is complete.
struct TorchWait {
  int what;
  int before;
};

/// Adds waits to `after`. Queues keep their order, so that the first instruction of each one from `before` on
/// is enough.
/// Requires: communicators are assigned; waits in the order of `before`.
void add_waits(std::vector<InstructionDraft>& row, std::span<const TorchWait> waits);

/// A wait for every send and every reduction of a row, in the order of `before`. A row with `after` has them
/// where it needs the instruction first, or at its end; one without where PyTorch puts them: that for a
/// SEND_F behind the stage's own backward of the microbatch, that for a reduction before the next one,
/// others at the end.
[[nodiscard]] std::vector<TorchWait> plan_waits(std::span<const InstructionDraft> row);

/// True when a row has some `after`.
[[nodiscard]] bool has_after(std::span<const InstructionDraft> row);

}  // namespace ppsim
