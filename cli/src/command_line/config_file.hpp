#pragma once

#include <optional>

#include "options.hpp"
#include "ppsim/core/ir/error.hpp"

namespace ppsim::cli {

/// What is wrong with the file of --config, where the error of a command line is about it.
[[nodiscard]] std::optional<Error> config_error(const ParsedLine& line);

}  // namespace ppsim::cli
