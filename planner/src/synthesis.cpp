#include "ppsim/planner/synthesis.hpp"

#include <string>

#include "ppsim/schedules/registry.hpp"

namespace ppsim::planner {
namespace {

/// The settings by which a schedule keeps to a limit of activations that live until their W.
std::map<std::string, std::string> settings_within(const ScheduleInfo& info, int limit) {
  std::map<std::string, std::string> settings;
  for (const SettingInfo& setting : info.settings) {
    if (setting.name == "memory_limit") settings["memory_limit"] = std::to_string(limit);
    if (setting.name == "weight_share") settings["weight_share"] = "100";
  }
  return settings;
}

}  // namespace

std::vector<Schedule> known_schedules(const SynthesisRequest& request) {
  std::vector<Schedule> known;
  const auto chain = make_chain(request.ranks, request.ranks, request.microbatches);
  if (!chain) return known;
  for (const ScheduleInfo& info : registered_schedules()) {
    const bool split = request.backward == BackwardForm::split;
    if (info.forward_only || info.min_chunks > 1 || info.splits_backward != split) continue;
    const ScheduleParameters parameters{.ranks = request.ranks,
                                        .microbatches = request.microbatches,
                                        .chunks = 1,
                                        .settings = settings_within(info, request.activation_limit),
                                        .costs = request.costs};
    auto schedule = generate(info.name, parameters);
    if (!schedule || schedule->pipeline() != *chain) continue;
    if (peak_live_microbatches(*schedule) <= request.activation_limit) known.push_back(*std::move(schedule));
  }
  return known;
}

}  // namespace ppsim::planner
