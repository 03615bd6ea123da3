#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <map>

#include "ppsim/verifier/verify.hpp"
#include "support/closed_forms.hpp"
#include "support/draw_parameters.hpp"
#include "support/finished_run.hpp"
#include "support/lowered.hpp"

// Actions that lowering adds to every schedule of the registry: FSDP's gathering, reductions, clipping and
// updates.

namespace ppsim {
namespace {

using test::lowered;

/// Actions of a rank that are no transfers and no copies, an overlapped pair as two.
std::vector<Action> row_without_transfers(const Program& program, RankId rank) {
  std::vector<Action> row;
  for (auto id = program.first(rank); id < program.last(rank); id = InstructionId(id.value() + 1)) {
    for (const Action& action : program.actions(id)) {
      const Resource resource = info(action.kind).resource;
      if (resource == Resource::compute || resource == Resource::collective) row.push_back(action);
    }
  }
  return row;
}

bool adds_to(const Pipeline& pipeline, const Action& action, const Action& update) {
  if (!gives_weight_gradient(action.kind)) return false;
  const auto blocks = pipeline.blocks_of(action.stage());
  return std::find(blocks.begin(), blocks.end(), update.block()) != blocks.end() &&
         pipeline.spec().update[action.mb()] == update.update();
}

/// The ranks that own a share of a block.
std::vector<RankId> owners(const Pipeline& pipeline, BlockId block) {
  std::vector<RankId> ranks;
  for (const StageId stage : pipeline.spec().blocks[block].stages) ranks.push_back(pipeline.rank_of(stage));
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

class EveryScheduleUpdates : public testing::TestWithParam<ScheduleInfo> {
 protected:
  /// Runs a property of some schedules of this name.
  template <class Property>
  void check(const Property& property) {
    EXPECT_TRUE(rc::check([&] {
      const ScheduleParameters parameters =
          test::draw_legal_parameters(GetParam(), {.ranks = 5, .microbatches = 10});
      RC_LOG() << GetParam().name << ": " << parameters << '\n';
      property(test::generated(GetParam().name, parameters));
    }));
  }
};

bool has_kind(const Schedule& schedule, OpKind kind) {
  for (int r = 0; r < schedule.pipeline().ranks(); ++r) {
    for (const Cell& cell : schedule.row(RankId(r))) {
      if (!cell.idle() && cell.actions().front().kind == kind) return true;
    }
  }
  return false;
}

/// Options that add to a schedule what it does not have.
LoweringOptions with_updates(const Schedule& schedule) {
  LoweringOptions options;
  options.reduce_grad = !has_kind(schedule, OpKind::reduce_grad);
  options.optimizer = !has_kind(schedule, OpKind::optimizer);
  return options;
}

/// REDUCE_GRAD of a block that one rank owns stands directly behind the last B or W that adds to it, other
/// REDUCE_GRADs aside.
TEST_P(EveryScheduleUpdates, ReduceDirectlyAfterTheLastGradient) {
  check([](const Schedule& schedule) {
    if (!with_updates(schedule).reduce_grad) return;
    const Program program = lowered(schedule, {.reduce_grad = true});
    const Pipeline& pipeline = program.pipeline();
    for (int r = 0; r < pipeline.ranks(); ++r) {
      const std::vector<Action> row = row_without_transfers(program, RankId(r));
      for (auto reduce = row.begin(); reduce != row.end(); ++reduce) {
        if (reduce->kind != OpKind::reduce_grad) continue;
        const auto adds = [&](const Action& a) { return adds_to(pipeline, a, *reduce); };
        RC_ASSERT(std::none_of(reduce, row.end(), adds));
        if (owners(pipeline, reduce->block()).size() > 1) continue;
        auto before = std::make_reverse_iterator(reduce);
        while (before->kind == OpKind::reduce_grad) ++before;
        // An overlapped pair counts as one: its F stands before its B.
        RC_ASSERT(adds(*before) || adds(*(before + 1)));
      }
    }
  });
}

/// All ranks issue the collectives in one order, whichever order and communicators were asked for.
TEST_P(EveryScheduleUpdates, CollectivesHaveOneOrderOnAllRanks) {
  check([](const Schedule& schedule) {
    LoweringOptions options = test::draw_lowering_options(false);
    const LoweringOptions updates = with_updates(schedule);
    options.reduce_grad = updates.reduce_grad;
    options.optimizer = updates.optimizer;
    options.clip = options.optimizer && *rc::gen::arbitrary<bool>();
    RC_LOG() << options << '\n';
    const CostTable costs = unit_cost_table({});
    const auto program = lower(schedule, options, &costs);
    RC_PRE(program.has_value());
    VerifyOptions asked;
    asked.properties = {Property::well_formed, Property::matched, Property::collective_order};
    if (options.order != IssueOrder::early) asked.properties.push_back(Property::deadlock_free);
    for (const PropertyResult& result : verify(*program, asked).results) {
      RC_LOG() << property_name(result.property) << '\n';
      RC_ASSERT(std::holds_alternative<Proved>(result.verdict));
    }
  });
}

/// Ends of the compute actions of a run that add to a block, over all ranks.
Nanoseconds last_gradient(const test::FinishedRun& run, const Action& update) {
  const Program& program = run.program();
  Nanoseconds end = 0;
  for (std::size_t i = 0; i < program.size(); ++i) {
    const InstructionId id(static_cast<std::int32_t>(i));
    for (const Action& action : program.actions(id)) {
      if (adds_to(program.pipeline(), action, update)) end = std::max(end, run.trace().spans[id].end.time);
    }
  }
  return end;
}

/// Reductions run beside the cool-down: the step ends later only by what the last of them has nothing beside.
TEST_P(EveryScheduleUpdates, ReductionsOverlapTheCoolDown) {
  check([](const Schedule& schedule) {
    const LoweringOptions updates = with_updates(schedule);
    if (!updates.reduce_grad || !updates.optimizer || schedule.pipeline().updates() > 1) return;
    CostTable costs = unit_cost_table({});
    const Program plain = lowered(schedule, {.order = IssueOrder::timed}, &costs);
    const test::FinishedRun without(plain, costs);
    Nanoseconds expected = step_times(plain, without.trace()).makespan;
    for (int b = 0; b < schedule.pipeline().blocks(); ++b) {
      const Nanoseconds duration = *rc::gen::inRange(0, 20) * kUnitTime;
      costs.set({OpKind::reduce_grad, b}, duration);
      const Nanoseconds ready = last_gradient(without, make_action(OpKind::reduce_grad, b, 0));
      if (ready > 0) expected = std::max(expected, ready + duration);
    }
    LoweringOptions options = updates;
    options.order = IssueOrder::timed;
    const Program program = lowered(schedule, options, &costs);
    const test::FinishedRun run(program, costs);
    RC_ASSERT(step_times(program, run.trace()).makespan == expected);
  });
}

/// PyTorch's rule, as its documentation words it: look at the next three stages from each action on.
std::vector<Action> gathered_as_pytorch(const std::vector<Cell>& row) {
  std::vector<Action> result;
  std::vector<std::int32_t> active;
  const auto drop = [&](const std::vector<std::int32_t>& needed) {
    std::vector<std::int32_t> sorted = active;
    std::sort(sorted.begin(), sorted.end());
    for (const std::int32_t stage : sorted) {
      if (std::find(needed.begin(), needed.end(), stage) != needed.end()) continue;
      std::erase(active, stage);
      result.push_back(make_action(OpKind::reshard, stage, -1));
    }
  };
  for (std::size_t i = 0; i < row.size(); ++i) {
    std::vector<std::int32_t> next;
    for (std::size_t j = i; j < row.size() && next.size() < 3; ++j) {
      for (const Action& action : row[j].actions()) {
        if (std::find(next.begin(), next.end(), action.subject) == next.end()) next.push_back(action.subject);
      }
    }
    drop(next);
    for (const std::int32_t stage : next) {
      if (std::find(active.begin(), active.end(), stage) != active.end()) continue;
      active.push_back(stage);
      result.push_back(make_action(OpKind::unshard, stage, -1));
    }
    for (const Action& action : row[i].actions()) result.push_back(action);
  }
  drop({});
  return result;
}

TEST_P(EveryScheduleUpdates, GatherAsPyTorchDoes) {
  check([](const Schedule& schedule) {
    if (has_kind(schedule, OpKind::unshard)) return;
    const Program program = lowered(schedule, {.unshard = true});
    for (int r = 0; r < schedule.pipeline().ranks(); ++r) {
      std::vector<Cell> row;
      for (const Cell& cell : schedule.row(RankId(r))) {
        if (cell.idle()) continue;
        const OpInfo& kind = info(cell.actions().front().kind);
        if (kind.resource == Resource::compute && kind.microbatch == MicrobatchUse::required)
          row.push_back(cell);
      }
      std::vector<Action> found;
      for (const Action& action : row_without_transfers(program, RankId(r))) {
        if (action.kind != OpKind::collective && action.kind != OpKind::reduce_grad &&
            action.kind != OpKind::optimizer)
          found.push_back(action);
      }
      RC_ASSERT(found == gathered_as_pytorch(row));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryScheduleUpdates,
                         testing::ValuesIn(registered_schedules().begin(), registered_schedules().end()),
                         test::schedule_test_name);

}  // namespace
}  // namespace ppsim
