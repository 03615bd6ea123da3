#pragma once

#include <string>

#include "command_line/options.hpp"

namespace ppsim::cli {

/// Scripts that complete commands, options and their values in a shell, made of what the program knows of
/// itself.
[[nodiscard]] std::string bash_completion(const CommandText& program);
[[nodiscard]] std::string zsh_completion(const CommandText& program);
[[nodiscard]] std::string fish_completion(const CommandText& program);

/// The manual page ppsim(1) in roff.
[[nodiscard]] std::string man_page(const CommandText& program, const std::string& version);

}  // namespace ppsim::cli
