#include "ppsim/core/earliest_times.hpp"

#include "lowering/step_rows.hpp"
#include "lowering/walk.hpp"

namespace ppsim {

Expected<EarliestTimes> earliest_times(const Schedule& schedule, const CostTable& costs) {
  const lowering::StepRows rows(schedule);
  return lowering::walk(schedule.pipeline(), rows, &costs);
}

}  // namespace ppsim
