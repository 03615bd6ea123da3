// Sums of tied weights for every microbatch, whatever else the lowering adds.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <set>

#include "ppsim/core/ir/tied_ends.hpp"
#include "ppsim/schedules/registry.hpp"
#include "support/lowered.hpp"

namespace ppsim::test {
namespace {

/// The sums of a block on a rank, in issue order.
std::vector<Action> sums_of(const Program& program, RankId rank, BlockId block) {
  std::vector<Action> sums;
  for (auto id = program.first(rank); id < program.last(rank); id = InstructionId(id.value() + 1)) {
    const Action& action = program.actions(id).front();
    if (action.kind == OpKind::reduce_grad && action.block() == block) sums.push_back(action);
  }
  return sums;
}

Schedule draw_tied_schedule() {
  const auto name =
      *rc::gen::element<std::string>("gpipe", "1f1b", "eager-1f1b", "interleaved-1f1b", "looped-bfs", "zb-h1",
                                     "zb-h2", "interleaved-zb", "group-interleaved");
  const int ranks = *rc::gen::inRange(2, 5);
  const auto schedule = generate(name, {.ranks = ranks, .microbatches = ranks * *rc::gen::inRange(1, 4)});
  RC_PRE(schedule.has_value());
  return with_tied_ends(*schedule).value();
}

RC_GTEST_PROP(ReduceEachMicrobatch, EveryRankTakesPartInEverySumInOneOrder, ()) {
  const Schedule schedule = draw_tied_schedule();
  LoweringOptions options = draw_lowering_options(true);
  options.reduce_grad = options.reduce_each_microbatch = true;
  const Program program = lowered(schedule, options);
  RC_ASSERT(first_violation(program) == "");
  const Pipeline& pipeline = program.pipeline();
  const BlockId block(pipeline.blocks() - 1);
  std::set<RankId> owners;
  for (const StageId stage : pipeline.spec().blocks[block].stages) owners.insert(pipeline.rank_of(stage));
  const std::vector<Action> first = sums_of(program, *owners.begin(), block);
  RC_ASSERT(owners.size() == 2U);
  RC_ASSERT(first.size() == static_cast<std::size_t>(pipeline.microbatches()));
  for (const RankId rank : owners) RC_ASSERT(sums_of(program, rank, block) == first);
  if (options.order != IssueOrder::timed && options.order != IssueOrder::global) return;
  RC_ASSERT(finishes(program));
  RC_ASSERT(uses_tensors_in_time(program));
}

}  // namespace
}  // namespace ppsim::test
