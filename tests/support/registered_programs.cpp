#include "support/registered_programs.hpp"

#include <sstream>

#include "ppsim/core/ir/inference.hpp"

namespace ppsim::test {
namespace {

Expected<Program> program_of(const CpuStageModel& model, const Schedule& schedule,
                             const LoweringOptions& options) {
  if (auto good = model.check(schedule.pipeline()); !good) return tl::unexpected(good.error());
  auto program = lower(schedule, options);
  if (!program) return program;
  if (!trains(*program)) return make_error(ErrorCode::bad_argument, "no backward");
  if (auto good = model.check_actions(*program); !good) return tl::unexpected(good.error());
  return program;
}

}  // namespace

Coverage for_each_registered(const CpuStageModel& model, std::span<const ScheduleParameters> shapes,
                             const LoweringOptions& options,
                             const std::function<void(const std::string&, const Program&)>& visit) {
  Coverage found;
  for (const ScheduleInfo& info : registered_schedules()) {
    for (const ScheduleParameters& shape : shapes) {
      const auto schedule = generate(info.name, shape);
      if (!schedule) continue;
      const auto program = program_of(model, *schedule, options);
      if (!program) {
        found.refused.emplace(info.name, program.error().message);
        continue;
      }
      found.ran.emplace(info.name);
      std::ostringstream name;
      name << info.name << " with " << shape;
      visit(name.str(), *program);
    }
  }
  return found;
}

std::span<const ScheduleParameters> small_shapes() {
  static constexpr auto shape = [](int ranks, int microbatches, int chunks) {
    return ScheduleParameters{.ranks = ranks, .microbatches = microbatches, .chunks = chunks};
  };
  static const ScheduleParameters shapes[] = {shape(1, 2, 1), shape(2, 5, 1), shape(3, 6, 1),
                                              shape(4, 8, 1), shape(2, 4, 2), shape(3, 6, 3),
                                              shape(4, 9, 2), shape(4, 8, 2), shape(2, 4, 4)};
  return shapes;
}

std::span<const ScheduleParameters> whole_and_sliced_shapes() {
  static const std::vector<ScheduleParameters> shapes = [] {
    std::vector<ScheduleParameters> all(small_shapes().begin(), small_shapes().end());
    all.push_back({.ranks = 2, .microbatches = 5, .slices = 3});
    all.push_back({.ranks = 3, .microbatches = 6, .slices = 4});
    all.push_back({.ranks = 4, .microbatches = 3, .slices = 2});
    return all;
  }();
  return shapes;
}

const Reasons& not_computed() {
  static const Reasons reasons = {{"forward-only", "no backward"}};
  return reasons;
}

const Reasons& not_updated() {
  static const Reasons reasons = [] {
    Reasons all = not_computed();
    for (const char* asynchronous : {"pipedream", "pipedream-2bw"})
      all.emplace(asynchronous, "the schedule has OPT already");
    return all;
  }();
  return reasons;
}

Reasons not_recomputed(const Reasons& refused) {
  Reasons all = refused;
  for (const char* sharded : {"vocab-1", "vocab-2"})
    all.emplace(sharded, "shares the statistics of its loss where F of a shard has saved them");
  return all;
}

std::string surprises(const Coverage& found, const Reasons& refused) {
  std::string text;
  for (const ScheduleInfo& info : registered_schedules()) {
    const std::string name(info.name);
    const auto expected = refused.find(name);
    const auto reason = found.refused.find(name);
    if (found.ran.count(name) == (expected == refused.end() ? 0U : 1U))
      text += name + (expected == refused.end() ? " did not run\n" : " ran\n");
    if (reason == found.refused.end()) continue;
    if (expected == refused.end() || reason->second.find(expected->second) == std::string::npos)
      text += name + " was refused: " + reason->second + '\n';
  }
  for (const auto& [name, reason] : refused) {
    if (found.refused.count(name) == 0) text += name + " was not refused: " + reason + '\n';
  }
  return text;
}

}  // namespace ppsim::test
