// Synthesis that chooses on which ranks the stages go.

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <set>

#include "ppsim/planner/synthesis.hpp"
#include "unit/verifier/all_orders.hpp"

namespace ppsim::test::placed {
namespace {

struct Size {
  int ranks, chunks, microbatches;
};

CostTable drawn_costs(std::mt19937_64& random, int stages) {
  CostTable costs;
  const auto drawn = [&](unsigned least, unsigned most) {
    return static_cast<Nanoseconds>(least + random() % (most - least + 1)) * kUnitTime;
  };
  for (int s = 0; s < stages; ++s) {
    for (const OpKind kind : {OpKind::forward, OpKind::backward_input, OpKind::backward_weight})
      costs.set({kind, s}, drawn(1, 5));
  }
  costs.set({OpKind::send_forward}, drawn(0, 2));
  costs.set({OpKind::send_backward}, drawn(0, 2));
  return costs;
}

struct Asked {
  Size size;
  CostTable costs;
  int limit = 1;
  std::optional<std::int64_t> steps = {};
  std::string placement = "free";
};

SynthesisAnswer answer_to(const Asked& asked) {
  SynthesisRequest request{
      .ranks = asked.size.ranks, .microbatches = asked.size.microbatches, .max_steps = asked.steps};
  const PlacementWords words{
      asked.placement,
      asked.placement.find(',') == std::string::npos ? std::optional(asked.size.chunks) : std::nullopt,
      asked.size.ranks};
  auto answer = synthesize_placed(words, request, [&](SynthesisRequest& placed) -> Expected<void> {
    placed.costs = asked.costs;
    placed.activation_limit = asked.limit;
    return {};
  });
  if (!answer) throw std::runtime_error(to_string(answer.error()));
  return *std::move(answer);
}

/// Checks on the way what holds of every answer.
Synthesized found_for(const Asked& asked) {
  const SynthesisAnswer answer = answer_to(asked);
  if (const auto* none = std::get_if<NoSchedule>(&answer)) throw std::runtime_error(none->reason);
  const auto& found = std::get<Synthesized>(answer);
  EXPECT_EQ(objective_of(found.schedule, asked.costs, Objective::makespan), found.value);
  EXPECT_LE(found.lower_bound, found.value);
  EXPECT_EQ(found.open.empty(), found.optimal());
  EXPECT_LE(peak_live_microbatches(found.schedule), asked.limit);
  const SizeTable sizes = activation_size_table(1);
  EXPECT_TRUE(found.certificate && check_certificate(*found.certificate, found.program, &sizes));
  for (int r = 0; r < asked.size.ranks; ++r) {
    EXPECT_EQ(static_cast<int>(found.schedule.pipeline().stages_of(RankId(r)).size()), asked.size.chunks);
  }
  return found;
}

/// (p c)! / (c!^p p!) ways to put p c stages on p ranks without names, c on each.
TEST(FreePlacement, LooksAtEachPlacementOnce) {
  const auto looked_at = [](Size size) {
    return found_for(
               {size, unit_cost_table({}), size.ranks * size.chunks * size.microbatches, std::int64_t{0}})
        .placements;
  };
  EXPECT_EQ(looked_at({2, 2, 2}), 3);
  EXPECT_EQ(looked_at({3, 2, 2}), 15);
  EXPECT_EQ(looked_at({4, 2, 1}), 105);
  EXPECT_EQ(looked_at({2, 3, 2}), 10);
  EXPECT_EQ(looked_at({3, 3, 1}), 280);
  EXPECT_EQ(looked_at({3, 1, 2}), 1);
}

TEST(FreePlacement, IsTheBestOfAllOrdersOfAllPlacements) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 3; ++i) {
    const CostTable costs = drawn_costs(random, 4);
    std::map<int, Nanoseconds> best;
    for (const std::vector<int>& ranks : {std::vector{0, 0, 1, 1}, {0, 1, 0, 1}, {0, 1, 1, 0}}) {
      std::vector<RankId> placement;
      for (const int rank : ranks) placement.emplace_back(rank);
      for (const auto& [limit, optimum] : exhaustive(Job(placement, 2, costs))) {
        const auto at = best.emplace(limit, optimum.first).first;
        at->second = std::min(at->second, optimum.first);
      }
    }
    for (const auto& [limit, optimum] : best) {
      const Synthesized found = found_for({{2, 2, 2}, costs, limit});
      EXPECT_EQ(found.value, optimum) << "limit " << limit << ", costs " << i;
      EXPECT_TRUE(found.optimal()) << found.open;
      // Lists alone need not find it, but must not claim more.
      EXPECT_LE(found_for({{2, 2, 2}, costs, limit, 0}).lower_bound, optimum);
      const Synthesized tried = found_for({{2, 2, 2}, costs, limit, 30'000});
      EXPECT_EQ(tried.value, optimum) << "limit " << limit << ", costs " << i;
    }
  }
}

TEST(FreePlacement, IsNoLongerThanTheVOrTheLoopThatItBeginsWith) {
  std::mt19937_64 random(6);
  for (int i = 0; i < 4; ++i) {
    const CostTable costs = drawn_costs(random, 6);
    const Synthesized found = found_for({{3, 2, 4}, costs, 6, 2'000});
    for (const char* placement : {"v", "loop", "0,0,1,1,2,2", "0,1,2,1,2,0"}) {
      const Synthesized given = found_for({{3, 2, 4}, costs, 6, 0, placement});
      EXPECT_LE(found.value, given.value) << placement << ", costs " << i;
      EXPECT_LE(found.lower_bound, given.value) << placement << ", costs " << i;
    }
  }
}

TEST(FreePlacement, FindsTheSameWithTheSameSteps) {
  std::mt19937_64 random(7);
  const Asked asked{{3, 2, 4}, drawn_costs(random, 6), 5, 3'000};
  const Synthesized once = found_for(asked);
  EXPECT_EQ(once.schedule, found_for(asked).schedule);
  EXPECT_LE(once.steps, 3'000);
}

/// 10,395 placements: it goes from one to the next, and bounds all by the work of a rank in the mean.
TEST(FreePlacement, ExchangesStagesWhereThereAreTooManyPlacements) {
  std::mt19937_64 random(8);
  const Asked asked{{6, 2, 8}, drawn_costs(random, 12), 8, 20'000};
  const Synthesized found = found_for(asked);
  EXPECT_GT(found.placements, 2);
  EXPECT_LE(found.placements, 20'000);
  EXPECT_EQ(found.bound_method, "work");
  Nanoseconds work = 0;
  for (const auto& [key, cost] : asked.costs.entries()) work += key.subject >= 0 ? cost : 0;
  EXPECT_EQ(found.lower_bound, (work * 8 + 5) / 6);
  Asked as_v = asked;
  as_v.placement = "v";
  as_v.steps = 0;
  EXPECT_LE(found.value, found_for(as_v).value);
}

/// Where sends block, a stage takes longer if the next one is on another rank. The best of all placements has
/// as many stages as possible beside their neighbours, and the bound must not be that of the V.
TEST(FreePlacement, BoundsWorkThatDependsOnThePlacement) {
  for (const int ranks : {3, 6}) {
    const int stages = 2 * ranks;
    const auto bind = [&](SynthesisRequest& placed) -> Expected<void> {
      placed.activation_limit = 12;
      placed.costs = {};
      for (int s = 0; s < stages; ++s) {
        const auto at = [&](int stage) { return placed.placement[static_cast<std::size_t>(stage)]; };
        const bool sends = s + 1 < stages && at(s) != at(s + 1);
        placed.costs.set({OpKind::forward, s}, kUnitTime * (sends ? 10 : 1));
        placed.costs.set({OpKind::backward_input, s}, kUnitTime * (s > 0 && at(s) != at(s - 1) ? 10 : 1));
        placed.costs.set({OpKind::backward_weight, s}, kUnitTime);
      }
      return {};
    };
    const SynthesisRequest request{.ranks = ranks, .microbatches = 6, .max_steps = 2'000};
    const auto found = synthesize_placed({"free", 2, ranks}, request, bind);
    ASSERT_TRUE(found) << to_string(found.error());
    std::string in_pairs;
    for (int s = 0; s < stages; ++s) in_pairs += (s > 0 ? "," : "") + std::to_string(s / 2);
    const auto pairs = synthesize_placed({in_pairs, {}, ranks}, request, bind);
    ASSERT_TRUE(pairs) << to_string(pairs.error());
    EXPECT_LE(std::get<Synthesized>(*found).lower_bound, std::get<Synthesized>(*pairs).value) << ranks;
    EXPECT_LE(std::get<Synthesized>(*found).value, std::get<Synthesized>(*pairs).value) << ranks;
  }
}

TEST(FreePlacement, HasNoScheduleWhereTheLimitHasNoRoomForAMicrobatch) {
  for (const int ranks : {3, 6}) {
    const SynthesisAnswer answer = answer_to({{ranks, 2, 2}, unit_cost_table({}), 1, 100});
    ASSERT_TRUE(std::holds_alternative<NoSchedule>(answer));
    EXPECT_TRUE(std::get<NoSchedule>(answer).proved);
    EXPECT_NE(std::get<NoSchedule>(answer).reason.find("at least 2 is needed"), std::string::npos);
  }
}

/// A stage in each pair of `heavy` and another one fit on a rank, two heavy ones do not.
SynthesisAnswer answer_in_bytes(int ranks, const std::set<int>& heavy, double timeout_s) {
  SizeTable sizes = activation_size_table(10);
  for (int s = 0; s < 2 * ranks; ++s)
    sizes.set({TensorKind::parameters, s}, heavy.contains(s) ? 60'000 : 10'000);
  const SynthesisRequest request{.ranks = ranks, .microbatches = 4, .timeout_s = timeout_s};
  return *synthesize_placed({"free", 2, ranks}, request, [&](SynthesisRequest& placed) -> Expected<void> {
    placed.costs = unit_cost_table({});
    placed.bytes = ByteLimit{sizes, 100'000};
    return {};
  });
}

/// The V and the loop of three ranks have two heavy stages on one.
TEST(FreePlacement, ClaimsThatThereIsNoScheduleOnlyWhereNoPlacementHasRoom) {
  const SynthesisAnswer found = answer_in_bytes(3, {0, 3, 5}, 20);
  EXPECT_TRUE(std::holds_alternative<Synthesized>(found));
  const SynthesisAnswer late = answer_in_bytes(3, {0, 3, 5}, 1e-6);
  ASSERT_TRUE(std::holds_alternative<NoSchedule>(late));
  EXPECT_FALSE(std::get<NoSchedule>(late).proved);
  EXPECT_NE(std::get<NoSchedule>(late).reason.find("none was found with 3 placements"), std::string::npos)
      << std::get<NoSchedule>(late).reason;
  const SynthesisAnswer none = answer_in_bytes(3, {0, 1, 2, 3}, 20);
  ASSERT_TRUE(std::holds_alternative<NoSchedule>(none));
  EXPECT_TRUE(std::get<NoSchedule>(none).proved);
  EXPECT_NE(std::get<NoSchedule>(none).reason.find("of all 15 placements none has room"), std::string::npos)
      << std::get<NoSchedule>(none).reason;
}

TEST(FreePlacement, BeginsWithALoopWhereNothingIsGiven) {
  FreePlacement asked{.request = {.ranks = 6, .microbatches = 2, .activation_limit = 4, .max_steps = 0}};
  asked.bind = [](SynthesisRequest& placed) -> Expected<void> {
    placed.costs = unit_cost_table({});
    return {};
  };
  EXPECT_TRUE(std::holds_alternative<Synthesized>(synthesize(asked).value()));
  asked.first = {{RankId(0), RankId(1)}};
  EXPECT_FALSE(synthesize(asked));
}

/// Known schedules of so many microbatches would take minutes to generate.
TEST(FreePlacement, RefusesTooManyMicrobatchesBeforeItBindsCosts) {
  const auto never = [](SynthesisRequest&) -> Expected<void> {
    ADD_FAILURE() << "costs are asked for";
    return make_error(ErrorCode::bad_argument, "none");
  };
  for (const char* placement : {"free", "v", ""})
    EXPECT_FALSE(synthesize_placed({placement, {}, 3}, {.ranks = 3, .microbatches = 1'000'000}, never));
}

TEST(FreePlacement, RefusesAnOrderToKeepAndCountsOutOfRange) {
  const auto bind = [](SynthesisRequest& placed) -> Expected<void> {
    placed.costs = unit_cost_table({});
    return {};
  };
  SynthesisRequest keeps{.ranks = 2, .microbatches = 2};
  keeps.kept_order = *any_schedule(keeps);
  EXPECT_FALSE(synthesize_placed({"free", {}, 2}, keeps, bind));
  EXPECT_FALSE(synthesize_placed({"free", 0, 2}, {.ranks = 2, .microbatches = 2}, bind));
  EXPECT_FALSE(synthesize_placed({"free", 1'000, 2}, {.ranks = 2, .microbatches = 2}, bind));
  EXPECT_FALSE(synthesize_placed({"free", {}, 0}, {.ranks = 0, .microbatches = 2}, bind));
  EXPECT_FALSE(synthesize_placed({"free", {}, 2}, {.ranks = 2, .microbatches = 0}, bind));
  EXPECT_FALSE(synthesize_placed({"free", {}, 2}, {.ranks = 2, .microbatches = 2, .timeout_s = 0}, bind));
}

}  // namespace
}  // namespace ppsim::test::placed
