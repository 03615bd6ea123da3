#include "ppsim/core/ir/pipeline.hpp"

#include <gtest/gtest.h>

#include "ppsim/core/ir/padding.hpp"

namespace ppsim {
namespace {

std::string broken(const PipelineSpec& spec) {
  const auto pipeline = Pipeline::make(spec);
  return pipeline ? "" : pipeline.error().message;
}

PipelineSpec small() {
  PipelineSpec spec;
  spec.ranks = 2;
  spec.stages = 4;
  spec.microbatches = 4;
  return spec;
}

TEST(Pipeline, FillsDefaultsIn) {
  const auto pipeline = Pipeline::make(small());
  ASSERT_TRUE(pipeline.has_value());
  EXPECT_EQ(pipeline->rank_of(StageId(3)), RankId(1));
  EXPECT_EQ(pipeline->consumers(StageId(1), MicrobatchId(0)).front(), StageId(2));
  EXPECT_TRUE(pipeline->consumers(StageId(3), MicrobatchId(0)).empty());
  EXPECT_EQ(pipeline->blocks(), 4);
  EXPECT_EQ(pipeline->updates(), 1);
  EXPECT_TRUE(pipeline->is_chain());
  EXPECT_EQ(pipeline->stages_of(RankId(1)).size(), 2U);
}

TEST(Pipeline, BidirectionalRoutesHaveTheirOwnChains) {
  PipelineSpec spec = small();
  spec.routes = {{StageId(0), StageId(1)}, {StageId(2), StageId(3)}};
  spec.route = {RouteId(0), RouteId(0), RouteId(1), RouteId(1)};
  const auto pipeline = Pipeline::make(spec);
  ASSERT_TRUE(pipeline.has_value());
  EXPECT_TRUE(pipeline->consumers(StageId(1), MicrobatchId(0)).empty());
  EXPECT_FALSE(pipeline->on_route(StageId(2), MicrobatchId(0)));
  EXPECT_EQ(pipeline->producers(StageId(3), MicrobatchId(3)).front(), StageId(2));
}

TEST(Pipeline, SkipConnectionsMakeADag) {
  PipelineSpec spec = small();
  spec.edges = {
      {StageId(0), StageId(1)}, {StageId(0), StageId(3)}, {StageId(1), StageId(2)}, {StageId(2), StageId(3)}};
  const auto pipeline = Pipeline::make(spec);
  ASSERT_TRUE(pipeline.has_value());
  EXPECT_FALSE(pipeline->is_chain());
  EXPECT_EQ(pipeline->consumers(StageId(0), MicrobatchId(0)).size(), 2U);
  EXPECT_EQ(pipeline->producers(StageId(3), MicrobatchId(0)).size(), 2U);
}

TEST(Pipeline, ReportsEveryBrokenRule) {
  PipelineSpec spec = small();
  spec.placement = {RankId(0), RankId(2)};
  spec.edges = {{StageId(0), StageId(9)}};
  spec.route = {RouteId(5), RouteId(0), RouteId(0), RouteId(0)};
  const std::string text = broken(spec);
  EXPECT_NE(text.find("placement has 2 entries, expected 4"), std::string::npos) << text;
  EXPECT_NE(text.find("placement of stage 1 is rank 2"), std::string::npos) << text;
  EXPECT_NE(text.find("edge 0 -> 9"), std::string::npos) << text;
  EXPECT_NE(text.find("route of microbatch 0 is 5"), std::string::npos) << text;
}

TEST(Pipeline, RefusesCyclesAndRepeats) {
  PipelineSpec spec = small();
  spec.edges = {{StageId(0), StageId(1)}, {StageId(1), StageId(0)}};
  EXPECT_EQ(broken(spec), "the stage graph has a cycle");
  spec.edges = {{StageId(0), StageId(1)}, {StageId(0), StageId(1)}};
  EXPECT_EQ(broken(spec), "edge 0 -> 1 is given twice");
}

/// Nothing would hold its parameters and gradients.
TEST(Pipeline, RefusesAStageWithoutABlock) {
  PipelineSpec spec{.ranks = 2, .stages = 4};
  spec.blocks = {ParameterBlock{{StageId(0), StageId(3)}}, ParameterBlock{{StageId(1)}}};
  EXPECT_EQ(broken(spec), "stage 2 is in no block, expected one of its own where it shares none");
  spec.blocks.push_back(ParameterBlock{{StageId(2)}});
  EXPECT_TRUE(Pipeline::make(spec));
}

TEST(Pipeline, RefusesCountsOutOfRange) {
  PipelineSpec spec = small();
  spec.microbatches = 0;
  EXPECT_NE(broken(spec).find("microbatches must be in [1,"), std::string::npos);
  spec.microbatches = 1 << 24;
  spec.stages = 1 << 20;
  EXPECT_NE(broken(spec).find("must be at most"), std::string::npos);
}

TEST(Pipeline, PaddingFeedsNoUpdate) {
  PipelineSpec spec = small();
  spec.update = {0, -1, 0, -1};
  const auto pipeline = Pipeline::make(spec);
  ASSERT_TRUE(pipeline.has_value());
  EXPECT_EQ(pipeline->updates(), 1);
  EXPECT_EQ(pipeline->microbatches_of_update(0).size(), 2U);
  EXPECT_EQ(batch_microbatches(*pipeline), 2);
  EXPECT_TRUE(is_padding(*pipeline, MicrobatchId(1)));
  EXPECT_TRUE(is_padding(*pipeline, make_action(OpKind::forward, 0, 3)));
  EXPECT_FALSE(is_padding(*pipeline, make_action(OpKind::optimizer, 0, 0)));
  spec.update = {-1, -1, -1, -1};
  EXPECT_EQ(broken(spec), "every microbatch is padding, expected one that feeds an update");
  spec.update = {0, 0, 0, -2};
  EXPECT_EQ(broken(spec), "an update index is -2, expected [0, 4), or -1 for padding");
}

}  // namespace
}  // namespace ppsim
