#include "ppsim/planner/export.hpp"

#include <gtest/gtest.h>

#include "support/closed_forms.hpp"

// Keys are those of torchtitan 0.3, and flags those of Megatron-LM and MaxText.

namespace ppsim {
namespace {

std::string text_of(const Export& result, const std::string& name) {
  for (const ExportedFile& file : result.files) {
    if (file.name == name) return file.text;
  }
  return "";
}

TEST(Export, TellsTorchtitanThePlacement) {
  const Schedule zb_v = test::generated("zb-v", {.ranks = 2, .microbatches = 4});
  const Export result = export_for(Framework::torchtitan, zb_v, {}).value();
  EXPECT_EQ(text_of(result, "torchtitan.toml"),
            "[parallelism]\npipeline_parallel_degree = 2\npipeline_parallel_schedule = \"ZBVZeroBubble\"\n"
            "pipeline_parallel_schedule_csv = \"schedule.csv\"\n");
  EXPECT_NE(text_of(result, "schedule.csv").find("0F0"), std::string::npos);
  EXPECT_EQ(result.notes.size(), 3u);  // microbatches, the class of the placement, torch.compile
}

TEST(Export, TellsTorchtitanTheModulesOfUnevenStages) {
  const Schedule schedule = test::generated("1f1b", {.ranks = 2, .microbatches = 4});
  const Export result = export_for(Framework::torchtitan, schedule, {1, 2}).value();
  EXPECT_NE(text_of(result, "torchtitan_parallelism.py")
                .find("parallelism.module_fqns_per_model_part = [\n"
                      "    [\"tok_embeddings\", \"layers.0\"],\n"
                      "    [\"layers.1\", \"layers.2\", \"norm\", \"lm_head\"]\n]"),
            std::string::npos);
  EXPECT_FALSE(export_for(Framework::torchtitan, schedule, {1, 2, 3}).has_value());
  const Schedule deep = test::generated("looped-bfs", {.ranks = 2, .microbatches = 4, .chunks = 3});
  EXPECT_EQ(export_for(Framework::torchtitan, deep, {}).error().code, ErrorCode::refused);
}

TEST(Export, RefusesWhatTorchtitanCannotLoad) {
  EXPECT_FALSE(export_for(Framework::torchtitan,
                          test::generated("forward-only", {.ranks = 2, .microbatches = 4}), {}));
  EXPECT_FALSE(
      export_for(Framework::torchtitan, test::generated("chimera", {.ranks = 4, .microbatches = 4}), {}));
}

TEST(Export, GivesMegatronItsFlags) {
  const Schedule plain = test::generated("1f1b", {.ranks = 4, .microbatches = 8});
  EXPECT_EQ(text_of(export_for(Framework::megatron, plain, {}).value(), "megatron.args"),
            "--pipeline-model-parallel-size 4\n");
  EXPECT_EQ(text_of(export_for(Framework::megatron, plain, {1, 2, 2, 1}).value(), "megatron.args"),
            "--pipeline-model-parallel-size 4\n--pipeline-model-parallel-layout \"Et|tt|tt|tL\"\n");
  const Schedule looped = test::generated("interleaved-1f1b", {.ranks = 4, .microbatches = 8, .chunks = 2});
  EXPECT_EQ(text_of(export_for(Framework::megatron, looped, {}).value(), "megatron.args"),
            "--pipeline-model-parallel-size 4\n--num-virtual-stages-per-pipeline-rank 2\n");
  const Schedule other = test::generated("zb-h1", {.ranks = 4, .microbatches = 8});
  EXPECT_EQ(export_for(Framework::megatron, other, {}).error().code, ErrorCode::refused);
}

TEST(Export, GivesMaxTextItsFlags) {
  const Schedule looped = test::generated("looped-bfs", {.ranks = 4, .microbatches = 8, .chunks = 2});
  EXPECT_EQ(text_of(export_for(Framework::maxtext, looped, {}).value(), "maxtext.args"),
            "ici_pipeline_parallelism=4\nnum_pipeline_microbatches=8\nnum_pipeline_repeats=2\n");
  EXPECT_FALSE(export_for(Framework::maxtext, looped, {1, 2, 1, 1, 1, 1, 1, 1}).has_value());
  EXPECT_FALSE(export_for(Framework::maxtext, test::generated("1f1b", {.ranks = 4, .microbatches = 8}), {}));
}

}  // namespace
}  // namespace ppsim
