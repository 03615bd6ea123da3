#include "ppsim/planner/costs/token_costs.hpp"

#include <gtest/gtest.h>

#include "ppsim/planner/costs/costs.hpp"
#include "ppsim/planner/evaluate.hpp"
#include "ppsim/planner/ir_source.hpp"

namespace ppsim {
namespace {

std::string refusal(std::string_view text) {
  const auto costs = parse_token_costs(text);
  return costs ? "" : costs.error().message;
}

TEST(TokenCosts, AreRead) {
  const auto costs = parse_token_costs("length=2048,fixed=0.5,linear=0.001,quadratic=1e-6,granularity=64");
  EXPECT_EQ(*costs, (TokenCosts{.length = 2048,
                                .granularity = 64,
                                .fixed = 0.5,
                                .linear = 0.001,
                                .quadratic = 1e-6,
                                .lengths = {}}));
  EXPECT_EQ(parse_token_costs("linear=1,lengths=6+4")->length, 10);
  EXPECT_EQ(parse_token_costs("linear=1,length=2048")->granularity, 16) << "at most 128 pieces";
}

TEST(TokenCosts, MistakesAreNamed) {
  EXPECT_EQ(refusal("linear"), "unknown token cost");
  EXPECT_EQ(refusal("length=8,linear=1,cubic=1"), "unknown token cost");
  EXPECT_EQ(refusal("length=8,linear=1,linear=2"), "a token cost is given twice");
  EXPECT_EQ(refusal("length=8,linear=-1"), "a token cost is out of range");
  EXPECT_EQ(refusal("length=8.5,linear=1"), "token costs: not a number of tokens");
  EXPECT_EQ(refusal("lengths=8+,linear=1"), "token costs: not a number of tokens");
  EXPECT_EQ(refusal("linear=1"), "token costs need the length of a sequence");
  EXPECT_EQ(refusal("length=8,fixed=1"), "token costs need the cost of a token or of a pair");
  EXPECT_EQ(refusal("length=8,linear=1,lengths=4+3"),
            "the lengths of the slices must be those of the sequence");
}

TEST(TokenCosts, GivenLengthsAreTaken) {
  const TokenCosts costs = parse_token_costs("linear=1,lengths=6+4").value();
  EXPECT_EQ(*slice_lengths(costs, {.ranks = 4, .microbatches = 1, .slices = 2}), (std::vector<int>{6, 4}));
  EXPECT_EQ(slice_lengths(costs, {.ranks = 4, .microbatches = 1, .slices = 3}).error().message,
            "every slice needs its length");
}

Pipeline sliced(int slices) {
  return Pipeline::make({.ranks = 2, .stages = 2, .microbatches = 3, .slices = slices}).value();
}

// 6 tokens and their 21 pairs, then 4 tokens, which look at 24 + 10 pairs.
TEST(TokenCosts, SlicesTakeWhatTheirTokensAndPairsTake) {
  const TokenCosts costs = parse_token_costs("fixed=5,linear=2,quadratic=3,lengths=6+4").value();
  CostTable units;
  units.set({OpKind::forward}, 1);
  units.set({OpKind::backward}, 2);
  const CostTable table = sliced_costs(units, sliced(2), costs, costs.lengths);
  EXPECT_EQ(table({OpKind::forward, 1, -1, 0}), 5 + 12 + 3 * 21);
  EXPECT_EQ(table({OpKind::forward, 0, -1, 1}), 5 + 8 + 3 * 34);
  EXPECT_EQ(table({OpKind::backward, 0, -1, 1}), 2 * (5 + 8 + 3 * 34));
  const CostTable whole = sliced_costs(units, sliced(1), costs, {10});
  EXPECT_EQ(whole({OpKind::forward, 1, -1, 0}), 5 + 20 + 3 * 55);
}

TEST(TokenCosts, SlicesSaveTheirShareOfTheActivations) {
  const SizeTable table = sliced_activations(101, sliced(3), {5, 3, 2});
  Bytes sum = 0;
  for (int k = 0; k < 3; ++k) sum += table({TensorKind::saved_for_weight, 1, -1, k});
  EXPECT_EQ(sum, 101);
  EXPECT_EQ(table({TensorKind::saved_for_weight, 1, -1, 0}), 50);
}

CostSource token_source(const char* text) {
  UnitSource source = parse_unit_costs("F=1,B=2").value();
  source.tokens = parse_token_costs(text).value();
  return source;
}

// 2102.07988: under causal attention the best lengths beat equal ones of the same number.
TEST(TokenCosts, TheBestLengthsBeatEqualOnes) {
  const auto makespan = [](const char* text, int slices) {
    const CostSource source = token_source(text);
    const ScheduleParameters asked{.ranks = 8, .microbatches = 1, .slices = slices};
    const Ir ir = ir_from_name("terapipe", asked, source).value();
    CostBinding costs = bind_cost_source(source, pipeline_of(ir)).value();
    EXPECT_EQ(costs.slice_lengths.size(), static_cast<std::size_t>(pipeline_of(ir).slices()));
    Program program = to_program(ir, {.order = IssueOrder::timed}, &costs.tables.costs).value();
    return evaluate("", std::move(program), std::move(costs), rendezvous()).value().metrics.times.makespan;
  };
  const Nanoseconds best = makespan("length=64,fixed=0.2,linear=0.01,quadratic=0.01", kUsualSlices);
  const Nanoseconds of_four = makespan("length=64,fixed=0.2,linear=0.01,quadratic=0.01", 4);
  const Nanoseconds equal = makespan("fixed=0.2,linear=0.01,quadratic=0.01,lengths=16+16+16+16", 4);
  EXPECT_LE(best, of_four);
  EXPECT_LT(of_four, equal);
}

TEST(TokenCosts, WholeSequencesHaveThemToo) {
  const CostSource source = token_source("length=10,linear=2,quadratic=3");
  const Ir ir = ir_from_name("1f1b", {.ranks = 2, .microbatches = 3, .slices = kUsualSlices}, source).value();
  const CostBinding costs = bind_cost_source(source, pipeline_of(ir)).value();
  EXPECT_EQ(costs.slice_lengths, std::vector<int>{10});
  EXPECT_EQ(costs.tables.costs({OpKind::forward, 1, -1, 0}), kUnitTime * (20 + 3 * 55));
}

}  // namespace
}  // namespace ppsim
