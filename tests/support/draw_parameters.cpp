#include "support/draw_parameters.hpp"

#include <rapidcheck.h>

#include <algorithm>
#include <stdexcept>

#include "support/expect_forms.hpp"

namespace ppsim::test {

ScheduleParameters draw_any_parameters(const ScheduleInfo& info, const ParameterLimits& limits) {
  ScheduleParameters parameters{.ranks = between(1, limits.ranks),
                                .microbatches = between(1, limits.microbatches)};
  const int most = std::max(info.min_chunks, std::min(limits.chunks, info.max_chunks));
  if (info.min_chunks < most) parameters.chunks = between(info.min_chunks, most);
  if (info.has_slices) parameters.slices = between(1, limits.slices);
  for (const SettingInfo& setting : info.settings) {
    if (setting.examples.empty() || between(0, 1) == 0) continue;
    const int chosen = between(0, static_cast<int>(setting.examples.size()) - 1);
    parameters.settings[std::string(setting.name)] = setting.examples[static_cast<std::size_t>(chosen)];
  }
  return parameters;
}

ScheduleParameters draw_legal_parameters(const ScheduleInfo& info, const ParameterLimits& limits) {
  ScheduleParameters parameters = draw_any_parameters(info, limits);
  const auto at_any_size = rc::gen::resize(
      rc::kNominalSize, rc::gen::exec([info, limits] { return draw_any_parameters(info, limits); }));
  // The first draws of a property are the smallest parameters, all of which a schedule may refuse.
  for (int attempt = 0; attempt < 1000; ++attempt) {
    if (check_parameters(info, parameters)) return parameters;
    parameters = *at_any_size;
  }
  throw std::runtime_error(std::string(info.name) + " refuses a thousand draws");
}

std::vector<ScheduleInfo> schedules_with(bool (*holds)(const ScheduleInfo&)) {
  std::vector<ScheduleInfo> chosen;
  for (const ScheduleInfo& info : registered_schedules()) {
    if (holds(info)) chosen.push_back(info);
  }
  return chosen;
}

std::string schedule_test_name(const testing::TestParamInfo<ScheduleInfo>& tested) {
  std::string name(tested.param.name);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

}  // namespace ppsim::test
