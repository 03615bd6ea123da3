#include "ppsim/schedules/registry.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace ppsim {
namespace {

std::string registry_refusal(std::string_view name, const ScheduleParameters& parameters) {
  const auto schedule = generate(name, parameters);
  return schedule ? "" : schedule.error().message;
}

TEST(Registry, ListsSchedulesOnce) {
  std::vector<std::string_view> names;
  for (const ScheduleInfo& info : registered_schedules()) {
    names.push_back(info.name);
    EXPECT_FALSE(info.summary.empty() || info.paper.empty() || info.placement.empty() ||
                 info.constraints.empty())
        << info.name;
    for (const SettingInfo& setting : info.settings) {
      EXPECT_FALSE(setting.meaning.empty() || setting.fallback.empty()) << info.name << ' ' << setting.name;
    }
  }
  for (const char* name : {"gpipe", "1f1b", "interleaved-1f1b", "zb-h1", "zb-h2"}) {
    EXPECT_EQ(std::count(names.begin(), names.end(), name), 1) << name;
  }
}

TEST(Registry, UnknownNameNamesTheKnownOnesAndTheNearest) {
  const std::string near = registry_refusal("zbh1", {});
  EXPECT_EQ(near.find("no schedule \"zbh1\" (did you mean \"zb-h1\"?): there are gpipe, 1f1b"), 0U) << near;
  const std::string far = registry_refusal("nothing-alike", {});
  EXPECT_EQ(far.find("no schedule \"nothing-alike\": there are gpipe, 1f1b"), 0U) << far;
}

// torch.distributed.pipelining, schedules.py
TEST(Registry, ClassesOfPyTorchAreToldTheirSchedule) {
  for (const auto& [written, meant] : std::initializer_list<std::pair<const char*, const char*>>{
           {"ScheduleGPipe", "gpipe"},
           {"Schedule1F1B", "1f1b"},
           {"ScheduleInterleaved1F1B", "interleaved-1f1b"},
           {"ScheduleLoopedBFS", "looped-bfs"},
           {"ScheduleInterleavedZeroBubble", "interleaved-zb"},
           {"ScheduleZBVZeroBubble", "zb-v"},
           {"ScheduleDualPipeV", "dualpipe-v"}}) {
    const std::string told = registry_refusal(written, {});
    EXPECT_EQ(told.find(std::string("no schedule \"") + written + "\" (did you mean \"" + meant + "\"?)"), 0U)
        << told;
  }
}

TEST(Registry, ImpossibleParametersSayWhatIsPossible) {
  EXPECT_EQ(registry_refusal("gpipe", {.ranks = 0, .microbatches = 4}),
            "gpipe: ranks must be in [1, 65536], found 0");
  EXPECT_EQ(registry_refusal("1f1b", {.ranks = 2, .microbatches = -1}),
            "1f1b: microbatches must be in [1, 16777216], found -1");
  EXPECT_EQ(registry_refusal("1f1b", {.ranks = 2, .microbatches = 4, .chunks = 2}),
            "1f1b: chunks must be 1, found 2");
  EXPECT_EQ(registry_refusal("zb-h1", {.ranks = 2, .microbatches = 4, .slices = 3}),
            "zb-h1: slices must be 1, found 3");
}

TEST(Registry, ReportsEveryImpossibleParameter) {
  EXPECT_EQ(
      registry_refusal("zb-h2", {.ranks = 0, .microbatches = 0}),
      "zb-h2: ranks must be in [1, 65536], found 0\nzb-h2: microbatches must be in [1, 16777216], found 0");
}

TEST(Registry, TooManyCellsAreAnError) {
  EXPECT_NE(registry_refusal("1f1b", {.ranks = 65536, .microbatches = 1 << 24}), "");
}

TEST(Registry, SettingsAreChecked) {
  EXPECT_EQ(registry_refusal("zb-h1", {.settings = {{"group", "4"}}}),
            "zb-h1: no setting \"group\": there are none");
  EXPECT_EQ(
      registry_refusal("interleaved-1f1b", {.settings = {{"grup", "4"}}}),
      "interleaved-1f1b: no setting \"grup\" (did you mean \"group\"?): there are group, graph, encoder");
  EXPECT_EQ(registry_refusal("gpipe", {.settings = {{"backward", "sideways"}}}),
            "gpipe: backward must be one of same, reversed, found \"sideways\"");
}

TEST(Registry, GroupIsBetweenRanksAndMicrobatches) {
  const auto with_group = [](const char* group) {
    return registry_refusal("interleaved-1f1b",
                            {.ranks = 4, .microbatches = 8, .settings = {{"group", group}}});
  };
  EXPECT_EQ(with_group("4"), "");
  EXPECT_EQ(with_group("8"), "");
  EXPECT_EQ(with_group("3"), "interleaved-1f1b: group must be a whole number in [4, 8], found \"3\"");
  EXPECT_EQ(with_group("9"), "interleaved-1f1b: group must be a whole number in [4, 8], found \"9\"");
  EXPECT_EQ(with_group("four"), "interleaved-1f1b: group must be a whole number in [4, 8], found \"four\"");
}

TEST(Registry, ClosedFormBubble) {
  const StageCosts costs{.forward = 3, .backward = 5, .backward_input = 3, .backward_weight = 2};
  const auto bubble = [&](std::string_view name) {
    return closed_form_bubble(**find_schedule(name), {.ranks = 4, .microbatches = 8}, costs);
  };
  EXPECT_EQ(bubble("1f1b"), 3 * (3 + 5));
  EXPECT_EQ(bubble("interleaved-1f1b"), 3 * (3 + 5));
  EXPECT_EQ(bubble("zb-h1"), 3 * (3 + 3 - 2));
  EXPECT_EQ(bubble("zb-h2"), 3 * (3 + 3 - 2 * 2));
}

TEST(Registry, FormsAreSilentWhereTheyDoNotHold) {
  const auto makespan = [](std::string_view name, const ScheduleParameters& parameters,
                           const StageCosts& costs) {
    return (*find_schedule(name))->forms.makespan(parameters, costs);
  };
  EXPECT_EQ(makespan("1f1b", {.ranks = 4, .microbatches = 3}, {.transfer = 1}), std::nullopt);
  EXPECT_EQ(makespan("1f1b", {.ranks = 4, .microbatches = 8}, {.forward = 1, .transfer = 1}), std::nullopt);
  EXPECT_EQ(makespan("interleaved-1f1b", {.ranks = 4, .microbatches = 9},
                     {.forward = 2, .backward = 2, .transfer = 1}),
            std::nullopt);
  EXPECT_EQ(makespan("zb-h1", {.ranks = 4, .microbatches = 8}, {.forward = 1, .backward_weight = 2}),
            std::nullopt);
}

/// Costs that differ from stage to stage, as a model has them or, by slice, as they are measured.
CostTable uneven_costs(std::int32_t slice) {
  CostTable costs;
  for (std::int32_t stage = 0; stage < 8; ++stage) {
    costs.set({OpKind::forward, stage, -1, slice}, 3'000 + 400 * stage);
    costs.set({OpKind::backward, stage, -1, slice}, 7'000 + 900 * stage);
    costs.set({OpKind::backward_input, stage, -1, slice}, 4'000 + 500 * stage);
    costs.set({OpKind::backward_weight, stage, -1, slice}, 3'000 + 400 * stage);
    costs.set({OpKind::send_forward, stage, stage + 1, slice}, 700 + 100 * stage);
    costs.set({OpKind::send_backward, stage + 1, stage, slice}, 900 + 100 * stage);
  }
  return costs;
}

TEST(Registry, OrdersThatFollowCostsFollowMeasuredOnes) {
  int follow = 0;
  for (const ScheduleInfo& info : registered_schedules()) {
    if (!info.uses_costs) continue;
    ScheduleParameters parameters{.ranks = 4, .microbatches = 8};
    const auto of_units = generate(info.name, parameters);
    parameters.costs = uneven_costs(-1);
    const auto of_stages = generate(info.name, parameters);
    parameters.costs = uneven_costs(0);
    const auto of_slices = generate(info.name, parameters);
    ASSERT_TRUE(of_units && of_stages && of_slices) << info.name;
    EXPECT_EQ(*of_stages, *of_slices) << info.name;
    follow += *of_units != *of_stages ? 1 : 0;
  }
  EXPECT_GE(follow, 2);
}

TEST(NamedSchedule, NameAlone) {
  const auto named = parse_named_schedule("1f1b", {.ranks = 4});
  ASSERT_TRUE(named.has_value());
  EXPECT_EQ(*named, (NamedSchedule{"1f1b", {.ranks = 4}}));
}

TEST(NamedSchedule, KeysAndSettings) {
  const auto named =
      parse_named_schedule("interleaved-1f1b:ranks=4,microbatches=8,chunks=2,slices=1,group=8");
  ASSERT_TRUE(named.has_value());
  const ScheduleParameters expected{
      .ranks = 4, .microbatches = 8, .chunks = 2, .slices = 1, .settings = {{"group", "8"}}};
  EXPECT_EQ(*named, (NamedSchedule{"interleaved-1f1b", expected}));
}

TEST(NamedSchedule, MistakesAreNamed) {
  const auto refused = [](std::string_view text) { return parse_named_schedule(text).error().message; };
  EXPECT_EQ(refused(":ranks=4"), "\":ranks=4\": expected the name of a schedule");
  EXPECT_EQ(refused("1f1b:"), "\"1f1b:\": expected key=value, found \"\"");
  EXPECT_EQ(refused("1f1b:ranks"), "\"1f1b:ranks\": expected key=value, found \"ranks\"");
  EXPECT_EQ(refused("1f1b:ranks=4,,chunks=1"), "\"1f1b:ranks=4,,chunks=1\": expected key=value, found \"\"");
  EXPECT_EQ(refused("1f1b:ranks=4x"), "\"1f1b:ranks=4x\": ranks must be a whole number, found \"4x\"");
  EXPECT_EQ(refused("1f1b:ranks=4,ranks=5"), "\"1f1b:ranks=4,ranks=5\": ranks is given twice");
}

}  // namespace
}  // namespace ppsim
