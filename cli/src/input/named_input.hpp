#pragma once

#include "command.hpp"

namespace ppsim::cli {

/// What a NAME says itself, as `1f1b:ranks=4` does; 0 ranks, microbatches or slices for what it does not.
/// Nothing for a file, and for what cannot be read.
[[nodiscard]] ScheduleParameters said_by_name(const std::string& input);

/// Errors: bad_argument where the NAME and an option say something else.
[[nodiscard]] Expected<void> check_agrees(const InputOptions& input);

/// The options without those that the NAME has itself.
[[nodiscard]] InputOptions without_what_name_says(InputOptions input);

}  // namespace ppsim::cli
