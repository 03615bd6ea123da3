#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "ppsim/core/execution/timed_trace.hpp"
#include "ppsim/simulator/engine/simulate.hpp"
#include "ppsim/verifier/verify.hpp"
#include "support/closed_forms.hpp"
#include "support/expect_forms.hpp"
#include "support/lowered.hpp"

// Vocab-1 and Vocab-2 (2411.05288): the bubble of 1F1B whatever the output layer costs, p + 2 and p + 1
// activations on the first rank.

namespace ppsim {
namespace {

using test::between;
using test::draw_costs;

struct ShardCosts {
  Nanoseconds s = 1;  ///< forward of a shard
  Nanoseconds t = 1;  ///< its backward
};

/// Stages as given, shards of their own.
CostTable shard_cost_table(int ranks, const StageCosts& stages, const ShardCosts& shards) {
  CostTable table = test::cost_table(stages);
  for (int r = 0; r < ranks; ++r) {
    table.set({.kind = OpKind::forward, .subject = ranks + r}, shards.s);
    table.set({.kind = OpKind::backward, .subject = ranks + r}, shards.t);
  }
  return table;
}

std::string_view draw_variant() { return *rc::gen::element("vocab-1", "vocab-2"); }

RC_GTEST_PROP(Vocabulary, HasTheBubbleOf1F1BWhereShardsCostWhatStagesDo, ()) {
  const StageCosts costs = draw_costs();
  ScheduleParameters parameters{.ranks = between(1, 6), .microbatches = between(1, 20)};
  parameters.costs = test::cost_table(costs);
  test::expect_makespan(draw_variant(), parameters, costs);
}

RC_GTEST_PROP(Vocabulary, HasTheBubbleOf1F1BWhateverShardsCost, ()) {
  const StageCosts stages = draw_costs();
  const ShardCosts shards{between(1, 40), between(1, 40)};
  ScheduleParameters parameters{.ranks = between(1, 6), .microbatches = between(1, 20)};
  parameters.costs = shard_cost_table(parameters.ranks, stages, shards);
  const Schedule schedule = test::generated(draw_variant(), parameters);
  const Nanoseconds pass = stages.forward + stages.backward;
  const Nanoseconds expected =
      parameters.microbatches * (pass + shards.s + shards.t) + (parameters.ranks - 1) * pass;
  RC_ASSERT(test::step_time(schedule, *parameters.costs).makespan == expected);
  RC_ASSERT(test::simulated_step_time(schedule, {.order = IssueOrder::timed}, *parameters.costs).makespan ==
            expected);
}

/// With the input layer sharded as well, the passes of its shards, short as they are, fill some of what is
/// idle.
RC_GTEST_PROP(Vocabulary, HasNoMoreThanTheBubbleOf1F1BWithTheInputSharded, ()) {
  const StageCosts stages{.forward = between(10, 30), .backward = between(10, 60)};
  const ShardCosts output{between(1, 40), between(1, 40)};
  ScheduleParameters parameters{.ranks = between(1, 6), .microbatches = between(1, 20)};
  const int p = parameters.ranks;
  CostTable costs = shard_cost_table(p, stages, output);
  for (int r = 0; r < p; ++r) {
    costs.set({.kind = OpKind::forward, .subject = 2 * p + r}, 1);
    costs.set({.kind = OpKind::backward, .subject = 2 * p + r}, 1);
  }
  parameters.costs = costs;
  parameters.settings["input"] = "sharded";
  const Schedule schedule = test::generated(draw_variant(), parameters);
  const Nanoseconds pass = stages.forward + stages.backward;
  const Nanoseconds of_microbatch = pass + output.s + output.t + 2;
  RC_ASSERT(test::step_time(schedule, costs).makespan <=
            parameters.microbatches * of_microbatch + (p - 1) * pass + 2);
  const Program program = test::lowered(schedule);
  RC_ASSERT(test::first_violation(program) == "");
  RC_ASSERT(test::finishes(program));
}

RC_GTEST_PROP(Vocabulary, HoldsOneActivationMorePerBarrier, ()) {
  ScheduleParameters parameters{.ranks = between(1, 6), .microbatches = between(1, 20)};
  const int p = parameters.ranks;
  const CostTable costs = shard_cost_table(p, draw_costs(), {between(1, 40), between(1, 40)});
  parameters.costs = costs;
  const bool two_barriers = *rc::gen::arbitrary<bool>();
  const Program program = test::lowered(test::generated(two_barriers ? "vocab-1" : "vocab-2", parameters),
                                        {.order = IssueOrder::timed}, &costs);
  SizeTable sizes;  // of the stages, not of the shards
  for (int s = 0; s < p; ++s) sizes.set({.kind = TensorKind::saved_for_weight, .subject = s}, 1);
  const TensorTable table = tensor_table(program);
  const SimulatedRun run = simulate_program(program, rendezvous(), costs).value();
  RC_ASSERT(run.has_value());
  const auto profiles = replay_memory(program, *run, table, tensor_sizes(table, sizes));
  for (int r = 0; r < p; ++r) {
    RC_ASSERT(profiles[RankId(r)].peak_bytes ==
              std::min(p - r + (two_barriers ? 2 : 1), parameters.microbatches));
  }
}

RC_GTEST_PROP(Vocabulary, IsProvedUnderTransfersAndBarriersThatTakeTime, ()) {
  ScheduleParameters parameters{.ranks = between(1, 5), .microbatches = between(1, 10)};
  StageCosts stages = draw_costs();
  stages.transfer = between(0, 20);
  CostTable costs = shard_cost_table(parameters.ranks, stages, {between(0, 40), between(0, 40)});
  costs.set({.kind = OpKind::collective}, between(0, 20));
  parameters.costs = costs;
  const Program program =
      test::lowered(test::generated(draw_variant(), parameters), test::draw_lowering_options(true), &costs);
  VerifyOptions options;
  options.properties = {Property::well_formed, Property::matched, Property::collective_order,
                        Property::ascending_accumulation};
  RC_ASSERT(verify(program, options).all_proved());
  RC_ASSERT(test::finishes(test::lowered(test::generated(draw_variant(), parameters))));
}

}  // namespace
}  // namespace ppsim
