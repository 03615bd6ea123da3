#pragma once

#include "command.hpp"

namespace ppsim::cli {

/// The parameters that a NAME holds, as `1f1b:ranks=4` does; 0 ranks, microbatches or slices where it has
/// none. Nothing for a file, and for what cannot be read.
[[nodiscard]] ScheduleParameters said_by_name(const std::string& input);

/// Errors: bad_argument where the NAME and an option say something else.
[[nodiscard]] Expected<void> check_agrees(const InputOptions& input);

/// The options without those that the NAME has itself.
[[nodiscard]] InputOptions without_what_name_says(InputOptions input);

}  // namespace ppsim::cli
