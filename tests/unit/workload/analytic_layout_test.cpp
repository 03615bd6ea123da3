#include "ppsim/workload/layout.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "ppsim/workload/analytic.hpp"
#include "support/programs.hpp"

namespace ppsim {
namespace {

// A small decoder on one GPU a stage: every figure below can be worked out on paper.
constexpr double kTokens = 128;
constexpr double kLayer = 4 * 64 * 64 + 2 * 64 + 2 * 64 * 256;  // attention, its norms, MLP
constexpr double kVocabulary = 1000 * 64;
constexpr double kMtpProduct = 2 * 64 * 64;

Workload small(const std::string& layout, int ranks) {
  Workload work;
  work.model = {.name = "small",
                .layers = 6,
                .hidden = 64,
                .heads = 4,
                .kv_heads = 4,
                .head_dim = 16,
                .ffn = 256,
                .vocab = 1000,
                .sequence = 128};
  work.cluster = cluster_from_name("dgx-h100", 1).value();
  work.cluster.node.gpus = ranks;
  work.parallelism = {.pipeline = ranks, .global_batch_size = 8};
  work.layout = parse_layout(layout).value();
  return work;
}

AnalyticCosts costs_of(const Workload& work, int stages) {
  return analytic_costs(work, test::chain(work.parallelism.pipeline, stages, 8)).value();
}

TEST(AnalyticLayout, CostsFollowTheLayersOfAStage) {
  const Tables tables = costs_of(small("E|t|t*4|t|L", 5), 5).tables;
  const auto weight = [&](int stage) { return tables.costs({OpKind::backward_weight, stage}); };
  EXPECT_LT(weight(0), weight(4)) << "an embedding alone has no products";
  EXPECT_GT(weight(1), weight(4)) << "a layer has more products than a head";
  EXPECT_NEAR(static_cast<double>(weight(2)), 4.0 * static_cast<double>(weight(1)), 4);
  EXPECT_EQ(weight(3), weight(1));
  EXPECT_LT(tables.costs({OpKind::forward, 0}), tables.costs({OpKind::forward, 4}));
}

TEST(AnalyticLayout, SizesFollowTheLayersOfAStage) {
  const Tables tables = costs_of(small("E|t|t*4|t|L", 5), 5).tables;
  const auto parameters = [&](int block) { return tables.sizes({TensorKind::parameters, block}); };
  EXPECT_EQ(parameters(0), static_cast<Bytes>(2 * kVocabulary));
  EXPECT_EQ(parameters(1), static_cast<Bytes>(2 * kLayer));
  EXPECT_EQ(parameters(2), static_cast<Bytes>(8 * kLayer));
  EXPECT_EQ(parameters(4), static_cast<Bytes>(2 * kVocabulary));
  EXPECT_EQ(tables.sizes({TensorKind::saved_for_weight, 0}), 0);
  EXPECT_EQ(tables.sizes({TensorKind::saved_for_weight, 2}),
            4 * tables.sizes({TensorKind::saved_for_weight, 1}));
  EXPECT_EQ(tables.sizes({TensorKind::boundary_output, 0}), static_cast<Bytes>(2 * kTokens * 64));
}

TEST(AnalyticLayout, AStageWithoutLayersOnlyPassesOn) {
  const Tables tables = costs_of(small("Et*3||t*3L", 3), 3).tables;
  for (const OpKind kind : {OpKind::forward, OpKind::backward, OpKind::backward_weight, OpKind::recompute})
    EXPECT_EQ(tables.costs({kind, 1}), 0);
  EXPECT_EQ(tables.sizes({TensorKind::parameters, 1}), 0);
  EXPECT_GT(tables.sizes({TensorKind::boundary_output, 1}), 0);
}

TEST(AnalyticLayout, EveryRuleHasTheSameWork) {
  Workload work = small("Et|ttt|tt|L", 4);
  const auto sum = [&] {
    const AnalyticCosts costs = costs_of(work, 4);
    Nanoseconds total = 0;
    for (int s = 0; s < 4; ++s) total += costs.tables.costs({OpKind::backward_weight, s});
    return std::pair(costs.model_flops_per_step, total);
  };
  const auto given = sum();
  for (const LayoutRule rule : {LayoutRule::even, LayoutRule::balanced}) {
    work.layout = rule;
    EXPECT_EQ(sum().first, given.first);
    EXPECT_NEAR(static_cast<double>(sum().second), static_cast<double>(given.second), 4) << "rounding";
  }
}

TEST(AnalyticLayout, PredictionOfSeveralTokens) {
  // DeepSeek-V3, 2412.19437, section 2.2: a product that halves two hidden states, a layer, and the shared
  // head again.
  const AnalyticCosts costs = costs_of(small("Et*3|t*3|m|L", 4), 4);
  const Tables& tables = costs.tables;
  const Tables plain_tables = costs_of(small("Et*3|t*2|t|L", 4), 4).tables;
  const auto weight = [](const Tables& of, int stage) {
    return static_cast<double>(of.costs({OpKind::backward_weight, stage}));
  };
  EXPECT_GT(weight(tables, 2), weight(plain_tables, 2)) << "a product beside a layer";
  EXPECT_NEAR(weight(tables, 3), 2 * weight(plain_tables, 3), 2) << "the head runs twice";
  EXPECT_EQ(tables.sizes({TensorKind::parameters, 2}),
            static_cast<Bytes>(2 * (kLayer + kMtpProduct + kVocabulary)))
      << "an embedding of its own";
  const Bytes hidden = tables.sizes({TensorKind::boundary_output, 1});
  EXPECT_EQ(tables.sizes({TensorKind::boundary_input, 2}), hidden);
  EXPECT_EQ(tables.sizes({TensorKind::boundary_output, 2}), 2 * hidden) << "its output beside the model's";
  EXPECT_EQ(tables.sizes({TensorKind::boundary_input, 3}), 2 * hidden);
  EXPECT_EQ(tables.sizes({TensorKind::outgoing_gradient, 3}), 2 * hidden);
  const double plain = costs_of(small("Et*3|t*3||L", 4), 4).model_flops_per_step;
  const double attention = 2 * 128 * 64;  // causal, a token
  EXPECT_DOUBLE_EQ(costs.model_flops_per_step - plain,
                   3 * (2 * (kLayer + kMtpProduct + kVocabulary) + attention) * 8 * kTokens);
}

TEST(AnalyticLayout, ATiedHeadSharesTheEmbeddingOfItsStage) {
  Workload work = small("Et*6|mL", 2);
  const Bytes untied = costs_of(work, 2).tables.sizes({TensorKind::parameters, 1});
  work.model.tied_embeddings = true;
  const Bytes tied = costs_of(work, 2).tables.sizes({TensorKind::parameters, 1});
  EXPECT_EQ(untied - tied, static_cast<Bytes>(2 * kVocabulary));
}

TEST(AnalyticLayout, BalancedIsThatOfLlama3) {
  // 2407.21783, section 3.3.2: one layer fewer on the first and on the last stage than a model of 128 would
  // have.
  Workload work{model_from_name("llama3.1-405b").value(), cluster_from_name("dgx-h100", 16).value(),
                Parallelism{.tensor = 8, .pipeline = 16, .global_batch_size = 16}, LayoutRule::balanced};
  const auto layout = [&](int stages) {
    return layout_text(analytic_costs(work, test::chain(16, stages, 16))->layout);
  };
  EXPECT_EQ(layout(16), "Et*7|(t*8|)*14,t*7,L");
  EXPECT_EQ(layout(128), "E|(t|)*126,L")
      << "only the embedding on the first stage, only the loss on the last";
  work.layout = LayoutRule::even;
  EXPECT_EQ(layout(16), "Et*8|(t*8|)*13,t*7|t*7,L");
  EXPECT_FALSE(analytic_costs(work, test::chain(16, 128, 16)).has_value()) << "no layer for two stages";
}

TEST(AnalyticLayout, RefusesALayoutForAnotherPipelineOrModel) {
  EXPECT_EQ(analytic_costs(small("Et*3|t*3L", 2), test::chain(2, 4, 8)).error().place.found, "2 stages");
  EXPECT_EQ(analytic_costs(small("Et*3|t*4L", 2), test::chain(2, 2, 8)).error().place.found, "7 layers");
  Workload work = small("Et*6|L", 2);
  work.model.layers = 1 << 20;
  work.layout = LayoutRule::balanced;
  EXPECT_NE(analytic_costs(work, test::chain(2, 2, 8)).error().message.find("too long"), std::string::npos);
}

}  // namespace
}  // namespace ppsim
