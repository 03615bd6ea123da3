#pragma once

#include <string>
#include <vector>

#include "ppsim/core/ir/program.hpp"
#include "ppsim/core/ir/schedule.hpp"

namespace ppsim::test {

/// The row of a rank in the notation of the schedule's files, cells separated by blanks.
std::string row_text(const Schedule& schedule, int rank);
/// The instructions of a rank without communicators and `after`.
std::string row_text(const Program& program, int rank);

/// The inverse of row_text. Throws with the reason when a cell does not parse or the schedule does not build.
Schedule schedule_of(const Pipeline& pipeline, const std::vector<std::string>& rows);

}  // namespace ppsim::test
