#pragma once

#include <string>

#include "ppsim/core/ir/schedule.hpp"
#include "ppsim/core/ir/tables.hpp"

namespace ppsim::test {

/// A schedule in time: a line per rank, a column per `unit` of time, every action from its
/// start on,
/// `.` where the rank stands idle.
std::string time_grid(const Schedule& schedule, const CostTable& costs, Nanoseconds unit);

/// Compares a text with tests/golden/<name>. With PPSIM_UPDATE_GOLDEN=1 in the environment it writes the file
/// instead. Returns: nothing, or what is different.
std::string golden_difference(const std::string& name, const std::string& text);

}  // namespace ppsim::test
