#include "ppsim/planner/validate.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace ppsim {
namespace {

TEST(Validate, StatisticsAreOfAbsoluteErrors) {
  const ErrorStatistics errors = error_statistics({-1, 5, -10, 20});
  EXPECT_EQ(errors.n, 4);
  EXPECT_DOUBLE_EQ(errors.mean_percent, 9);
  EXPECT_DOUBLE_EQ(errors.bias_percent, 3.5);
  EXPECT_DOUBLE_EQ(errors.median_percent, 7.5);
  EXPECT_DOUBLE_EQ(errors.p95_percent, 20);
  EXPECT_DOUBLE_EQ(errors.max_percent, 20);
  EXPECT_DOUBLE_EQ(errors.within_5_percent, 0.5);
  EXPECT_DOUBLE_EQ(errors.within_10_percent, 0.75);
  EXPECT_DOUBLE_EQ(error_statistics({3, -1, 2}).median_percent, 2);
  EXPECT_EQ(error_statistics({}), ErrorStatistics());
}

TEST(Validate, P95IsTheErrorThatOneInTwentyExceeds) {
  std::vector<double> errors;
  for (int i = 1; i <= 40; ++i) errors.push_back(i);
  EXPECT_DOUBLE_EQ(error_statistics(errors).p95_percent, 38);
}

std::vector<std::int64_t> layers(const PipelineLayout& layout) {
  std::vector<std::int64_t> counts;
  for (const StageContents& stage : layout.stages) counts.push_back(stage.layers);
  return counts;
}

TEST(Validate, UsualLayoutsAreThoseOfMegatron) {
  EXPECT_EQ(layers(usual_layout(8, 4)), (std::vector<std::int64_t>{2, 2, 2, 2}));
  // Embedding and loss count as a layer each: Llama 3.1 405B on 128 stages, Qwen3 235B on 8.
  EXPECT_EQ(layers(usual_layout(6, 4)), (std::vector<std::int64_t>{1, 2, 2, 1}));
  EXPECT_EQ(layers(usual_layout(126, 128)).front(), 0);
  EXPECT_EQ(layers(usual_layout(126, 128)).back(), 0);
  EXPECT_EQ(layers(usual_layout(94, 8)), (std::vector<std::int64_t>{11, 12, 12, 12, 12, 12, 12, 11}));
  EXPECT_EQ(layers(usual_layout(61, 4)), (std::vector<std::int64_t>{16, 16, 16, 13}));
  for (const int stages : {1, 2, 3, 5, 7, 31}) EXPECT_EQ(usual_layout(31, stages).layers(), 31) << stages;
}

/// 8 ms forward, 16 ms backward on each of two ranks.
StageRun two_stages() {
  return {.forward = {8'000'000, 8'000'000},
          .backward = {16'000'000, 16'000'000},
          .microbatches = 4,
          .boundary = 0,
          .parameters = 0,
          .gpu = "a100-sxm-80gb"};
}

TEST(Validate, GivenStageTimesMakeA1F1BStep) {
  // Five forwards and backwards in a row, and four transfers' latencies of 13.79 us on either side of a rank.
  const auto step = simulate_run(two_stages());
  ASSERT_TRUE(step) << to_string(step.error());
  EXPECT_NEAR(step->step_s, 5 * (24e-3 + 2 * 13.79e-6), 1e-9);
  EXPECT_TRUE(step->allocated.empty());
}

TEST(Validate, TheOptimizerOfTheLargestStageEndsTheStep) {
  StageRun run = two_stages();
  const double without = simulate_run(run)->step_s;
  run.parameters = 2'039'000'000;  // 50 bytes of each at 2.039 TB/s
  EXPECT_NEAR(simulate_run(run)->step_s - without, 0.05, 1e-12);
}

RunDescription small_run() {
  return {.model = model_from_name("llama3-8b:layers=4").value(),
          .cluster = "dgx-h100",
          .gpus = 8,
          .global_batch_size = 16,
          .sequence = 2048,
          .pipeline = 2,
          .stack = "megatron-core"};
}

TEST(Validate, RunsHaveATimeAndMemoryOfEachPipelineRank) {
  const auto step = simulate_run(small_run());
  ASSERT_TRUE(step) << to_string(step.error());
  EXPECT_GT(step->step_s, 0);
  EXPECT_EQ(step->allocated.size(), 2U);
  RunDescription part = small_run();
  part.gpus = 4;
  part.global_batch_size = 8;
  ASSERT_TRUE(simulate_run(part));
  EXPECT_EQ(simulate_run(part)->allocated.size(), 2U);
}

MeasuredRow row_of(const std::string& source, std::variant<RunDescription, StageRun, NotRun> run) {
  return {.kind = MeasurementKind::published, .source = source, .run = std::move(run), .seconds = 1};
}

const ErrorGroup* group_named(const Agreement& agreement, const std::string& name) {
  const auto found = std::ranges::find(agreement.groups, name, &ErrorGroup::name);
  return found == agreement.groups.end() ? nullptr : &*found;
}

double step_with(const RunDescription& run, const RunEffects& effects) {
  return simulate_run(run, {}, effects).value().step_s;
}

TEST(Validate, CollectivesCostTheMultiprocessorsThatTheyHold) {
  RunDescription run = small_run();
  run.tensor = 2;
  FittedConstants constants;
  constants.exposed_share = 32.0 / 132;  // an H100 has 132, and NCCL takes 32 of them
  EXPECT_DOUBLE_EQ(step_with(run, {.collectives = true}), simulate_run(run, constants)->step_s);
  EXPECT_LT(step_with(run, {.collectives = true}), simulate_run(run)->step_s);
  run.stack = "megatron-2021";  // nothing runs beside products
  EXPECT_DOUBLE_EQ(step_with(run, {.collectives = true}), simulate_run(run)->step_s);
}

TEST(Validate, TransfersHoldMultiprocessorsWhereTheStackOverlapsThem) {
  RunDescription run = small_run();
  run.model = model_from_name("llama3-70b:layers=8").value();  // tiles of its products fill the GPU
  run.sequence = 8192;
  run.tensor = 2;
  EXPECT_GT(step_with(run, {.transfers = true}), simulate_run(run)->step_s);
  run.stack = "megatron-core-no-overlap";
  EXPECT_DOUBLE_EQ(step_with(run, {.transfers = true}), simulate_run(run)->step_s);
}

TEST(Validate, RunsOnLinksThatNobodySharesTakeAsLong) {
  RunDescription run = small_run();
  EXPECT_GT(step_with(run, {.links = true}), simulate_run(run)->step_s);  // reductions meet messages
  run.gpus = 2;
  run.global_batch_size = 4;
  EXPECT_DOUBLE_EQ(step_with(run, {.links = true}), simulate_run(run)->step_s);
}

TEST(Validate, OverlappedStacksAreAGroup) {
  RunDescription apart = small_run();
  apart.stack = "megatron-core-no-overlap";
  RunDescription held_out = small_run();
  held_out.cluster = "dgx-b200";
  const Validation validation =
      validate({row_of("a", small_run()), row_of("a", apart), row_of("a", held_out)}, {.collectives = true});
  EXPECT_EQ(group_named(validation.steps, "overlapped stacks")->errors.n, 2);
  EXPECT_EQ(group_named(validation.steps, "overlapped and held out")->errors.n, 1);
}

TEST(Validate, RunsThatCannotBeSayWhy) {
  RunDescription run = small_run();
  run.gpus = 12;
  run.global_batch_size = 12;
  EXPECT_EQ(simulate_run(run).error().message, "the GPUs do not fill their nodes");
  run = small_run();
  run.schedule = "two-fathom";
  EXPECT_FALSE(simulate_run(run));
  run = small_run();
  run.layout = "Et|tL";
  EXPECT_FALSE(simulate_run(run));
}

TEST(Validate, RowsAreComparedByGroupAndNoneIsDropped) {
  RunDescription experts = small_run();
  experts.model = model_from_name("mixtral-8x7b:layers=4").value();
  std::vector<MeasuredRow> rows = {row_of("paper", small_run()), row_of("paper", NotRun{"no GPUs"}),
                                   row_of("release", experts), row_of("traces", two_stages())};
  rows[3].kind = MeasurementKind::stage_times;
  rows[3].seconds = simulate_run(two_stages())->step_s / 1.1;
  rows[0].memory = {{.rank = 1, .bytes = 1e9}, {.rank = {}, .bytes = 1e9}};
  const Validation validation = validate(rows);
  ASSERT_EQ(validation.steps.comparisons.size(), 4U);
  EXPECT_EQ(validation.steps.comparisons[1].reason, "no GPUs");
  EXPECT_EQ(validation.steps.comparisons[1].simulated, std::nullopt);
  EXPECT_EQ(validation.steps.all.n, 3);
  EXPECT_NEAR(group_named(validation.steps, "stage times given")->errors.max_percent, 10, 1e-9);
  EXPECT_EQ(group_named(validation.steps, "published dense")->errors.n, 1);
  EXPECT_EQ(group_named(validation.steps, "mixture of experts")->errors.n, 1);
  EXPECT_EQ(group_named(validation.steps, "source paper")->errors.n, 1);
  EXPECT_EQ(group_named(validation.steps, "dense h100-sxm-80gb bf16")->errors.n, 1);
  EXPECT_EQ(group_named(validation.steps, "vTrain PP = 1"), nullptr);
  ASSERT_EQ(validation.memory.comparisons.size(), 2U);
  EXPECT_LE(validation.memory.comparisons[0].simulated, validation.memory.comparisons[1].simulated);
  EXPECT_EQ(group_named(validation.memory, "dense")->errors.n, 2);
}

/// Measured by the simulation itself under other constants, which the fit has to find.
TEST(Validate, ARefitFindsTheConstantsOfItsRows) {
  FittedConstants truth;
  truth.exposed_share = 0.6;
  truth.product_slowdown = 1.1;
  std::vector<MeasuredRow> rows;
  for (const int tensor : {1, 2, 4}) {
    for (const int size : {1, 4}) {
      RunDescription run = small_run();
      run.gpus = 16;
      run.tensor = tensor;
      run.microbatch_size = size;
      run.global_batch_size = 64;
      rows.push_back(row_of(tensor == 4 ? "one" : "other", run));
      rows.back().seconds = simulate_run(run, truth)->step_s;
    }
  }
  RunDescription blackwell = small_run();
  blackwell.cluster = "dgx-b200";
  rows.push_back(row_of("blackwell", blackwell));
  Validation validation = validate(rows);
  add_refit(validation);
  const Refit& refit = *validation.refit;
  EXPECT_EQ(refit.fitted_to, 6) << "rows of B200 are predicted, not fitted to";
  ASSERT_EQ(refit.sources.size(), 3U);
  EXPECT_EQ(refit.sources[0].source, "other");
  EXPECT_EQ(refit.sources[0].fitted_to, 2);
  EXPECT_EQ(refit.sources[1].fitted_to, 4);
  EXPECT_EQ(refit.sources[2].fitted_to, 6);
  EXPECT_EQ(refit.sources[2].constants, refit.constants);
  EXPECT_LT(refit.sources[0].errors.max_percent, 5);
  EXPECT_LT(refit.sources[1].errors.max_percent, 5);
  EXPECT_EQ(refit.dense.n, 7);
  EXPECT_EQ(group_named(validation.steps, "dense leave-one-source-out")->errors, refit.dense);
}

/// llm-foundry's rows are compared, but no constant is fitted to them.
TEST(Validate, NoConstantIsFittedToLlmFoundry) {
  const auto rows = read_measurements(
      "Model,SeqLen (T),# GPUs,GPU,MicroBatchSize,GradAccum,Throughput (T/s/GPU),Activation Checkpointing\n"
      "13b,4096,16,a100_80gb,10,3,2060,True\n"
      "1b,2048,8,h100_80gb,14,1,45455,False\n",
      "mpt.csv");
  ASSERT_TRUE(rows) << to_string(rows.error());
  const auto& run = std::get<RunDescription>(rows->front().run);
  EXPECT_EQ(run.global_batch_size, 480);
  EXPECT_EQ(run.model.layers, 40);
  EXPECT_EQ(run.fsdp, 16);
  EXPECT_EQ(run.recompute, Recompute::full);
  EXPECT_EQ(std::get<RunDescription>((*rows)[1].run).recompute, Recompute::none);
  EXPECT_NEAR(*rows->front().seconds, 480.0 * 4096 / 16 / 2060, 1e-9);
  Validation validation = validate(*rows);
  EXPECT_EQ(group_named(validation.steps, "llm-foundry")->errors.n, 2);
  EXPECT_EQ(group_named(validation.steps, "overlapped and held out")->errors.n, 2);
  add_refit(validation);
  EXPECT_EQ(validation.refit->fitted_to, 0);
  EXPECT_TRUE(validation.refit->sources.empty());
  const auto unknown = read_measurements(
      "Model,SeqLen (T),# GPUs,GPU,MicroBatchSize,GradAccum,Throughput (T/s/GPU),Activation Checkpointing\n"
      "14b,4096,16,a100_80gb,10,3,2060,True\n",
      "mpt.csv");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().place.row, 2);
  EXPECT_EQ(unknown.error().place.found, "14b");
  const auto maybe = read_measurements(
      "Model,SeqLen (T),# GPUs,GPU,MicroBatchSize,GradAccum,Throughput (T/s/GPU),Activation Checkpointing\n"
      "13b,4096,16,a100_80gb,10,3,2060,yes\n",
      "mpt.csv");
  ASSERT_FALSE(maybe);
  EXPECT_EQ(maybe.error().place.found, "yes");
  for (const char* row : {"13b,4096,16,a100_80gb,10,3,1e308,True", "13b,4096,16,a100_80gb,10,3,1e-300,True",
                          "13b,4096,16,a100_80gb,1048576,3,2060,True"}) {
    EXPECT_FALSE(
        read_measurements("Model,SeqLen (T),# GPUs,GPU,MicroBatchSize,GradAccum,Throughput (T/s/GPU),"
                          "Activation Checkpointing\n" +
                              std::string(row) + "\n",
                          "mpt.csv"))
        << row;
  }
}

TEST(Validate, ARefitToNothingSaysSo) {
  Validation validation = validate({row_of("traces", two_stages())});
  add_refit(validation);
  EXPECT_EQ(validation.refit->fitted_to, 0);
  EXPECT_TRUE(validation.refit->sources.empty());
  EXPECT_EQ(group_named(validation.steps, "dense leave-one-source-out"), nullptr);
}

TEST(Validate, ConstantsHaveASource) {
  const Validation validation = validate({});
  EXPECT_EQ(validation.steps.all, ErrorStatistics());
  EXPECT_FALSE(validation.constants.empty());
  for (const Constant& one : validation.constants) {
    EXPECT_FALSE(one.source.empty()) << one.name;
    EXPECT_EQ(std::ranges::count(validation.constants, one.name, &Constant::name), 1) << one.name;
  }
}

}  // namespace
}  // namespace ppsim
