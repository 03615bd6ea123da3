#pragma once

#include <string_view>

namespace ppsim::planner {

/// Whether a cell of a profiler's range, such as "0F3", is computation: F, B, I, W or an overlapped pair, and
/// no transfer, UNSHARD, RESHARD or reduction.
[[nodiscard]] bool is_computation_cell(std::string_view cell);

}  // namespace ppsim::planner
