#pragma once

#include <string>

#include "ppsim/core/ir/program.hpp"

namespace ppsim::test {

/// A Program of tests/data/regressions. Errors: throws.
[[nodiscard]] Program read_regression(const std::string& name);

}  // namespace ppsim::test
