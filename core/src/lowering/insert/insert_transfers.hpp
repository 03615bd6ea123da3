#pragma once

#include "lowering/lines.hpp"
#include "lowering/step_rows.hpp"
#include "ppsim/core/lowering/earliest_times.hpp"

namespace ppsim::lowering {

/// The steps in the order of the walk; directly after each one its SENDs, on its own rank, and their RECVs,
/// on the receiving ranks. Stages of one rank hand over directly. What the rows order by `after` stays so.
///
/// With `keep_times` a line carries its time: a step its start, a transfer the end of its producer.
[[nodiscard]] LineRows insert_transfers(const Pipeline& pipeline, const StepRows& rows,
                                        const EarliestTimes& times, bool keep_times);

}  // namespace ppsim::lowering
