#pragma once

#include <string>

#include "command.hpp"

namespace ppsim::cli {

/// A text as one word of a shell command.
[[nodiscard]] std::string shell_word(const std::string& text);

/// The command line that `arguments` are of.
[[nodiscard]] std::string command_words(const std::vector<std::string>& arguments);

/// The options that give these costs again, each behind a space; those of a model that are left at their
/// defaults are left out.
[[nodiscard]] std::string cost_words(const CostOptions& options);

}  // namespace ppsim::cli
