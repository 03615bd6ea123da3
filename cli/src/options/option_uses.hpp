#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "command.hpp"

namespace ppsim::cli {

/// An option of a command, and what uses it: actions of the command, or formats of what it writes.
struct OptionUse {
  std::string_view option;
  std::vector<std::string_view> users;
};

/// Errors: bad_argument where an option is given that `user` does not use, naming what does.
[[nodiscard]] Expected<void> check_uses(const Command& command, std::span<const OptionUse> uses,
                                        std::string_view user);

}  // namespace ppsim::cli
