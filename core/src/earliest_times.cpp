#include "ppsim/core/earliest_times.hpp"

#include "lowering/order_exchanges.hpp"
#include "lowering/step_rows.hpp"
#include "lowering/walk.hpp"

namespace ppsim {

Expected<EarliestTimes> earliest_times(const Schedule& schedule, const CostTable& costs) {
  lowering::StepRows rows(schedule);
  lowering::order_exchanges(schedule.pipeline(), rows);
  return lowering::walk(schedule.pipeline(), rows, &costs);
}

}  // namespace ppsim
