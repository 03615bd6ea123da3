#pragma once

#include "ppsim/core/ir/capabilities.hpp"
#include "ppsim/core/ir/program.hpp"
#include "ppsim/core/ir/tables.hpp"

namespace ppsim::test {

/// An input on which independent parts must agree.
struct RandomCase {
  Program program;
  CostTable costs;
  TransportCapabilities capabilities;
};

/// Every third Program is as lowered, the others have one to three mutations. Same number, same case, on any
/// machine.
[[nodiscard]] RandomCase random_case(int number);

/// Whether nothing waits for what its rank lists later. Else the host of a GPU issues in another order than
/// the list, and with ordered launches the order is part of what a Program means.
[[nodiscard]] bool is_issued_as_listed(const Program& program);

}  // namespace ppsim::test
