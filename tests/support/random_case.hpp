#pragma once

#include "ppsim/core/ir/capabilities.hpp"
#include "ppsim/core/ir/program.hpp"
#include "ppsim/core/ir/tables.hpp"

namespace ppsim::test {

/// What independent parts are to agree on.
struct RandomCase {
  Program program;
  CostTable costs;
  TransportCapabilities capabilities;
};

/// Every third Program is as lowered, the others have one to three mutations. Same number, same case, on any
/// machine.
[[nodiscard]] RandomCase random_case(int number);

}  // namespace ppsim::test
