#pragma once

#include <optional>

#include "options.hpp"
#include "ppsim/core/ir/error.hpp"

namespace ppsim::cli {

/// A section that is there twice, of which only the first one would count.
[[nodiscard]] std::optional<Error> repeated_section(const ParsedLine& line);
/// The fault of the file of --config, if the error of the command line comes from it.
[[nodiscard]] std::optional<Error> config_error(const ParsedLine& line);

}  // namespace ppsim::cli
