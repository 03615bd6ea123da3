#include <gtest/gtest.h>

#include <limits>

#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/planner/costs/cost_intervals.hpp"
#include "ppsim/schedules/registry.hpp"
#include "ppsim/verifier/intervals/never_slower.hpp"
#include "support/hand_program.hpp"
#include "support/programs.hpp"

namespace ppsim::test {
namespace {

Program program_named(const std::string& name, int ranks, int microbatches) {
  ScheduleParameters parameters;
  parameters.ranks = ranks;
  parameters.microbatches = microbatches;
  return lower(generate(name, parameters).value(), {}).value();
}

CostIntervals intervals(const std::string& text) { return parse_cost_intervals(text).value(); }

VerifyReport ask_makespan(const Program& program, const CostSpace& costs, std::optional<Nanoseconds> limit,
                          const TransportCapabilities& capabilities = {}) {
  VerifyOptions options;
  options.properties = {Property::makespan};
  options.costs = costs.bounds();
  options.makespan_limit = limit;
  options.capabilities = capabilities;
  return verify(program, options);
}

TEST(Makespan, IsLongestWhereAllCostsAre) {
  // (m + p - 1) (F + B) of 1F1B
  const Program program = program_named("1f1b", 4, 8);
  const CostSpace costs = shared_costs(intervals("F=1..1.5,B=2"));
  EXPECT_EQ(ask_makespan(program, costs, {}).makespan, (MakespanRange{33'000'000, 38'500'000}));
  EXPECT_TRUE(ask_makespan(program, costs, 38'500'000).proved(Property::makespan));

  const VerifyReport late = ask_makespan(program, costs, 38'499'999);
  const auto& refuted = std::get<Refuted>(late.find(Property::makespan)->verdict);
  const auto& end = std::get<LateEnd>(refuted.counterexample);
  EXPECT_EQ(end.makespan, 38'500'000);
  EXPECT_EQ(end.critical_path.size(), 22u);
  const std::vector<std::string> lines = explain(program, refuted.counterexample);
  ASSERT_EQ(lines.size(), 23u);
  EXPECT_EQ(lines[0].substr(0, 55), "the step takes 38500000 ns, limit 38499999, with F = 15");
  EXPECT_EQ(lines[0].back(), ':');
  EXPECT_EQ(lines[1], "  rank 0: 0F0 from 0 to 1500000 ns");
}

TEST(Makespan, CountsATransferOnceForBothEnds) {
  const CostSpace costs = shared_costs(intervals("F=1,B=2,c=0..0.5"));
  EXPECT_EQ(ask_makespan(two_rank_step(), costs, {}).makespan, (MakespanRange{6'000'000, 7'000'000}));
}

TEST(Makespan, IsUnknownWhereNothingIsProvedAboutRuns) {
  const auto reason = [](const VerifyReport& report) {
    return std::get<Unknown>(report.find(Property::makespan)->verdict).reason;
  };
  const CostSpace costs = shared_costs(intervals("F=1,B=2"));
  EXPECT_EQ(reason(ask_makespan(deferred_receives(false), costs, 1)),
            "the Program deadlocks, which deadlock_free shows");
  EXPECT_EQ(reason(ask_makespan(program_named("1f1b", 3, 6), costs, 1, {.residency = 1})),
            "under a residency limit times depend on which operation takes a place");
  EXPECT_TRUE(
      ask_makespan(program_named("1f1b", 3, 6), costs, {}, {.residency = 9}).proved(Property::makespan));
  VerifyOptions options;
  options.makespan_limit = 1;
  EXPECT_EQ(reason(verify(two_rank_step(), options)), "no costs are given");
  CostTable huge;
  huge.set({OpKind::forward}, std::int64_t{1} << 62);
  options.costs = CostBounds{{}, huge};
  EXPECT_EQ(reason(verify(two_rank_step(), options)), "the costs add up to more than 64 bits of nanoseconds");
}

/// Whether it is proved, and the largest ratio.
std::pair<bool, double> compared(const std::string& first, const std::string& second,
                                 const std::string& costs, int ranks, int microbatches) {
  const Program a = program_named(first, ranks, microbatches);
  const Program b = program_named(second, ranks, microbatches);
  const CostSpace space = shared_costs(intervals(costs));
  const NeverSlowerAnswer answer = never_slower({a, b, space}).value();
  EXPECT_EQ(answer.ratio->least, answer.ratio->most);
  return {std::holds_alternative<Proved>(answer.verdict), answer.ratio->most};
}

TEST(NeverSlower, ZbH1AgainstOneFOneB) {
  for (const char* costs : {"F=0.5..2,I=0.5..2,W=0.5..2", "F=0.5..2,I=0.5..2,W=0.5..2,c=0..0.1"}) {
    const auto [never, ratio] = compared("zb-h1", "1f1b", costs, 16, 32);
    EXPECT_TRUE(never);
    EXPECT_NEAR(ratio, 196.5 / 211.5, 1e-12);  // F = I = 2, W = 0.5: 1F1B takes 47 (F + B)
    EXPECT_FALSE(compared("1f1b", "zb-h1", costs, 16, 32).first);
  }
}

TEST(NeverSlower, WithCostsOfEachStageThereIsACounterexample) {
  const Program zb = program_named("zb-h1", 16, 32);
  const Program other = program_named("1f1b", 16, 32);
  const CostSpace space = stage_costs(intervals("F=0.5..2,I=0.5..2,W=0.5..2"), 16);
  EXPECT_EQ(space.variables().size(), 48u);
  const NeverSlowerAnswer answer = never_slower({zb, other, space}).value();
  EXPECT_EQ(answer.method, "paths");
  const ComparedAt at = std::get<Slower>(answer.verdict).at;
  EXPECT_GT(at.first, at.second);
  VerifyOptions options;
  options.properties = {Property::makespan};
  options.costs = CostBounds{space.at(at.values), space.at(at.values)};
  EXPECT_EQ(verify(zb, options).makespan, (MakespanRange{at.first, at.first}));
  EXPECT_EQ(verify(other, options).makespan, (MakespanRange{at.second, at.second}));
}

/// One rank that runs F, then B or I and W, of each microbatch.
Program one_rank(const std::vector<std::string>& row, int microbatches) {
  HandProgram p{chain_spec(1, 1, microbatches), {}};
  p.rows = {row};
  return p.build();
}

TEST(NeverSlower, KnowsThatRelatedCostsAreOne) {
  const Program whole = one_rank({"0F0", "0B0"}, 1);
  const Program split = one_rank({"0F0", "0I0", "0W0"}, 1);
  const CostSpace related = shared_costs(intervals("F=1..2,I=1..2,W=1..2,B=I+W"));
  const NeverSlowerAnswer same = never_slower({split, whole, related}).value();
  EXPECT_TRUE(std::holds_alternative<Proved>(same.verdict));
  EXPECT_EQ(same.difference->most, 0);
  const CostSpace apart = shared_costs(intervals("F=1..2,I=1..2,W=1..2,B=3..4"));
  const NeverSlowerAnswer differ = never_slower({split, whole, apart}).value();
  EXPECT_EQ(differ.difference->most, 1e6);
  const ComparedAt at = std::get<Slower>(differ.verdict).at;
  EXPECT_EQ(at.values[1], 3'000'000) << "B";
  EXPECT_EQ(to_string(apart, at).substr(0, 14), "F = 1000000 ns");
}

TEST(NeverSlower, IsExactBetweenWholeNanoseconds) {
  // 1 + x against the longer of 1 on the compute queue and 2 x on the copy queue: equal at 0 and 1 ns.
  CostSpace costs;
  const LinearCost x = costs.add({"x", 0, 1});
  costs.set({OpKind::forward}, LinearCost{1, {}});
  costs.set({OpKind::backward}, x);
  costs.set({OpKind::load}, 2 * x);
  const Program first = one_rank({"0F0", "0B0"}, 2);
  const Program second = one_rank({"0F0", "0LOAD1"}, 2);
  for (const CompareMethod method : {CompareMethod::vertices, CompareMethod::paths}) {
    const NeverSlowerAnswer answer = never_slower({first, second, costs, {}, {}, method}).value();
    const ComparedAt at = std::get<Slower>(answer.verdict).at;
    EXPECT_EQ(at.first, at.second);
    EXPECT_FALSE(at.exact.empty());
    if (method == CompareMethod::paths) continue;
    EXPECT_EQ(to_string(costs, at), "x = 1/2 ns; 3/2 against 1 ns");
    EXPECT_EQ(answer.ratio->most, 1.5);
    EXPECT_EQ(answer.paths, 2u);
  }
}

TEST(NeverSlower, RatioWithoutBound) {
  CostSpace costs;
  costs.set({OpKind::forward}, costs.add({"F", 0, 1}));
  const NeverSlowerAnswer answer =
      never_slower({one_rank({"0F0", "0F1"}, 2), one_rank({"0F0"}, 2), costs}).value();
  EXPECT_EQ(answer.ratio->most, 2) << "and nothing at F = 0";
  costs.set({OpKind::load}, LinearCost{0, {}});
  const NeverSlowerAnswer endless =
      never_slower({one_rank({"0F0"}, 2), one_rank({"0LOAD1"}, 2), costs}).value();
  EXPECT_EQ(endless.ratio->most, std::numeric_limits<double>::infinity());
  EXPECT_EQ(endless.difference->most, 1);
}

TEST(NeverSlower, ManyIndependentCosts) {
  const Program program = program_named("1f1b", 3, 4);
  const CostSpace space = stage_costs(intervals("F=1..2,I=1..2,W=1..2"), 3);
  EXPECT_EQ(space.variables().size(), 9u);
  const NeverSlowerAnswer answer = never_slower({program, program_named("gpipe", 3, 4), space}).value();
  EXPECT_EQ(answer.method, "paths");
  EXPECT_TRUE(std::holds_alternative<Proved>(answer.verdict));
}

TEST(NeverSlower, TimeLimitIsUnknown) {
  const Program program = program_named("v-min", 8, 32);
  const CostSpace space = shared_costs(intervals("F=0.5..2,I=0.5..2,W=0.5..2,c=0..1"));
  const NeverSlowerAnswer answer =
      never_slower({program_named("v-half", 8, 32), program, space, {}, {.timeout_s = 0}}).value();
  EXPECT_EQ(std::get<Unknown>(answer.verdict).reason, "time limit reached");
  EXPECT_LE(answer.ratio->least, answer.ratio->most);
}

TEST(NeverSlower, RefusesWhatHasNoMakespan) {
  const CostSpace space = shared_costs(intervals("F=1..2"));
  const auto error = [&](const Program& program, const TransportCapabilities& capabilities) {
    return never_slower({two_rank_step(), program, space, capabilities}).error().message;
  };
  EXPECT_EQ(error(deferred_receives(false), {}), "what cannot finish has no makespan: verify it first");
  EXPECT_EQ(error(program_named("1f1b", 3, 6), {.residency = 1}),
            "under a residency limit times depend on which operation takes a place");
  CostSpace huge;
  huge.set({OpKind::forward}, huge.add({"F", 0, std::int64_t{1} << 62}));
  EXPECT_EQ(never_slower({two_rank_step(), two_rank_step(), huge}).error().message,
            "the costs add up to more than 64 bits of nanoseconds");
}

}  // namespace
}  // namespace ppsim::test
