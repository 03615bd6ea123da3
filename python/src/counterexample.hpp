#pragma once

#include "binding.hpp"
#include "ppsim/verifier/verify.hpp"

namespace ppsim::python {

/// A counterexample as `verify --json` writes it.
[[nodiscard]] nb::object counterexample_data(const Program& program, const Counterexample& counterexample);

}  // namespace ppsim::python
