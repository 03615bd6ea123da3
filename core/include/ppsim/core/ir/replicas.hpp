#pragma once

#include "ppsim/core/ir/schedule.hpp"
#include "ppsim/core/ir/tables.hpp"

namespace ppsim {

/// `count` data-parallel copies of a schedule as one: what ranks, stages, routes, microbatches and
/// collectives copy n has are those of the schedule plus n times as many as there are. The copies of a stage
/// own its parameter blocks together, so that REDUCE_GRAD sums over all of them, and every update is fed by
/// the microbatches of all copies. Errors: bad_argument for a count below 1, a norm over the ranks of one
/// copy, and limits of a pipeline.
[[nodiscard]] Expected<Schedule> replicated(const Schedule& schedule, int count);

/// The costs of the stages of `pipeline`, repeated for its copies.
[[nodiscard]] CostTable replicated(const CostTable& costs, const Pipeline& pipeline, int count);
[[nodiscard]] SizeTable replicated(const SizeTable& sizes, const Pipeline& pipeline, int count);

}  // namespace ppsim
