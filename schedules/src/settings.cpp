#include "settings.hpp"

#include <charconv>

namespace ppsim {

std::optional<int> parse_count(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<std::string> setting(const ScheduleParameters& parameters, const std::string& name) {
  const auto found = parameters.settings.find(name);
  if (found == parameters.settings.end()) return std::nullopt;
  return found->second;
}

tl::unexpected<Error> bad_setting(std::string_view schedule, std::string_view name,
                                  const std::string& expected, const std::string& found) {
  return make_error(ErrorCode::bad_argument, std::string(schedule) + ": " + std::string(name) + " must be " +
                                                 expected + ", found \"" + found + "\"");
}

}  // namespace ppsim
