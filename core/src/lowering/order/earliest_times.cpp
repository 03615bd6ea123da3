#include "ppsim/core/lowering/earliest_times.hpp"

#include "lowering/cell_rows.hpp"
#include "order_exchanges.hpp"
#include "walk.hpp"

namespace ppsim {

Expected<EarliestTimes> earliest_times(const Schedule& schedule, const CostTable& costs) {
  lowering::CellRows rows(schedule);
  lowering::order_exchanges(schedule.pipeline(), rows);
  return lowering::walk(schedule.pipeline(), rows, &costs);
}

}  // namespace ppsim
