#pragma once

#include <optional>

#include "options.hpp"
#include "ppsim/core/ir/error.hpp"

namespace ppsim::cli {

/// The fault of the file of --config, if the error of the command line comes from it.
[[nodiscard]] std::optional<Error> config_error(const ParsedLine& line);

}  // namespace ppsim::cli
