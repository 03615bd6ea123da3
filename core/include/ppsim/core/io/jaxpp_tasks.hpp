#pragma once

#include <string>
#include <string_view>

#include "ppsim/core/ir/error.hpp"
#include "ppsim/core/ir/schedule.hpp"

namespace ppsim {

/// Whether a text may hold task lists of JaxPP.
[[nodiscard]] bool is_jaxpp_tasks(std::string_view text);

/// The lists of `schedule.tasks(m)` of JaxPP as JSON: a list for each rank, of what `str` makes of each task,
/// "fwd_0__3" or "FusedTask(fwd_7__1, bwd_7__0)", and null for None. A FusedTask of an F and a backward is an
/// overlapped pair, one of F and B of a cell these two, one of I and W of a cell a B.
/// Errors: bad_file with the place; those of ScheduleBuilder::build.
[[nodiscard]] Expected<Schedule> schedule_from_jaxpp_tasks(std::string_view text, const std::string& file);

/// The way back. Where other stages split their backward, a B is the FusedTask of its I and W; where chunks
/// lie round-robin, F of the last stage and B of the same cell directly after it are one.
/// Errors: bad_argument for what no task says: slices, routes, graphs, other kinds.
[[nodiscard]] Expected<std::string> to_jaxpp_tasks(const Schedule& schedule);

}  // namespace ppsim
