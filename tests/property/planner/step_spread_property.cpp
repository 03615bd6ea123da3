// Steps with random costs, against closed forms, against simulations of each sample and against percentiles
// that are counted.

#include "ppsim/planner/effects/step_spread.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>

#include "ppsim/core/execution/naive_executor.hpp"
#include "ppsim/core/ir/replicas.hpp"
#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/planner/effects/sensitivity.hpp"
#include "ppsim/schedules/registry.hpp"
#include "support/random_program.hpp"

namespace ppsim {
namespace {

CostBinding random_binding(int stages, std::uint64_t seed) {
  CostBinding binding;
  const CostTable costs = test::random_costs(stages, seed);
  for (const auto& [key, cost] : costs.entries()) binding.tables.costs.set(key, cost * 1000);
  return binding;
}

SimulatedStep evaluation_of(const std::string& name, int ranks, int microbatches, CostBinding costs) {
  const Schedule schedule = generate(name, {.ranks = ranks, .microbatches = microbatches}).value();
  return evaluate(name, lower(schedule, {}, &costs.tables.costs).value(), std::move(costs)).value();
}

SimulatedStep draw_evaluation(int microbatches) {
  const int ranks = *rc::gen::inRange(2, 5);
  const auto name = *rc::gen::element<std::string>("1f1b", "gpipe", "zb-h1");
  return evaluation_of(name, ranks, microbatches,
                       random_binding(ranks, *rc::gen::arbitrary<std::uint64_t>()));
}

FactorSpread draw_spread() {
  using Shape = FactorSpread::Shape;
  FactorSpread spread{.shape = *rc::gen::element(Shape::normal, Shape::lognormal, Shape::gamma, Shape::list)};
  spread.deviation = *rc::gen::element(0.01, 0.1, 0.7);
  if (spread.shape == Shape::list) spread.values = {0.5, 1, 1, 3};
  spread.correlation = *rc::gen::element(0.0, 0.5, 0.99);
  return spread;
}

/// Everything at once.
SpreadOptions draw_options(const SimulatedStep& step) {
  SpreadOptions options;
  options.samples = 20;
  options.seed = *rc::gen::arbitrary<std::uint64_t>();
  Disturbances& disturbances = options.disturbances;
  disturbances.varying.push_back({std::nullopt, draw_spread()});
  disturbances.varying.push_back({cost_group_from_text("F").value(), draw_spread()});
  disturbances.ranks = draw_spread();
  const int ranks = step.program().pipeline().ranks();
  disturbances.slow_ranks.push_back({RankId(*rc::gen::inRange(0, ranks)), 1.5});
  disturbances.slow_links.push_back({RankId(0), RankId(1), 2});
  return options;
}

/// With one microbatch each class of costs occurs once, so that a table can say what each action takes.
RC_GTEST_PROP(StepSpreadProperty, EverySampleIsARunOfItsCosts, ()) {
  const SimulatedStep step = draw_evaluation(1);
  SpreadOptions options = draw_options(step);
  options.samples = 4;
  const CompiledProgram compiled = compile(step.analyzed).value();
  const StepSpread spread = step_spread(step, options).value();
  for (int sample = 0; sample < options.samples; ++sample) {
    const auto costs = disturbed_costs(step, options, static_cast<std::uint64_t>(sample)).value();
    CostTable table;
    for (std::size_t i = 0; i < compiled.items.size(); ++i) {
      const CostClass* key = simulator::cost_class_of(compiled, compiled.items[i]);
      if (key != nullptr) table.set(*key, costs[i]);
    }
    Nanoseconds makespan = 0;
    for (const Span& span : run_naively(step.program(), rendezvous(), table).trace.spans)
      makespan = std::max(makespan, span.end.time);
    RC_ASSERT(spread.steps_ns[static_cast<std::size_t>(sample)] == static_cast<double>(makespan));
  }
}

RC_GTEST_PROP(StepSpreadProperty, ThreadsAndMoreSamplesChangeNoSample, ()) {
  const SimulatedStep step = draw_evaluation(*rc::gen::inRange(1, 6));
  SpreadOptions options = draw_options(step);
  const StepSpread alone = step_spread(step, options).value();
  options.threads = 3;
  RC_ASSERT(step_spread(step, options).value().steps_ns == alone.steps_ns);
  options.samples = 5;
  const auto fewer = step_spread(step, options).value().steps_ns;
  RC_ASSERT(std::equal(fewer.begin(), fewer.end(), alone.steps_ns.begin()));
}

RC_GTEST_PROP(StepSpreadProperty, NoVarianceIsThePlan, ()) {
  const SimulatedStep step = draw_evaluation(*rc::gen::inRange(1, 6));
  SpreadOptions options = draw_options(step);
  for (VaryingCosts& varying : options.disturbances.varying) {
    varying.spread.deviation = 0;
    varying.spread.values = {1};
  }
  options.disturbances.ranks.reset();
  options.disturbances.slow_ranks.clear();
  options.disturbances.slow_links.clear();
  const StepSpread spread = step_spread(step, options).value();
  const std::vector<double> planned(20, static_cast<double>(step.step()));
  RC_ASSERT(spread.steps_ns == planned);
  RC_ASSERT(spread.step_ns.mean_error == 0);
}

RC_GTEST_PROP(StepSpreadProperty, NoSampleIsShorterWithASlowerRankOrLink, ()) {
  const SimulatedStep step = draw_evaluation(*rc::gen::inRange(1, 6));
  SpreadOptions options = draw_options(step);
  const auto before = step_spread(step, options).value().steps_ns;
  if (*rc::gen::arbitrary<bool>()) {
    options.disturbances.slow_ranks.front().factor += *rc::gen::element(0.001, 0.1, 3.0);
  } else {
    options.disturbances.slow_links.front().factor += *rc::gen::element(0.001, 0.1, 3.0);
  }
  const auto after = step_spread(step, options).value().steps_ns;
  RC_ASSERT(std::equal(before.begin(), before.end(), after.begin(), std::less_equal<>()));
}

/// The smallest sample that so many do not exceed, by counting.
double counted_percentile(const std::vector<double>& values, double share) {
  double best = *std::max_element(values.begin(), values.end());
  for (const double candidate : values) {
    const auto within = std::count_if(values.begin(), values.end(), [&](double v) { return v <= candidate; });
    const bool enough = static_cast<double>(within) >= share * static_cast<double>(values.size()) - 1e-9;
    if (enough) best = std::min(best, candidate);
  }
  return best;
}

RC_GTEST_PROP(StepSpreadProperty, PercentilesAreThoseThatCountingFinds, ()) {
  const SimulatedStep step = draw_evaluation(2);
  SpreadOptions options = draw_options(step);
  options.samples = *rc::gen::inRange(1, 130);
  const StepSpread spread = step_spread(step, options).value();
  for (std::size_t i = 0; i < Spread::kShares.size(); ++i) {
    RC_ASSERT(spread.step_ns.percentiles[i] == counted_percentile(spread.steps_ns, Spread::kShares[i]));
    RC_ASSERT(spread.step_ns.lowest[i] <= spread.step_ns.percentiles[i]);
    RC_ASSERT(spread.step_ns.percentiles[i] <= spread.step_ns.highest[i]);
  }
}

/// A schedule whose ranks have other numbers.
Schedule renumbered(const Schedule& schedule, const std::vector<int>& number_of) {
  PipelineSpec spec = schedule.pipeline().spec();
  for (RankId& rank : spec.placement) rank = RankId(number_of[rank.index()]);
  ScheduleBuilder builder(schedule.name(), Pipeline::make(spec).value());
  for (int r = 0; r < schedule.pipeline().ranks(); ++r) {
    for (const Cell& cell : schedule.row(RankId(r)))
      builder.add(RankId(number_of[static_cast<std::size_t>(r)]), cell);
  }
  return builder.build().value();
}

/// With only what is given, and not drawn: numbers of ranks are part of what is drawn.
RC_GTEST_PROP(StepSpreadProperty, NumbersOfRanksDoNotMatter, ()) {
  const int ranks = *rc::gen::inRange(2, 6);
  std::vector<int> number_of(static_cast<std::size_t>(ranks));
  for (int r = 0; r < ranks; ++r) number_of[static_cast<std::size_t>(r)] = r;
  const int turns = *rc::gen::inRange(0, ranks);
  std::rotate(number_of.begin(), number_of.begin() + turns, number_of.end());
  if (*rc::gen::arbitrary<bool>()) std::reverse(number_of.begin(), number_of.end());
  const CostBinding costs = random_binding(ranks, *rc::gen::arbitrary<std::uint64_t>());
  const Schedule schedule = generate("1f1b", {.ranks = ranks, .microbatches = 4}).value();
  const Schedule other = renumbered(schedule, number_of);
  SpreadOptions options{.samples = 1};
  SpreadOptions others{.samples = 1};
  for (int r = 0; r < ranks; ++r) {
    const double factor = *rc::gen::element(1.0, 1.1, 2.0);
    options.disturbances.slow_ranks.push_back({RankId(r), factor});
    others.disturbances.slow_ranks.push_back({RankId(number_of[static_cast<std::size_t>(r)]), factor});
  }
  // As it is written: the lowering orders what is ready at once by the number of its rank.
  const LoweringOptions lowering{.order = IssueOrder::early};
  const auto spread = [&](const Schedule& of, const SpreadOptions& with) {
    return step_spread(evaluate("1f1b", lower(of, lowering, &costs.tables.costs).value(), costs).value(),
                       with)
        .value();
  };
  const StepSpread one = spread(schedule, options);
  const StepSpread two = spread(other, others);
  RC_ASSERT(one.steps_ns == two.steps_ns);
  for (int r = 0; r < ranks; ++r) {
    const RankSpread& as_other = two.ranks[RankId(number_of[static_cast<std::size_t>(r)])];
    RC_ASSERT(one.ranks[RankId(r)].busy_ns.mean == as_other.busy_ns.mean);
    RC_ASSERT(one.ranks[RankId(r)].gain_ns == as_other.gain_ns);
  }
}

/// Who takes a free place depends on times, so that a smaller cost may make the step longer.
TEST(StepSpread, AResidencyLimitIsRefused) {
  const Schedule schedule = generate("1f1b", {.ranks = 2, .microbatches = 2}).value();
  CostBinding costs;
  costs.tables.costs.set({OpKind::forward}, 1'000'000);
  const SimulatedStep step = evaluate("1f1b", lower(schedule, {}).value(), costs, {.residency = 8}).value();
  const auto spread = step_spread(step, {.samples = 1});
  ASSERT_FALSE(spread.has_value());
  EXPECT_EQ(spread.error().message, "under a residency limit times are no longest paths");
  EXPECT_EQ(spread.error().place.found, "8 places");
  EXPECT_FALSE(sensitivities(step, CostGrouping::kind).has_value());
}

/// Ranks with nothing between them: the step is below x where both are, so its share is the square of one's.
TEST(StepSpread, TwoIndependentRanksAreTheLargerOfTwo) {
  const Schedule alone = generate("forward-only", {.ranks = 1, .microbatches = 10}).value();
  const Schedule both = replicated(alone, 2).value();
  CostBinding costs;
  costs.tables.costs.set({OpKind::forward}, 1'000'000);
  const auto steps = [&](const Schedule& schedule) {
    const SimulatedStep step = evaluate("forward-only", lower(schedule, {}).value(), costs).value();
    SpreadOptions options{.samples = 20000};
    options.disturbances.varying.push_back({std::nullopt, {.deviation = 0.2}});
    return step_spread(step, options).value();
  };
  std::vector<double> one = steps(alone).steps_ns;
  std::sort(one.begin(), one.end());
  const StepSpread two = steps(both);
  for (std::size_t i = 0; i < Spread::kShares.size(); ++i) {
    const double share = std::sqrt(Spread::kShares[i]);
    const double expected = one[static_cast<std::size_t>(share * static_cast<double>(one.size()))];
    EXPECT_NEAR(two.step_ns.percentiles[i] / expected, 1, 0.005) << i;
  }
}

TEST(StepSpread, SumsOfOneRankHaveTheMomentsOfTheirShape) {
  CostBinding costs;
  costs.tables.costs.set({OpKind::forward}, 1'000'000);
  const SimulatedStep step = evaluation_of("forward-only", 1, 100, costs);
  using Shape = FactorSpread::Shape;
  for (const Shape shape : {Shape::normal, Shape::lognormal, Shape::gamma}) {
    SpreadOptions options{.samples = 4000};
    options.disturbances.varying.push_back({std::nullopt, {.shape = shape, .deviation = 0.3}});
    const StepSpread spread = step_spread(step, options).value();
    EXPECT_NEAR(spread.step_ns.mean / 100e6, 1, 0.003);
    double squares = 0;
    for (const double value : spread.steps_ns) squares += std::pow(value - spread.step_ns.mean, 2);
    EXPECT_NEAR(std::sqrt(squares / 4000) / 3e6, 1, 0.05);  // 0.3 / sqrt(100) of 100 ms
  }
}

/// Neighbours of an autoregressive series with correlation r: the sum of n has the variance of n terms with
/// correlations r, r^2, ...
TEST(StepSpread, CorrelatedFactorsAddUp) {
  CostBinding costs;
  costs.tables.costs.set({OpKind::forward}, 1'000'000);
  const SimulatedStep step = evaluation_of("forward-only", 1, 50, costs);
  for (const double r : {0.0, 0.5, 0.9}) {
    SpreadOptions options{.samples = 8000};
    options.disturbances.varying.push_back(
        {std::nullopt, {.shape = FactorSpread::Shape::normal, .deviation = 0.1, .correlation = r}});
    const StepSpread spread = step_spread(step, options).value();
    double variance = 50;
    for (int lag = 1; lag < 50; ++lag) variance += 2 * (50 - lag) * std::pow(r, lag);
    double squares = 0;
    for (const double value : spread.steps_ns) squares += std::pow(value - spread.step_ns.mean, 2);
    EXPECT_NEAR(std::sqrt(squares / 8000) / (0.1e6 * std::sqrt(variance)), 1, 0.04) << r;
  }
}

}  // namespace
}  // namespace ppsim
