#include "named_input.hpp"

namespace ppsim::cli {
namespace {

std::optional<int> given(int count) { return count == 0 ? std::nullopt : std::optional(count); }

Expected<void> refuse(const std::string& key, const std::string& in_name, const std::string& option) {
  return make_error(ErrorCode::bad_argument, key + " is given twice, and differs",
                    {.found = in_name + " in the name, " + option, .expected = "one of the two"});
}

Expected<void> check_count(const char* key, std::optional<int> in_name, std::optional<int> option) {
  if (!in_name || !option || *in_name == *option) return {};
  return refuse(key, std::to_string(*in_name), "--" + std::string(key) + " " + std::to_string(*option));
}

}  // namespace

ScheduleParameters said_by_name(const std::string& input) {
  ScheduleParameters nothing{.ranks = 0, .microbatches = 0, .slices = 0};
  if (names_file(input)) return nothing;
  const auto named = parse_named_schedule(input, nothing);
  return named ? named->parameters : nothing;
}

Expected<void> check_agrees(const InputOptions& input) {
  const ScheduleParameters named = said_by_name(input.input);
  PPSIM_RETURN_IF_ERROR(check_count("ranks", given(named.ranks), input.ranks));
  PPSIM_RETURN_IF_ERROR(check_count("microbatches", given(named.microbatches), input.microbatches));
  PPSIM_RETURN_IF_ERROR(check_count("chunks", named.chunks, input.chunks));
  PPSIM_RETURN_IF_ERROR(check_count("slices", given(named.slices), input.slices));
  for (const std::string& option : input.settings) {
    const std::string key = option.substr(0, option.find('='));
    const auto found = named.settings.find(key);
    if (found == named.settings.end() || option == key + "=" + found->second) continue;
    return refuse(key, found->second, "--set " + option);
  }
  return {};
}

InputOptions without_what_name_says(InputOptions input) {
  const ScheduleParameters named = said_by_name(input.input);
  if (named.ranks != 0) input.ranks = {};
  if (named.microbatches != 0) input.microbatches = {};
  if (named.chunks) input.chunks = {};
  if (named.slices != 0) input.slices = {};
  std::erase_if(input.settings, [&](const std::string& option) {
    return named.settings.contains(option.substr(0, option.find('=')));
  });
  return input;
}

}  // namespace ppsim::cli
