#include "settings.hpp"

#include <algorithm>

#include "ppsim/core/text/nearest.hpp"
#include "ppsim/core/text/number_text.hpp"

namespace ppsim::schedules {
namespace {

std::string refused(const std::string& name, const std::string& expected, const std::string& found) {
  return name + " must be " + expected + ", found \"" + found + "\"\n";
}

}  // namespace

std::optional<std::string> setting(const ScheduleParameters& parameters, const std::string& name) {
  const auto found = parameters.settings.find(name);
  if (found == parameters.settings.end()) return std::nullopt;
  return found->second;
}

std::optional<int> count_setting(const ScheduleParameters& parameters, const std::string& name) {
  const std::optional<std::string> text = setting(parameters, name);
  return text ? parse_number<int>(*text) : std::nullopt;
}

std::string refused_count(const ScheduleParameters& parameters, const std::string& name, CountRange range) {
  const std::optional<std::string> text = setting(parameters, name);
  if (!text) return "";
  const std::optional<int> count = parse_number<int>(*text);
  if (count && *count >= range.least && *count <= range.most) return "";
  return refused(
      name, "a whole number in [" + std::to_string(range.least) + ", " + std::to_string(range.most) + "]",
      *text);
}

std::string refused_word(const ScheduleParameters& parameters, const std::string& name,
                         std::span<const std::string_view> words) {
  const std::optional<std::string> text = setting(parameters, name);
  if (!text || std::ranges::find(words, *text) != words.end()) return "";
  return refused(name, "one of " + joined(words), *text);
}

std::string refused_odd(const std::string& name, int count) {
  return count % 2 == 0 ? "" : name + " must be even, found " + std::to_string(count) + "\n";
}

std::string refused_below(const std::string& name, int count, int least) {
  if (count >= least) return "";
  return name + " must be at least " + std::to_string(least) + ", found " + std::to_string(count) + "\n";
}

}  // namespace ppsim::schedules
