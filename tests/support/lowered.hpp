#pragma once

#include <string>

#include <rapidcheck.h>

#include "ppsim/core/lowering/lowering.hpp"

namespace ppsim::test {

/// Options that go together, for any schedule that needs transfers.
/// With `updates` also those that add REDUCE_GRAD, COLL and OPT.
LoweringOptions draw_lowering_options(bool updates);

/// The first broken rule or mismatch of a Program, or nothing.
std::string first_violation(const Program& program);

/// Whether a Program runs to its end under rendezvous.
bool finishes(const Program& program);

/// Whether the verifier proves tensor_use of a Program that finishes.
bool uses_tensors_in_time(const Program& program);

/// Lowers or throws with the reason.
Program lowered(const Schedule& schedule, const LoweringOptions& options = {},
                const CostTable* costs = nullptr);

}  // namespace ppsim::test
