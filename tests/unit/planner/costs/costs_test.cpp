#include "ppsim/planner/costs/costs.hpp"

#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>

#include "ppsim/planner/costs/workload_words.hpp"

namespace ppsim {
namespace {

TEST(OverlaidTables, WhatIsSaidOfAWholeKindGoesBeforeAStageOfTheBase) {
  Tables base;
  base.costs.set({.kind = OpKind::forward, .subject = 1}, 10);
  base.costs.set({.kind = OpKind::backward}, 20);
  Tables over;
  over.costs.set({.kind = OpKind::forward}, 1);
  over.costs.set({.kind = OpKind::backward, .subject = 3}, 2);
  const Tables both = overlaid(base, over);
  EXPECT_EQ(both.costs({.kind = OpKind::forward, .subject = 1}), 1);
  EXPECT_EQ(both.costs({.kind = OpKind::backward, .subject = 3}), 2);
  EXPECT_EQ(both.costs({.kind = OpKind::backward, .subject = 0}), 20);
}

TEST(UnitCosts, WhatIsNotGivenFollowsFromWhatIs) {
  const auto halves = [](const char* text) {
    const UnitCosts costs = parse_unit_costs(text).value().costs;
    return std::array{costs.B, costs.I, costs.W};
  };
  EXPECT_EQ(halves("F=1"), (std::array{2.0, 1.0, 1.0}));
  EXPECT_EQ(halves("B=5"), (std::array{5.0, 2.5, 2.5}));
  EXPECT_EQ(halves("B=5,I=2"), (std::array{5.0, 2.0, 3.0}));
  EXPECT_EQ(halves("B=5,W=6"), (std::array{5.0, 0.0, 6.0}));
  EXPECT_EQ(halves("I=3"), (std::array{4.0, 3.0, 1.0}));
  EXPECT_EQ(halves("B=2,I=1.1,W=1.1"), (std::array{2.0, 1.1, 1.1}));
}

TEST(BindCostSources, UnitsChangeOneCostOfAModelAndKeepItsMemoryLimit) {
  const Workload work = workload_from_words({.model = "llama3-8b",
                                             .cluster = "dgx-h100",
                                             .parallelism = {.pipeline = 8, .global_batch_size = 8}})
                            .value();
  const Pipeline chain = make_chain(8, 8, 8).value();
  Tables slow;
  slow.costs.set({.kind = OpKind::forward}, 7);
  const CostBinding alone = bind_cost_source(work, chain).value();
  const std::vector<CostSource> sources = {work, slow};
  const CostBinding both = bind_cost_sources(sources, chain).value();
  EXPECT_EQ(both.tables.costs({.kind = OpKind::forward, .subject = 3}), 7);
  EXPECT_EQ(both.tables.costs({.kind = OpKind::backward, .subject = 3}),
            alone.tables.costs({.kind = OpKind::backward, .subject = 3}));
  EXPECT_EQ(both.memory_limit, alone.memory_limit);
  EXPECT_TRUE(both.has_sizes);
}

TEST(BindCostSources, NoneAreRefused) {
  const auto bound = bind_cost_sources({}, make_chain(2, 2, 2).value());
  ASSERT_FALSE(bound);
  EXPECT_EQ(bound.error().message, "there are no costs");
}

TEST(BindCostSource, ACostModelIsAskedForThePipelineAndMayRefuse) {
  const CostModel model = [](const Pipeline& pipeline) -> Expected<Tables> {
    if (pipeline.stages() > 4) return make_error(ErrorCode::bad_argument, "too many stages");
    Tables tables;
    for (int s = 0; s < pipeline.stages(); ++s)
      tables.costs.set({.kind = OpKind::forward, .subject = s}, 10 + pipeline.rank_of(StageId(s)).value());
    return tables;
  };
  const CostBinding bound = bind_cost_source(model, make_chain(2, 4, 8).value()).value();
  EXPECT_EQ(bound.tables.costs({.kind = OpKind::forward, .subject = 3}), 11);
  EXPECT_FALSE(bound.has_sizes);
  EXPECT_EQ(bind_cost_source(model, make_chain(8, 8, 8).value()).error().message, "too many stages");
}

TEST(WorkloadWords, NameWhatThereIs) {
  WorkloadWords words{.model = "llama3-8b", .cluster = "dgx-h100", .dtype = "int4"};
  EXPECT_EQ(workload_from_words(words).error().place.expected, "bf16, fp8, mxfp8 or nvfp4");
  words.dtype = "bf16";
  words.rank_order = "pp-tp";
  EXPECT_EQ(workload_from_words(words).error().message, "unknown rank order");
  words.cluster = "none-such";
  EXPECT_EQ(workload_from_words(words).error().code, ErrorCode::bad_argument);
}

TEST(WorkloadWords, FieldsFollowAFileOfAModel) {
  const std::string file = std::filesystem::temp_directory_path() / "ppsim_costs_test_config.json";
  std::ofstream(file) << R"({"model_type":"llama","num_hidden_layers":32,"hidden_size":4096,
      "num_attention_heads":32,"intermediate_size":11008,"vocab_size":32000,"max_position_embeddings":4096})";
  WorkloadWords words{.model = file + ":layers=4,heads=16", .cluster = "dgx-h100"};
  EXPECT_EQ(files_named(words), std::vector<std::string>{file});
  const auto workload = workload_to_search(words);
  ASSERT_TRUE(workload) << to_string(workload.error());
  EXPECT_EQ(workload->model.layers, 4);
  EXPECT_EQ(workload->model.kv_heads, 16) << "each head has its own";
  words.model = file + ":wings=4";
  EXPECT_EQ(workload_to_search(words).error().message, "unknown model field");
  words.model = file + ":layers";
  EXPECT_EQ(workload_to_search(words).error().message, "unknown model field");
  std::filesystem::remove(file);
}

TEST(OverlaidTables, SizesAreOverlaidToo) {
  Tables base;
  base.sizes.set({.kind = TensorKind::parameters}, 5);
  base.sizes.set({.kind = TensorKind::gradients}, 6);
  Tables over;
  over.sizes.set({.kind = TensorKind::parameters}, 7);
  const Tables both = overlaid(base, over);
  EXPECT_EQ(both.sizes({.kind = TensorKind::parameters, .subject = 2}), 7);
  EXPECT_EQ(both.sizes({.kind = TensorKind::gradients, .subject = 2}), 6);
}

}  // namespace
}  // namespace ppsim
