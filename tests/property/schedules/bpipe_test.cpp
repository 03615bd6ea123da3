#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "ppsim/verifier/verify.hpp"
#include "support/closed_forms.hpp"
#include "support/expect_forms.hpp"
#include "support/finished_run.hpp"
#include "support/lowered.hpp"

// BPipe (Kim et al., ICML 2023): the order of 1F1B with at most ceil((p + 2) / 2) activations on any rank.

namespace ppsim {
namespace {

using test::between;
using test::FinishedRun;
using test::lowered;

ScheduleParameters draw_parameters(int ranks, int microbatches) {
  return {.ranks = between(1, ranks), .microbatches = between(1, microbatches)};
}

Bytes bound(int ranks) { return (ranks + 3) / 2; }

CostTable costs_with_exchange(const StageCosts& costs, Nanoseconds exchange) {
  CostTable table = test::cost_table(costs);
  table.set({OpKind::send_activation}, exchange);
  return table;
}

LoweringOptions draw_order_and_policy() {
  LoweringOptions options;
  options.order =
      *rc::gen::element(IssueOrder::timed, IssueOrder::global, IssueOrder::early, IssueOrder::issue_ordered);
  if (options.order == IssueOrder::early) options.early = between(0, 3);
  options.communicators = *rc::gen::element(CommunicatorPolicy::per_rank, CommunicatorPolicy::per_pair,
                                            CommunicatorPolicy::per_edge, CommunicatorPolicy::per_stage_edge);
  options.grouping = *rc::gen::element(Grouping::none, Grouping::paired);
  return options;
}

RC_GTEST_PROP(BPipe, NoRankHoldsMoreThanTheBound, ()) {
  const ScheduleParameters parameters = draw_parameters(16, 64);
  const CostTable costs = costs_with_exchange(
      {.forward = between(1, 9), .backward = between(1, 9), .transfer = between(0, 3)}, between(0, 12));
  const LoweringOptions options{.order = *rc::gen::element(IssueOrder::timed, IssueOrder::global)};
  const FinishedRun run(lowered(test::generated("bpipe", parameters), options, &costs), costs,
                        activation_size_table(1));
  for (const RankMetrics& rank : run.metrics().ranks) RC_ASSERT(rank.peak_bytes <= bound(parameters.ranks));
}

RC_GTEST_PROP(BPipe, TheBoundIsProvedForEveryTiming, ()) {
  const ScheduleParameters parameters = draw_parameters(10, 20);
  const LoweringOptions options = draw_order_and_policy();
  RC_PRE(options.order != IssueOrder::early);
  RC_LOG() << parameters << ' ' << options << '\n';
  const CostTable costs =
      costs_with_exchange({.forward = between(1, 9), .backward = between(1, 9)}, between(0, 12));
  VerifyOptions asked;
  asked.properties = {Property::well_formed, Property::matched, Property::deadlock_free, Property::memory};
  asked.sizes = activation_size_table(1);
  asked.memory_limit = bound(parameters.ranks);
  const VerifyReport report = verify(lowered(test::generated("bpipe", parameters), options, &costs), asked);
  for (const PropertyResult& result : report.results) {
    RC_LOG() << property_name(result.property) << '\n';
    RC_ASSERT(std::holds_alternative<Proved>(result.verdict));
  }
}

RC_GTEST_PROP(BPipe, RunsUnderEveryOrderAndPolicy, ()) {
  const ScheduleParameters parameters = draw_parameters(16, 40);
  const LoweringOptions options = draw_order_and_policy();
  RC_LOG() << parameters << ' ' << options << '\n';
  const CostTable costs = costs_with_exchange({}, between(0, 5));
  const Program program = lowered(test::generated("bpipe", parameters), options, &costs);
  RC_ASSERT(test::first_violation(program) == "");
  // Where both directions share a queue, receives that stand late hang 1F1B itself.
  const bool directed = options.communicators == CommunicatorPolicy::per_edge ||
                        options.communicators == CommunicatorPolicy::per_stage_edge;
  if (options.order != IssueOrder::early || directed) RC_ASSERT(test::finishes(program));
}

RC_GTEST_PROP(BPipe, ExchangesThatFitBesideAnActionCostNoTime, ()) {
  const ScheduleParameters parameters = draw_parameters(16, 64);
  const StageCosts stage{.forward = between(1, 9), .backward = between(1, 9)};
  const CostTable costs =
      costs_with_exchange(stage, between(0, static_cast<int>(std::min(stage.forward, stage.backward))));
  RC_LOG() << parameters << ' ' << stage << '\n';
  const Schedule schedule = test::generated("bpipe", parameters);
  const Nanoseconds of_1f1b =
      (parameters.microbatches + parameters.ranks - 1) * (stage.forward + stage.backward);
  RC_ASSERT(test::step_time(schedule, costs).makespan == of_1f1b);
  for (const IssueOrder order : {IssueOrder::timed, IssueOrder::global}) {
    RC_ASSERT(test::simulated_step_time(schedule, {.order = order}, costs).makespan == of_1f1b);
  }
}

}  // namespace
}  // namespace ppsim
