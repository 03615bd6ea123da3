#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "support/expect_forms.hpp"

// The closed forms of the schedules with looped chunks, of Eager 1F1B and of slices, where they are claimed.

namespace ppsim {
namespace {

using test::between;
using test::draw_costs;
using test::draw_short_transfer;
using test::expect_earliest_makespan;
using test::expect_makespan;

RC_GTEST_PROP(ClosedForms, EagerOneFOneBMakespan, ()) {
  StageCosts costs = draw_costs();
  costs.transfer = draw_short_transfer(costs);
  costs.transfer = std::min(costs.transfer, (costs.forward + costs.backward) / 2);
  expect_makespan("eager-1f1b", {.ranks = between(1, 8), .microbatches = between(1, 24)}, costs);
}

RC_GTEST_PROP(ClosedForms, EagerOneFOneBMakespanUpToHalfOfFAndB, ()) {
  StageCosts costs = draw_costs();
  costs.transfer = between(0, static_cast<int>(costs.forward + costs.backward) / 2);
  expect_earliest_makespan("eager-1f1b", {.ranks = between(1, 8), .microbatches = between(1, 24)}, costs);
}

RC_GTEST_PROP(ClosedForms, EagerOneFOneBMakespanOfFewMicrobatchesUnderAnyTransfer, ()) {
  StageCosts costs = draw_costs();
  costs.transfer = between(0, 200);
  expect_earliest_makespan("eager-1f1b", {.ranks = between(1, 8), .microbatches = between(1, 3)}, costs);
}

const char* draw_interleaved() { return between(0, 1) == 0 ? "interleaved-1f1b" : "kimi-k2"; }

/// Also fewer microbatches than ranks.
RC_GTEST_PROP(ClosedForms, InterleavedMakespanWithoutTransfers, ()) {
  const int m = between(1, 20);
  const int p = between(1, 6);
  ScheduleParameters parameters{.ranks = p, .microbatches = m, .chunks = between(1, 4)};
  if (between(0, 1) == 0) parameters.settings["group"] = std::to_string(between(std::min(p, m), m));
  expect_makespan(draw_interleaved(), parameters, draw_costs());
}

RC_GTEST_PROP(ClosedForms, InterleavedMakespanOfGroupsAlike, ()) {
  StageCosts costs = draw_costs();
  costs.transfer = draw_short_transfer(costs);
  const int p = between(1, 6);
  const int group = between(p, 2 * p + 1);
  expect_makespan(draw_interleaved(),
                  {.ranks = p,
                   .microbatches = group * between(1, 4),
                   .chunks = between(1, 4),
                   .settings = {{"group", std::to_string(group)}}},
                  costs);
}

RC_GTEST_PROP(ClosedForms, LoopedBfsMakespan, ()) {
  StageCosts costs = draw_costs();
  costs.transfer = draw_short_transfer(costs);
  ScheduleParameters parameters{
      .ranks = between(1, 6), .microbatches = between(1, 16), .chunks = between(1, 4)};
  if (between(0, 1) == 0) parameters.settings["backward"] = "same";
  expect_makespan("looped-bfs", parameters, costs);
  costs.transfer = between(0, 100);
  expect_earliest_makespan("looped-bfs", parameters, costs);
}

RC_GTEST_PROP(ClosedForms, ForwardOnlyMakespan, ()) {
  StageCosts costs = draw_costs();
  costs.transfer = between(0, static_cast<int>(costs.forward) - 1);
  ScheduleParameters parameters{
      .ranks = between(1, 6), .microbatches = between(1, 16), .chunks = between(1, 4)};
  if (between(0, 1) == 0) parameters.settings["order"] = "depth-first";
  expect_makespan("forward-only", parameters, costs);
  costs.transfer = between(0, 100);
  expect_earliest_makespan("forward-only", parameters, costs);
}

RC_GTEST_PROP(ClosedForms, SeqOneFOneBMakespan, ()) {
  expect_makespan("seq-1f1b",
                  {.ranks = between(1, 8), .microbatches = between(1, 8), .slices = between(1, 8)},
                  draw_costs());
}

RC_GTEST_PROP(ClosedForms, TeraPipeMakespan, ()) {
  StageCosts costs = draw_costs();
  costs.transfer = draw_short_transfer(costs);
  ScheduleParameters parameters{
      .ranks = between(1, 8), .microbatches = between(1, 6), .slices = between(1, 8)};
  if (between(0, 1) == 0) parameters.settings["backward"] = "reversed";
  expect_makespan("terapipe", parameters, costs);
}

/// Groups of all ranks run at any costs, smaller ones under the authors' rule.
RC_GTEST_PROP(ClosedForms, GroupInterleavedMakespan, ()) {
  const int p = between(1, 8);
  const int group = between((p + 1) / 2, p);
  const bool fused = between(0, 1) == 0;
  StageCosts costs = draw_costs();
  if (group < p) {
    // p F and p B (I where split) fit N whole passes.
    costs.backward = fused ? costs.forward : costs.backward;
    costs.backward_input = costs.forward;
    costs.backward_weight = costs.forward;
  }
  expect_makespan("group-interleaved",
                  {.ranks = p,
                   .microbatches = group * between(1, 4),
                   .chunks = between(1, 4),
                   .settings = {{"group", std::to_string(group)}, {"backward", fused ? "fused" : "split"}}},
                  costs);
}

}  // namespace
}  // namespace ppsim
