#include "order_by_issue.hpp"

namespace ppsim::lowering {

void order_by_issue(LineRows& rows) {
  for (LineRow& row : rows) {
    std::int32_t last_compute = -1;
    for (const Line& line : row.lines) {
      if (computes(line)) last_compute = line.id;
      if (is_communication(line.action.kind) && last_compute >= 0)
        row.after.push_back({line.id, last_compute});
    }
  }
}

}  // namespace ppsim::lowering
