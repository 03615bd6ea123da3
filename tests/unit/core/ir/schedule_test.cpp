#include "ppsim/core/ir/schedule.hpp"

#include <gtest/gtest.h>

#include <cstdlib>  // defines __GLIBC__
#include <utility>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "support/hand_program.hpp"
#include "support/programs.hpp"

namespace ppsim {
namespace {

using enum OpKind;

/// F and B of every microbatch on one rank.
ScheduleBuilder one_rank_builder(int microbatches) {
  ScheduleBuilder builder("hand-made", test::chain(1, 1, microbatches));
  for (int m = 0; m < microbatches; ++m) {
    builder.add(forward, StageId(0), MicrobatchId(m)).add(backward, StageId(0), MicrobatchId(m));
  }
  return builder;
}

std::string broken(const ScheduleBuilder& builder) {
  const auto schedule = builder.build();
  return schedule ? "" : schedule.error().message;
}

TEST(ScheduleBuilder, AcceptsACompleteOrder) {
  const auto schedule = one_rank_builder(3).build();
  ASSERT_TRUE(schedule.has_value());
  EXPECT_EQ(schedule->action_count(), 6U);
  EXPECT_EQ(schedule->row(RankId(0))[1].actions()[0], make_action(backward, 0, 0));
}

TEST(ScheduleBuilder, TakesItsRowsOrCopiesThem) {
  ScheduleBuilder builder = one_rank_builder(3);
  const auto copied = builder.build();
  const auto taken = std::move(builder).build();
  ASSERT_TRUE(copied.has_value() && taken.has_value());
  EXPECT_EQ(*taken, *copied);
  EXPECT_NE(copied->row(RankId(0)).data(), taken->row(RankId(0)).data());
}

#ifdef __GLIBC__
TEST(ScheduleBuilder, FewActionsOfVeryManyTakeLittleMemory) {
  constexpr int kRanks = 1 << 16;
  constexpr int kMicrobatches = 1 << 9;
  const auto in_use = [] {
    const auto heap = mallinfo2();
    return heap.uordblks + heap.hblkhd;
  };
  const Pipeline pipeline = test::chain(kRanks, kRanks, kMicrobatches);
  ScheduleBuilder builder("huge", pipeline);
  const std::size_t before = in_use();
  for (int r = 0; r < kRanks; ++r) builder.add(forward, StageId(r), MicrobatchId(0));
  const std::size_t reserved = in_use() - before;
  EXPECT_LT(reserved, std::size_t{1} << 29U) << "room for all passes is 2.4 GB";
}
#endif

TEST(ScheduleBuilder, ReportsEveryBrokenRule) {
  ScheduleBuilder builder("broken", test::chain(2, 2, 2));
  builder.add(RankId(0), Cell(make_action(forward, 1, 0)));  // wrong rank
  builder.add(RankId(0), Cell(make_action(forward, 0, 7)));  // no such microbatch
  const std::string text = broken(builder);
  EXPECT_NE(text.find("1F0 stands here, expected on rank 1"), std::string::npos) << text;
  EXPECT_NE(text.find("0F7 is out of range"), std::string::npos) << text;
}

TEST(ScheduleBuilder, TheNormCountsUpdates) {
  PipelineSpec spec = test::chain_spec(1, 1, 2);
  spec.collectives = {{"norm", {RankId(0)}}};
  ScheduleBuilder builder("broken", Pipeline::make(std::move(spec)).value());
  builder.add(RankId(0), Cell(Action{0, 1, -1, 0, OpKind::collective}));
  EXPECT_NE(broken(builder).find("0COLL1 is out of range: expected a subject below 1, a number below 1"),
            std::string::npos)
      << broken(builder);
}

TEST(ScheduleBuilder, ReportsMissingAndDoubledActions) {
  ScheduleBuilder builder("broken", test::chain(1, 1, 2));
  builder.add(forward, StageId(0), MicrobatchId(0)).add(forward, StageId(0), MicrobatchId(0));
  builder.add(backward, StageId(0), MicrobatchId(0));
  const std::string text = broken(builder);
  EXPECT_NE(text.find("0F0 is there 2 times"), std::string::npos) << text;
  EXPECT_NE(text.find("0F1 is missing"), std::string::npos) << text;
  EXPECT_NE(text.find("0B1 is missing"), std::string::npos) << text;
}

TEST(ScheduleBuilder, RefusesBBesideI) {
  auto builder = one_rank_builder(1);
  builder.add(backward_input, StageId(0), MicrobatchId(0));
  EXPECT_NE(broken(builder).find("0B0 stands beside an I or W"), std::string::npos);
}

TEST(ScheduleBuilder, RefusesIWithoutW) {
  ScheduleBuilder builder("broken", test::chain(1, 1, 1));
  builder.add(forward, StageId(0), MicrobatchId(0)).add(backward_input, StageId(0), MicrobatchId(0));
  EXPECT_EQ(broken(builder), "rank 0: 0W0 is missing");
}

TEST(ScheduleBuilder, RefusesABackwardBeforeItsForward) {
  ScheduleBuilder builder("broken", test::chain(1, 1, 1));
  builder.add(backward, StageId(0), MicrobatchId(0)).add(forward, StageId(0), MicrobatchId(0));
  EXPECT_EQ(broken(builder), "rank 0: 0B0 at position 0 needs 0F0, which stands at position 1");
}

TEST(ScheduleBuilder, RefusesARecomputeAfterItsBackward) {
  auto builder = one_rank_builder(1);
  builder.add(recompute, StageId(0), MicrobatchId(0));
  EXPECT_NE(broken(builder).find("0B0 at position 1 needs 0R0"), std::string::npos);
}

TEST(ScheduleBuilder, RefusesTransfersBetweenStages) {
  auto builder = one_rank_builder(1);
  builder.add(RankId(0), Cell(make_transfer(send_forward, 0, 0, 0)));
  EXPECT_NE(broken(builder).find("which lowering adds"), std::string::npos);
}

TEST(ScheduleBuilder, RefusesAPairThatIsNoForwardAndBackward) {
  ScheduleBuilder builder("broken", test::chain(1, 1, 2));
  builder.add(RankId(0), Cell(make_action(forward, 0, 0), make_action(forward, 0, 1)));
  EXPECT_NE(broken(builder).find("OVERLAP_F_B needs an F and a B or I"), std::string::npos);
}

TEST(ScheduleBuilder, RefusesAPairWhoseBackwardNeedsItsForward) {
  ScheduleBuilder builder("broken", test::chain(1, 1, 1));
  builder.add(RankId(0), Cell(make_action(forward, 0, 0), make_action(backward, 0, 0)));
  EXPECT_NE(broken(builder).find("0B0 at position 0 needs 0F0"), std::string::npos);
}

TEST(ScheduleBuilder, AcceptsInferenceAndIdleCells) {
  ScheduleBuilder builder("forward", test::chain(1, 1, 2));
  builder.add(forward, StageId(0), MicrobatchId(0))
      .add(RankId(0), Cell())
      .add(forward, StageId(0), MicrobatchId(1));
  const auto schedule = builder.build();
  ASSERT_TRUE(schedule.has_value());
  EXPECT_TRUE(schedule->row(RankId(0))[1].idle());
}

}  // namespace
}  // namespace ppsim
