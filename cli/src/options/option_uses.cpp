#include "option_uses.hpp"

#include <algorithm>

namespace ppsim::cli {
namespace {

/// "run, resume and status".
std::string users_text(const std::vector<std::string_view>& users) {
  std::string text;
  for (std::size_t i = 0; i < users.size(); ++i) {
    if (i > 0) text += i + 1 == users.size() ? " and " : ", ";
    text += users[i];
  }
  return text;
}

}  // namespace

Expected<void> check_uses(const Command& command, std::span<const OptionUse> uses, std::string_view user) {
  for (const auto& [option, users] : uses) {
    if (!command.has_been_given(std::string(option)) || std::ranges::find(users, user) != users.end())
      continue;
    return make_error(ErrorCode::bad_argument, std::string(option) + " is for " + users_text(users),
                      {.found = std::string(option) + " with " + std::string(user),
                       .expected = "no " + std::string(option)});
  }
  return {};
}

}  // namespace ppsim::cli
