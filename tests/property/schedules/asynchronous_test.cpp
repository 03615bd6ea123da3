#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <stdexcept>

#include "ppsim/core/execution/timed_trace.hpp"
#include "ppsim/simulator/engine/simulate.hpp"
#include "ppsim/verifier/verify.hpp"
#include "support/closed_forms.hpp"
#include "support/expect_forms.hpp"
#include "support/lowered.hpp"

// PipeDream (1806.03377) and PipeDream-2BW (2006.09503): the times of 1F1B, and how many versions of the
// weights a rank holds.

namespace ppsim {
namespace {

using test::between;
using test::draw_costs;
using test::expect_makespan;

ScheduleParameters draw_stream(int max_ranks) {
  return {.ranks = between(1, max_ranks), .microbatches = between(1, 30)};
}

ScheduleParameters draw_macrobatches(int max_ranks) {
  ScheduleParameters parameters = draw_stream(max_ranks);
  parameters.settings["macrobatch"] = std::to_string(between(parameters.ranks, 2 * parameters.ranks));
  return parameters;
}

RC_GTEST_PROP(Asynchronous, TakesTheTimeOf1F1B, ()) {
  StageCosts costs = draw_costs();
  expect_makespan("pipedream", draw_stream(8), costs);
  expect_makespan("pipedream-2bw", draw_macrobatches(8), costs);
  costs.transfer = test::draw_short_transfer(costs);
  const int p = between(1, 8);
  expect_makespan("pipedream", {.ranks = p, .microbatches = between(p, 4 * p + 3)}, costs);
}

/// The most versions of the weights that a rank holds at once in a simulated run, one byte each.
IdVector<RankId, Bytes> simulated_versions(const Schedule& schedule, const CostTable& costs) {
  const Program program = test::lowered(schedule, {.order = IssueOrder::timed}, &costs);
  SizeTable sizes;
  sizes.set({.kind = TensorKind::parameters}, 1);
  const TensorTable table = tensor_table(program);
  const SimulatedRun run = simulate_program(program, rendezvous(), costs).value();
  if (!run) throw std::runtime_error("the simulated run is stuck");
  const auto profiles = replay_memory(program, *run, table, tensor_sizes(table, sizes));
  IdVector<RankId, Bytes> versions;
  for (const auto& profile : profiles) versions.push_back(profile.peak_bytes);
  return versions;
}

/// Rank r needs 2 (p - r) - 2 microbatches to come to its p - r versions: a stream that ends reads no new
/// ones.
int versions_held(int ranks, int rank, int microbatches) {
  const int in_flight = ranks - rank;
  if (in_flight == 1 || microbatches == 1) return 1;
  return std::min(in_flight, std::max(2, microbatches - in_flight + 2));
}

RC_GTEST_PROP(Asynchronous, PipeDreamHoldsAVersionPerLiveActivation, ()) {
  const ScheduleParameters parameters = draw_stream(6);
  const auto versions =
      simulated_versions(test::generated("pipedream", parameters), test::cost_table(draw_costs()));
  for (int r = 0; r < parameters.ranks; ++r) {
    RC_ASSERT(versions[RankId(r)] == versions_held(parameters.ranks, r, parameters.microbatches));
  }
}

TEST(Asynchronous, VersionsOfPipeDreamInASteadyStream) {
  const auto versions =
      simulated_versions(test::generated("pipedream", {.ranks = 4, .microbatches = 6}), unit_cost_table({}));
  EXPECT_EQ(versions.items(), (std::vector<Bytes>{4, 3, 2, 1}));
}

RC_GTEST_PROP(Asynchronous, TwoBuffersHoldTwoVersions, ()) {
  ScheduleParameters parameters = draw_macrobatches(6);
  parameters.microbatches += std::stoi(parameters.settings["macrobatch"]);
  const auto versions =
      simulated_versions(test::generated("pipedream-2bw", parameters), test::cost_table(draw_costs()));
  for (int r = 0; r < parameters.ranks; ++r) RC_ASSERT(versions[RankId(r)] == 2);
}

RC_GTEST_PROP(Asynchronous, EveryForwardReadsTheNewestVersionOfItsRank, ()) {
  const ScheduleParameters parameters = draw_stream(8);
  const Schedule schedule = test::generated("pipedream", parameters);
  for (int r = 0; r < parameters.ranks; ++r) {
    int newest = 0;
    for (const Cell& cell : schedule.row(RankId(r))) {
      const Action& action = cell.actions().front();
      if (action.kind == OpKind::optimizer) newest = action.update() + 1;
      if (action.kind != OpKind::forward) continue;
      RC_ASSERT(schedule.pipeline().version(action.stage(), action.mb()) == newest);
    }
  }
}

RC_GTEST_PROP(Asynchronous, WeightVersionsAreProved, ()) {
  const bool two_buffers = *rc::gen::arbitrary<bool>();
  const Schedule schedule = two_buffers ? test::generated("pipedream-2bw", draw_macrobatches(6))
                                        : test::generated("pipedream", draw_stream(6));
  VerifyOptions options;
  options.properties = {Property::well_formed, Property::deadlock_free, Property::weight_versions};
  RC_ASSERT(verify(test::lowered(schedule), options).all_proved());
}

}  // namespace
}  // namespace ppsim
