#pragma once

#include "binding.hpp"
#include "ppsim/core/execution/wait_analysis.hpp"
#include "ppsim/verifier/verify.hpp"

namespace ppsim::python {

/// An instruction as {"rank", "index", "action"}.
[[nodiscard]] nb::dict instruction_data(const NamedInstruction& place);

/// A counterexample under the keys of `verify --json`.
[[nodiscard]] nb::dict counterexample_data(const Program& program, const Counterexample& counterexample);

}  // namespace ppsim::python
