#include <set>

#include "ppsim/core/text/number_text.hpp"
#include "ppsim/schedules/registry.hpp"

namespace ppsim::schedules {
namespace {

tl::unexpected<Error> refuse(std::string_view text, const std::string& why) {
  return make_error(ErrorCode::bad_argument, "\"" + std::string(text) + "\": " + why);
}

/// Takes one key=value; false when the value is no count.
bool assign(ScheduleParameters& parameters, const std::string& key, const std::string& value) {
  const bool is_count = key == "ranks" || key == "microbatches" || key == "chunks" || key == "slices";
  if (!is_count) {
    parameters.settings[key] = value;
    return true;
  }
  const std::optional<int> count = parse_number<int>(value);
  if (!count) return false;
  if (key == "ranks") parameters.ranks = *count;
  if (key == "microbatches") parameters.microbatches = *count;
  if (key == "chunks") parameters.chunks = *count;
  if (key == "slices") parameters.slices = *count;
  return true;
}

}  // namespace

Expected<NamedSchedule> parse_named_schedule(std::string_view text, ScheduleParameters parameters) {
  const std::size_t colon = text.find(':');
  NamedSchedule result{std::string(text.substr(0, colon)), std::move(parameters)};
  if (result.name.empty()) return refuse(text, "expected the name of a schedule");
  std::set<std::string> seen;
  for (std::size_t at = colon; at != std::string_view::npos;) {
    const std::size_t end = text.find(',', at + 1);
    const std::string_view item = text.substr(at + 1, end == std::string_view::npos ? end : end - at - 1);
    const std::size_t equals = item.find('=');
    if (equals == std::string_view::npos || equals == 0) {
      return refuse(text, "expected key=value, found \"" + std::string(item) + "\"");
    }
    const std::string key(item.substr(0, equals));
    const std::string value(item.substr(equals + 1));
    if (!seen.insert(key).second) return refuse(text, key + " is given twice");
    if (!assign(result.parameters, key, value)) {
      return refuse(text, key + " must be a whole number, found \"" + value + "\"");
    }
    at = end;
  }
  return result;
}

}  // namespace ppsim::schedules
