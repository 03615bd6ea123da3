#pragma once

#include <string>
#include <vector>

#include "ppsim/core/execution/timed_trace.hpp"
#include "ppsim/core/ir/program.hpp"
#include "ppsim/core/ir/tables.hpp"

namespace ppsim::test {

/// A cost table from (kind, subject or -1, duration) rows.
struct CostRow {
  OpKind kind;
  int subject;
  Nanoseconds duration;
};
CostTable cost_table(std::initializer_list<CostRow> rows);

/// "0-10", "10.1-10.2" (with rounds other than 0) of each instruction of a rank, in issue order.
std::vector<std::string> spans(const Program& program, const TimedTrace& trace, int rank);

}  // namespace ppsim::test
