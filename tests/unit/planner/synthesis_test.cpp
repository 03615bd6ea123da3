#include "ppsim/planner/synthesis.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace ppsim::test::placed {
namespace {

std::vector<int> ranks_of(const PlacementWords& words) {
  std::vector<int> ranks;
  const auto placement = parse_placement(words);
  if (!placement) throw std::runtime_error(to_string(placement.error()));
  for (const RankId rank : *placement) ranks.push_back(rank.value());
  return ranks;
}

TEST(SynthesisWords, NamePlacements) {
  EXPECT_EQ(ranks_of({"", {}, 3}), std::vector<int>());
  EXPECT_EQ(ranks_of({"loop", {}, 2}), (std::vector<int>{0, 1, 0, 1}));
  EXPECT_EQ(ranks_of({"", 3, 2}), (std::vector<int>{0, 1, 0, 1, 0, 1}));
  EXPECT_EQ(ranks_of({"v", {}, 3}), (std::vector<int>{0, 1, 2, 2, 1, 0}));
  EXPECT_EQ(ranks_of({"v", 3, 2}), (std::vector<int>{0, 1, 1, 0, 0, 1}));
  EXPECT_EQ(ranks_of({"0,0,1", {}, 2}), (std::vector<int>{0, 0, 1}));
}

TEST(SynthesisWords, RefuseOtherPlacements) {
  for (const char* text : {"w", "0,,1", "0,1,", "0;1", "1.5", " 0,1"})
    EXPECT_FALSE(parse_placement({text, {}, 2})) << text;
  EXPECT_FALSE(parse_placement({"0,1", 2, 2})) << "chunks beside a list";
  EXPECT_FALSE(parse_placement({"v", 0, 2}));
  EXPECT_FALSE(parse_placement({"v", 1'000'000, 2}));
}

SynthesisRequest v_request(int limit) {
  SynthesisRequest request{
      .ranks = 4, .microbatches = 8, .activation_limit = limit, .costs = unit_cost_table({})};
  request.placement = *parse_placement({"v", {}, 4});
  return request;
}

bool has(const std::vector<Schedule>& schedules, std::string_view name) {
  return std::ranges::any_of(schedules, [&](const Schedule& schedule) { return schedule.name() == name; });
}

TEST(KnownSchedules, AreThoseOfThePlacementWithinTheLimit) {
  const auto of_half = known_schedules(v_request(6));
  EXPECT_TRUE(has(of_half, "v-half") && has(of_half, "v-min") && has(of_half, "v-adaptive"));
  EXPECT_FALSE(has(of_half, "zb-v") || has(of_half, "zb-h1"));
  const auto of_all = known_schedules(v_request(9));
  EXPECT_TRUE(has(of_all, "zb-v"));
  EXPECT_TRUE(has(of_all, "dualpipe-v")) << "its pairs taken apart";
  for (const Schedule& schedule : of_all) {
    EXPECT_EQ(schedule.pipeline(), *synthesis_pipeline(v_request(9)));
    EXPECT_LE(peak_live_microbatches(schedule), 9);
  }
  SynthesisRequest loop = v_request(16);
  loop.placement = *parse_placement({"loop", {}, 4});
  const auto of_loop = known_schedules(loop);
  EXPECT_TRUE(has(of_loop, "interleaved-1f1b")) << "its B as I and W";
  EXPECT_FALSE(has(of_loop, "zb-v"));
}

TEST(KnownSchedules, OfFusedBackwardsHaveB) {
  SynthesisRequest request = v_request(16);
  request.placement = *parse_placement({"loop", {}, 4});
  request.backward = BackwardForm::fused;
  const auto known = known_schedules(request);
  EXPECT_TRUE(has(known, "interleaved-1f1b"));
  for (const Schedule& schedule : known) {
    for (const Cell& cell : schedule.row(RankId(0))) {
      for (const Action& action : cell.actions()) EXPECT_NE(action.kind, OpKind::backward_weight);
    }
  }
}

/// A search starts from the known schedules, so its answer is never longer than they are.
TEST(KnownSchedules, AreNeverShorterThanTheSynthesis) {
  for (const int limit : {4, 6, 8, 9}) {
    SynthesisRequest request = v_request(limit);
    request.costs = unit_cost_table({.F = 5, .I = 7, .W = 4, .c = 1});
    request.known = known_schedules(request);
    request.max_steps = 0;
    const auto answer = synthesize(request);
    const auto& found = std::get<Synthesized>(*answer);
    for (const Schedule& schedule : request.known)
      EXPECT_LE(found.value, *objective_of(schedule, request.costs, request.objective)) << schedule.name();
  }
}

TEST(BoundRequest, HasOneLimit) {
  const CostBinding units =
      *bind_cost_source(*parse_unit_costs("F=1,A=10"), *synthesis_pipeline(v_request(1)));
  SynthesisRequest request = v_request(1);
  ASSERT_TRUE(bind_request(units, {5, ""}, request));
  EXPECT_EQ(request.activation_limit, 5);
  EXPECT_FALSE(request.bytes);
  ASSERT_TRUE(bind_request(units, {{}, "1kB"}, request));
  EXPECT_EQ(request.bytes->per_rank, 1000);
  EXPECT_FALSE(bind_request(units, {5, "1kB"}, request)) << "both";
  EXPECT_FALSE(bind_request(units, {}, request)) << "none";
  EXPECT_FALSE(bind_request(units, {{}, "much"}, request));
  const CostBinding bare = *bind_cost_source(*parse_unit_costs("F=1"), *synthesis_pipeline(v_request(1)));
  EXPECT_FALSE(bind_request(bare, {{}, "1kB"}, request)) << "bytes of what?";
  EXPECT_EQ(request.costs, bare.tables.costs);
}

}  // namespace
}  // namespace ppsim::test::placed
