#pragma once

#include "output/json.hpp"
#include "ppsim/core/execution/wait_analysis.hpp"
#include "ppsim/verifier/verify.hpp"

namespace ppsim::cli {

/// An instruction as `verify --json` writes it: rank, index and action.
[[nodiscard]] Json instruction_json(const NamedInstruction& place);

/// A counterexample as `verify --json` writes it.
[[nodiscard]] Json counterexample_json(const Program& program, const Counterexample& counterexample);

}  // namespace ppsim::cli
