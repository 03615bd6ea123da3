#include "ppsim/core/ir/tied_ends.hpp"

#include <gtest/gtest.h>

#include "ppsim/schedules/registry.hpp"

namespace ppsim {
namespace {

Schedule schedule(const std::string& name, const ScheduleParameters& parameters) {
  return generate(name, parameters).value();
}

TEST(TiedEnds, AreABlockOfTheFirstAndTheLastStageBehindTheOthers) {
  const Schedule one = schedule("1f1b", {.ranks = 3, .microbatches = 4});
  EXPECT_FALSE(has_tied_ends(one.pipeline()));
  const Schedule tied = with_tied_ends(one).value();
  EXPECT_TRUE(has_tied_ends(tied.pipeline()));
  EXPECT_EQ(tied.pipeline().blocks(), 4);
  EXPECT_EQ(tied.pipeline().spec().blocks[BlockId(3)].stages, (std::vector{StageId(0), StageId(2)}));
  EXPECT_EQ(tied.action_count(), one.action_count());
  EXPECT_EQ(with_tied_ends(tied).value(), tied);
}

TEST(TiedEnds, AreThoseOfAllRoutes) {
  const Schedule tied = with_tied_ends(schedule("dualpipe", {.ranks = 2, .microbatches = 4})).value();
  const auto& blocks = tied.pipeline().spec().blocks.items();
  EXPECT_EQ(blocks.back().stages, (std::vector{StageId(0), StageId(1), StageId(2), StageId(3)}));
  const Schedule alone = with_tied_ends(schedule("1f1b", {.ranks = 1, .microbatches = 2})).value();
  EXPECT_EQ(alone.pipeline().blocks_of(StageId(0)).size(), 2U);
  EXPECT_TRUE(has_tied_ends(alone.pipeline()));
}

TEST(TiedEnds, NeedASchedulesWhoseUpdatesLoweringAdds) {
  const auto refused = with_tied_ends(schedule("pipedream", {.ranks = 2, .microbatches = 4}));
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("brings all OPTs along"), std::string::npos);
  PipelineSpec spec;
  spec.stages = 1;
  spec.blocks = {ParameterBlock{{StageId(0)}}, ParameterBlock{{StageId(0)}}, ParameterBlock{{StageId(0)}}};
  ScheduleBuilder builder("three blocks", Pipeline::make(spec).value());
  builder.add(OpKind::forward, StageId(0), MicrobatchId(0));
  builder.add(OpKind::backward, StageId(0), MicrobatchId(0));
  const auto several = with_tied_ends(builder.build().value());
  ASSERT_FALSE(several);
  EXPECT_NE(to_string(several.error()).find("3 blocks on stage 0"), std::string::npos);
}

}  // namespace
}  // namespace ppsim
