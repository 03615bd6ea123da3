#pragma once

#include "ppsim/core/io/json.hpp"
#include "ppsim/core/ir/missing_entries.hpp"

namespace ppsim::planner {

/// Refuses costs that were measured or written down, and not for all that is to run: what a look-up does not
/// find is free, and an answer that rests on it wrong.
/// Errors: bad_argument naming an action of each kind that is missing; bad_file where `file` is given.
[[nodiscard]] Expected<void> check_costs(const CostTable& costs, const Program& program,
                                         const std::string& file = {});
/// The same for a Schedule, without what lowering adds.
[[nodiscard]] Expected<void> check_costs(const CostTable& costs, const Schedule& schedule,
                                         const std::string& file = {});

/// The same for tensors of the kinds that the table has sizes of.
[[nodiscard]] Expected<void> check_sizes(const SizeTable& sizes, const Program& program,
                                         const std::string& file = {});

/// The same tables with an entry for every kind of action, and for every kind of tensor in them, so that they
/// say themselves what is free.
[[nodiscard]] Tables with_zeros(Tables tables);

}  // namespace ppsim::planner

namespace ppsim {
using planner::check_costs;
using planner::check_sizes;
using planner::with_zeros;
}  // namespace ppsim
