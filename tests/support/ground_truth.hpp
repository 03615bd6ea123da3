#pragma once

#include <set>

#include "ppsim/core/ir/capabilities.hpp"
#include "ppsim/core/ir/program.hpp"
#include "ppsim/verifier/property.hpp"

namespace ppsim::test {

/// The properties, memory aside, that a Program does not have, decided without the verifier and without the
/// execution graph: by reading the lists and by running the naive executor. `complete` is a Program in which
/// everything is there once. Deadlock is left out where something does not match.
[[nodiscard]] std::set<Property> broken_properties(const Program& program, const Program& complete,
                                                   const TransportCapabilities& capabilities);

}  // namespace ppsim::test
