#pragma once

#include <string_view>

namespace ppsim::planner {

/// Whether a cell of a profiler's range, such as "0F3", is computation: not a SEND, a RECV or a gather.
[[nodiscard]] bool is_computation_cell(std::string_view cell);

}  // namespace ppsim::planner
