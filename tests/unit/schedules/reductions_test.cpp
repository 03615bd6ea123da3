#include <gtest/gtest.h>

#include "support/closed_forms.hpp"
#include "support/finished_run.hpp"
#include "support/lowered.hpp"
#include "support/programs.hpp"
#include "support/row_text.hpp"

// Where reductions, updates and FSDP's gathering stand, and what they cost.

namespace ppsim {
namespace {

using test::lowered;
using test::row_text;

const LoweringOptions kUpdates{.order = IssueOrder::timed, .reduce_grad = true, .optimizer = true};

Nanoseconds makespan(const Schedule& schedule, const LoweringOptions& options, const CostTable& costs) {
  return test::simulated_step_time(schedule, options, costs).makespan;
}

/// 1F1B of 4 ranks and 8 microbatches takes 33 (F = 1, B = 2); rank r computes its last B until 33 - 2 r.
class ReductionsOf1F1B : public testing::Test {
 protected:
  Nanoseconds with_reduction(int block, Nanoseconds duration) {
    CostTable costs = unit_cost_table({});
    costs.set({OpKind::reduce_grad, block}, duration * kUnitTime);
    return makespan(schedule_, kUpdates, costs) / kUnitTime;
  }
  Schedule schedule_ = test::generated("1f1b", {.ranks = 4, .microbatches = 8});
};

TEST_F(ReductionsOf1F1B, CostNothingBesideTheCoolDown) {
  for (int rank = 1; rank < 4; ++rank) EXPECT_EQ(with_reduction(rank, 2 * rank), 33) << "rank " << rank;
}

TEST_F(ReductionsOf1F1B, CostWhatIsLongerThanTheCoolDown) {
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(with_reduction(rank, 2 * rank + 5), 38) << "rank " << rank;
}

/// Two chunks on one rank: the update of stage 1 must wait 5 for its sum and would make 0B0 and 0B1 wait too.
TEST(Updates, LetTheComputationBehindThemPassWhileTheyWait) {
  const Schedule schedule = test::schedule_of(test::chain(1, 2, 2), {"0F0 0F1 1F0 1F1 1B0 1B1 0B0 0B1"});
  CostTable costs = unit_cost_table({});
  costs.set({OpKind::reduce_grad}, 5 * kUnitTime);
  costs.set({OpKind::optimizer}, kUnitTime);
  const Program program = lowered(schedule, kUpdates, &costs);
  EXPECT_EQ(row_text(program, 0), "0F0 0F1 1F0 1F1 1B0 1B1 1REDUCE_GRAD 0B0 0B1 0REDUCE_GRAD 1OPT0 0OPT0");
  EXPECT_EQ(row_text(lowered(schedule, {.reduce_grad = true, .optimizer = true}), 0),
            "0F0 0F1 1F0 1F1 1B0 1B1 1REDUCE_GRAD 0B0 0B1 0REDUCE_GRAD 1OPT0 0OPT0");
}

/// Rank 0 of two with two stages each is idle before 0B0, long enough for the update of its stage 2.
TEST(Updates, FillIdleTimeOfTheCoolDown) {
  const Schedule schedule = test::schedule_of(test::chain(2, 4, 1), {"0F0 2F0 2B0 0B0", "1F0 3F0 3B0 1B0"});
  CostTable costs = unit_cost_table({});
  costs.set({OpKind::reduce_grad}, kUnitTime);
  costs.set({OpKind::optimizer}, kUnitTime);
  const std::string row = row_text(lowered(schedule, kUpdates, &costs), 0);
  EXPECT_LT(row.find("2OPT0"), row.find("0B0")) << row;
  costs.set({OpKind::optimizer}, 2 * kUnitTime);
  const std::string longer = row_text(lowered(schedule, kUpdates, &costs), 0);
  EXPECT_GT(longer.find("2OPT0"), longer.find("0B0")) << longer;
}

/// Two directions share every block over two ranks, which end the gradients of two blocks in opposite orders:
/// the sums are issued in one order on both.
TEST(Reductions, OfSharedBlocksHaveOneOrder) {
  for (const char* name : {"chimera", "dualpipe"}) {
    const Program program =
        lowered(test::generated(name, {.ranks = 4, .microbatches = 8}), {.reduce_grad = true});
    for (int r = 0; r < 2; ++r) {
      std::vector<Action> own;
      std::vector<Action> mirrored;
      for (std::size_t i = 0; i < program.size(); ++i) {
        const InstructionId id(static_cast<std::int32_t>(i));
        const Action& action = program.actions(id).front();
        if (action.kind != OpKind::reduce_grad) continue;
        if (program.rank_of(id) == RankId(r)) own.push_back(action);
        if (program.rank_of(id) == RankId(3 - r)) mirrored.push_back(action);
      }
      EXPECT_EQ(own.size(), 2U) << name;
      EXPECT_EQ(own, mirrored) << name << ", rank " << r;
    }
    EXPECT_TRUE(test::finishes(program));
  }
}

// Worked by hand after PyTorch's _add_unshard_reshard, whose look ahead ends behind the action that reaches
// three stages: from 0F1 on these are 0, 1 and, in one overlapped pair, 2 and 3.
TEST(Gathering, AnOverlappedPairMayMakeItFourStages) {
  const Schedule schedule = test::schedule_of(
      test::chain(1, 4, 2), {"0F0 1F0 2F0 3F0 0F1 1F1 (2F1;3B0)OVERLAP_F_B 3F1 2B0 1B0 0B0 3B1 2B1 1B1 0B1"});
  EXPECT_EQ(
      row_text(lowered(schedule, {.unshard = true}), 0),
      "0UNSHARD 1UNSHARD 2UNSHARD 0F0 0RESHARD 3UNSHARD 1F0 1RESHARD 0UNSHARD 2F0 2RESHARD 1UNSHARD 3F0 "
      "2UNSHARD 0F1 0RESHARD 1F1 (2F1;3B0)OVERLAP_F_B 3F1 3RESHARD 0UNSHARD 2B0 2RESHARD 3UNSHARD 1B0 "
      "1RESHARD 2UNSHARD 0B0 0RESHARD 1UNSHARD 3B1 3RESHARD 0UNSHARD 2B1 2RESHARD 1B1 1RESHARD 0B1 "
      "0RESHARD");
}

}  // namespace
}  // namespace ppsim
