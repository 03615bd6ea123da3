#include "ppsim/core/lowering/lowering.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "ppsim/core/execution/analyzed_program.hpp"
#include "ppsim/core/ir/transports.hpp"
#include "ppsim/core/lowering/earliest_times.hpp"
#include "ppsim/schedules/registry.hpp"
#include "ppsim/simulator/engine/simulate.hpp"
#include "ppsim/simulator/metrics/metrics.hpp"
#include "support/lowered.hpp"
#include "support/random_schedule.hpp"

namespace ppsim {
namespace {

using test::draw_lowering_options;
using test::finishes;
using test::first_violation;

/// Durations with many ties, some of them zero.
CostTable draw_cost_table() {
  CostTable table;
  for (const OpKind kind :
       {OpKind::forward, OpKind::backward, OpKind::backward_input, OpKind::backward_weight, OpKind::recompute,
        OpKind::overlap, OpKind::send_forward, OpKind::send_backward, OpKind::load, OpKind::reload,
        OpKind::unshard, OpKind::reduce_grad}) {
    table.set({kind}, *rc::gen::inRange(0, 4));
  }
  return table;
}

bool one_linear_order(const LoweringOptions& options) { return options.order != IssueOrder::early; }

RC_GTEST_PROP(Lowering, GivesWellFormedMatchedPrograms, ()) {
  const Schedule schedule = *test::schedules(test::general_shapes());
  const LoweringOptions options = draw_lowering_options(!schedule.pipeline().asynchronous());
  RC_LOG() << options << '\n';
  const CostTable costs = draw_cost_table();
  const auto program = lower(schedule, options, &costs);
  if (!program) RC_FAIL(to_string(program.error()));
  RC_ASSERT(first_violation(*program) == "");
  if (one_linear_order(options)) RC_ASSERT(finishes(*program));
}

/// Who observes a lowering has it walk over all ranks in turn; otherwise rows of passes are walked by windows
/// of ranks, and each row is merged by itself.
RC_GTEST_PROP(Lowering, IsTheSameWhereItIsObserved, ()) {
  const bool general = *rc::gen::arbitrary<bool>();
  const Schedule schedule = *test::schedules(general ? test::general_shapes() : test::plain_shapes());
  LoweringOptions options = draw_lowering_options(!schedule.pipeline().asynchronous());
  if (*rc::gen::arbitrary<bool>()) options = {.order = options.order};
  RC_LOG() << options << '\n';
  const CostTable costs = draw_cost_table();
  const auto observed = lower(schedule, options, &costs, [](std::string_view, const PassRows&) {});
  const auto program = lower(schedule, options, &costs);
  RC_ASSERT(program.has_value() == observed.has_value());
  if (program) {
    RC_ASSERT(*program == *observed);
  } else {
    RC_ASSERT(program.error().message == observed.error().message);
  }
}

/// More ranks than a window has.
TEST(Lowering, OfManyRanksIsTheSameWhereItIsObserved) {
  for (const char* const name : {"1f1b", "zb-h1", "interleaved-1f1b"}) {
    const Schedule schedule = generate(name, {.ranks = 150, .microbatches = 160, .chunks = 1}).value();
    for (const Nanoseconds transfer : {0, 1}) {
      CostTable costs;
      for (const OpKind kind : {OpKind::forward, OpKind::backward, OpKind::backward_input})
        costs.set({.kind = kind}, 2);
      costs.set({.kind = OpKind::send_forward}, transfer);
      const auto observed = lower(schedule, {}, &costs, [](std::string_view, const PassRows&) {});
      EXPECT_TRUE(lower(schedule, {}, &costs).value() == observed.value()) << name;
    }
  }
}

/// Of what JaxPP has, one linear order, and so safe where all instructions of a rank start one after another.
RC_GTEST_PROP(Lowering, TheOrderOfJaxppIsOneForAllRanks, ()) {
  const bool general = *rc::gen::arbitrary<bool>();
  const Schedule schedule = *test::schedules(general ? test::general_shapes() : test::plain_shapes());
  LoweringOptions options;
  options.order = IssueOrder::jaxpp;
  options.communicators = *rc::gen::element(CommunicatorPolicy::per_rank, CommunicatorPolicy::per_pair);
  if (!schedule.pipeline().asynchronous()) {
    options.reduce_grad = *rc::gen::arbitrary<bool>();
    options.optimizer = *rc::gen::arbitrary<bool>();
  }
  const auto program = lower(schedule, options);
  if (!program) {
    RC_LOG() << to_string(program.error()) << '\n';
    RC_ASSERT(general && program.error().code == ErrorCode::bad_argument);
    RC_SUCCEED("refused");
  }
  RC_ASSERT(first_violation(*program) == "");
  RC_ASSERT(AnalyzedProgram(*program, transport("nccl-one-queue").value()).order().complete);
}

RC_GTEST_PROP(Lowering, ReceiveLimitsKeepProgramsWellFormed, ()) {
  const Schedule schedule = *test::schedules(test::plain_shapes());
  LoweringOptions options = draw_lowering_options(true);
  options.grouping = Grouping::none;
  options.receive_buffers = *rc::gen::inRange(1, 5);
  RC_LOG() << options << '\n';
  const CostTable costs = draw_cost_table();
  const auto program = lower(schedule, options, &costs);
  if (!program) {
    RC_ASSERT(program.error().code == ErrorCode::bad_argument);
    RC_ASSERT(program.error().message.find("too few") != std::string::npos);
    RC_SUCCEED("refused");
  }
  RC_ASSERT(first_violation(*program) == "");
}

/// The groups of a rank, each with its actions in order of their values.
std::set<std::vector<Action>> groups_of(const Program& program, RankId rank) {
  std::set<std::vector<Action>> groups;
  for (InstructionId id = program.first(rank); id < program.last(rank); id = InstructionId(id.value() + 1)) {
    if (program.instruction(id).form != InstructionForm::group) continue;
    const auto actions = program.actions(id);
    std::vector<Action> group(actions.begin(), actions.end());
    std::ranges::sort(group);
    groups.insert(group);
  }
  return groups;
}

void expect_pairs_to_meet(const Program& program) {
  for (int r = 0; r < program.pipeline().ranks(); ++r) {
    for (const std::vector<Action>& group : groups_of(program, RankId(r))) {
      RC_ASSERT(group.size() == 2U);
      const RankId peer = peer_rank(program.pipeline(), group.front());
      std::vector<Action> other = {counterpart(group[0], RankId(r)), counterpart(group[1], RankId(r))};
      std::ranges::sort(other);
      RC_ASSERT(groups_of(program, peer).contains(other));
    }
  }
}

RC_GTEST_PROP(Lowering, APairMeetsAPair, ()) {
  const Schedule schedule = *test::schedules(test::general_shapes());
  LoweringOptions options = draw_lowering_options(!schedule.pipeline().asynchronous());
  options.grouping = Grouping::paired;
  const int early = *rc::gen::inRange(0, 4);
  RC_LOG() << options << ", early " << early << '\n';
  for (const IssueOrder order :
       {IssueOrder::timed, IssueOrder::global, IssueOrder::early, IssueOrder::issue_ordered}) {
    options.order = order;
    options.early = order == IssueOrder::early ? early : 0;
    expect_pairs_to_meet(test::lowered(schedule, options));
  }
}

RC_GTEST_PROP(Lowering, AnotherPolicyChangesCommunicatorsOnly, ()) {
  const Schedule schedule = *test::schedules(test::plain_shapes());
  LoweringOptions options = draw_lowering_options(true);
  options.order = IssueOrder::global;
  const auto policy = *rc::gen::element(CommunicatorPolicy::per_rank, CommunicatorPolicy::per_pair,
                                        CommunicatorPolicy::per_edge, CommunicatorPolicy::per_stage_edge);
  const Program program = test::lowered(schedule, options);
  const auto other = with_communicators(program, policy);
  RC_ASSERT(other.has_value());
  options.communicators = policy;
  RC_ASSERT(*other == test::lowered(schedule, options));
}

/// The plainest run of a Program.
Nanoseconds simulated_makespan(const Program& program, const CostTable& costs) {
  const auto run = simulate_program(program, rendezvous(), costs);
  RC_ASSERT(run.has_value());
  RC_ASSERT(run->has_value());
  return step_times(program, **run).makespan;
}

RC_GTEST_PROP(Lowering, NoOrderBeatsTheEarliestTimes, ()) {
  const Schedule schedule = *test::schedules(test::plain_shapes());
  const CostTable costs = draw_cost_table();
  const auto order = *rc::gen::element(IssueOrder::timed, IssueOrder::global, IssueOrder::issue_ordered);
  const Program program = test::lowered(schedule, {.order = order}, &costs);
  const auto earliest = earliest_times(schedule, costs);
  RC_ASSERT(earliest.has_value());
  RC_ASSERT(simulated_makespan(program, costs) >= earliest->makespan);
}

RC_GTEST_PROP(Lowering, TimedLosesNothingWhereTransfersTakeNoTime, ()) {
  const Schedule schedule = *test::schedules(test::general_shapes());
  CostTable costs = draw_cost_table();
  costs.set({OpKind::send_forward}, 0);
  costs.set({OpKind::send_backward}, 0);
  LoweringOptions options{.order = IssueOrder::timed};
  options.communicators = *rc::gen::element(CommunicatorPolicy::per_rank, CommunicatorPolicy::per_edge);
  const auto earliest = earliest_times(schedule, costs);
  RC_ASSERT(earliest.has_value());
  RC_ASSERT(simulated_makespan(test::lowered(schedule, options, &costs), costs) == earliest->makespan);
}

RC_GTEST_PROP(Lowering, SameInputGivesTheSameProgram, ()) {
  const Schedule schedule = *test::schedules(test::general_shapes());
  const LoweringOptions options = draw_lowering_options(false);
  const CostTable costs = draw_cost_table();
  RC_ASSERT(test::lowered(schedule, options, &costs) == test::lowered(schedule, options, &costs));
}

}  // namespace
}  // namespace ppsim
