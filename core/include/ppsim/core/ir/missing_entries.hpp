#pragma once

#include <vector>

#include "ppsim/core/ir/program.hpp"
#include "ppsim/core/ir/schedule.hpp"
#include "ppsim/core/ir/tables.hpp"

namespace ppsim {

/// The keys that a Program looks up and no entry names, so that they cost nothing: of each kind of action the
/// first, in the order of the kinds.
[[nodiscard]] std::vector<CostClass> missing_costs(const CostTable& costs, const Program& program);
/// The same of the cells of a Schedule, without what lowering adds.
[[nodiscard]] std::vector<CostClass> missing_costs(const CostTable& costs, const Schedule& schedule);

/// Of each kind of tensor that a table has entries of, the first tensor that none of them names; a workspace
/// is of the kind of its action, too. A kind without any entry is one that was left out.
[[nodiscard]] std::vector<SizeClass> missing_sizes(const SizeTable& sizes, const Program& program);

}  // namespace ppsim
