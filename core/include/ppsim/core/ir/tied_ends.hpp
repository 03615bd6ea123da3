#pragma once

#include "ppsim/core/ir/schedule.hpp"

namespace ppsim {

/// Whether a block is owned by all first and all last stages of the routes and by nobody else, beside the
/// block that each stage has: the weights of tokens, which embedding and head share.
[[nodiscard]] bool has_tied_ends(const Pipeline& pipeline);

/// Adds such a block after the others; a schedule that has one is returned unchanged.
/// Errors: bad_argument for a schedule with updates of its own, which has none of that block, and one whose
/// stages have several blocks already.
[[nodiscard]] Expected<Schedule> with_tied_ends(const Schedule& schedule);

}  // namespace ppsim
