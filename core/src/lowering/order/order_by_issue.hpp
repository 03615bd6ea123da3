#pragma once

#include "lowering/lines.hpp"

namespace ppsim::lowering {

/// Every communication `after` the last compute line before it, and so after all of them: a process group of
/// PyTorch.
void order_by_issue(LineRows& rows);

}  // namespace ppsim::lowering
