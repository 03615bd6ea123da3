// Embedding and head in shards over the ranks are the embedding and the head: the same gradients and losses.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>

#include "ppsim/core/ir/replicas.hpp"
#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/gpu_backend/stage_model/reference.hpp"
#include "ppsim/gpu_backend/transformer/transformer.hpp"
#include "ppsim/planner/verified_run.hpp"
#include "ppsim/schedules/registry.hpp"
#include "support/compared_run.hpp"
#include "support/fake_gpu/run.hpp"
#include "support/vocabulary_cases.hpp"

namespace ppsim::vocabulary_test {
namespace {

using Case = test::VocabularyCase;
using test::schedule_of;

VerifiedRun run_whole(const Case& one, const CpuStageModel& model, const LoweringOptions& lowering = {},
                      int steps = 1) {
  const auto whole = generate("1f1b", {.ranks = one.ranks, .microbatches = one.microbatches}).value();
  return test::compared_run(lower(whole, lowering).value(), model, steps);
}

/// Largest distance between numbers of the same place, in units of the largest number.
double distance(const test::Gradients<double>& a, const test::Gradients<double>& b) {
  double apart = 0;
  double largest = 0;
  EXPECT_EQ(a.size(), b.size());
  for (const auto& [name, matrix] : a) {
    for (std::size_t i = 0; i < matrix.numbers.size(); ++i) {
      apart = std::max(apart, std::abs(matrix.numbers[i] - b.at(name).numbers[i]));
      largest = std::max(largest, std::abs(matrix.numbers[i]));
    }
  }
  return apart / largest;
}

TEST(Vocabulary, InShardsHasTheGradientsOfTheWholeInExactIntegers) {
  const TransformerConfig config = test::vocabulary_transformer(Arithmetic::integer_exact);
  const auto model = make_transformer(config).value();
  for (const Case& one : test::vocabulary_cases()) {
    SCOPED_TRACE(one);
    const VerifiedRun found = test::compared_run(lower(schedule_of(one), {}).value(), *model);
    const VerifiedRun whole = run_whole(one, *model);
    EXPECT_EQ(found.max_abs_difference, 0.0);
    EXPECT_TRUE(test::in_shards<std::uint64_t>(config, found.run.gradients, one) ==
                test::in_one<std::uint64_t>(config, whole.run.gradients, one));
    EXPECT_EQ(found.run.losses, whole.run.losses);
    for (std::size_t r = 0; r < found.proved_bytes.size(); ++r) {
      const RankId rank(static_cast<std::int32_t>(r));
      EXPECT_LE(found.run.high_water_bytes[rank], found.proved_bytes[r]);
      EXPECT_LE(found.proved_bytes[r], found.run.pool_bytes[rank]);
    }
  }
}

/// Finite differences say that the whole is right (transformer_gradient_test).
TEST(Vocabulary, InShardsHasThemUpToRoundingInFloat64) {
  const TransformerConfig config = test::vocabulary_transformer(Arithmetic::float64);
  const auto model = make_transformer(config).value();
  for (const Case& one : test::vocabulary_cases()) {
    SCOPED_TRACE(one);
    const VerifiedRun found = test::compared_run(lower(schedule_of(one), {}).value(), *model);
    const VerifiedRun whole = run_whole(one, *model);
    const auto sharded = test::in_shards<double>(config, found.run.gradients, one);
    EXPECT_LT(distance(test::in_one<double>(config, whole.run.gradients, one), sharded), 1e-13);
    EXPECT_NEAR(found.run.losses.at(0), whole.run.losses.at(0), 1e-12 * one.microbatches);
    if (one.ranks > 1 || one.name != std::string("vocab-1")) continue;
    EXPECT_TRUE(sharded == test::in_one<double>(config, whole.run.gradients, one))
        << "one shard is the whole, bit by bit";
    EXPECT_EQ(found.run.losses, whole.run.losses);
  }
}

TEST(Vocabulary, InShardsIsTrainedLikeTheWhole) {
  LoweringOptions lowering;
  lowering.load = lowering.unshard = lowering.reduce_grad = lowering.optimizer = lowering.clip = true;
  for (const Optimizer optimizer : {Optimizer::momentum, Optimizer::adamw}) {
    TransformerConfig config = test::vocabulary_transformer(Arithmetic::float64);
    config.optimizer = optimizer;
    config.learning_rate = 0.01;
    const auto model = make_transformer(config).value();
    for (const Case& one : {Case{"vocab-1", "sharded", 3, 4}, Case{"vocab-2", "sharded", 3, 4}}) {
      SCOPED_TRACE(one);
      const VerifiedRun found = test::compared_run(lower(schedule_of(one), lowering).value(), *model, 4);
      const VerifiedRun whole = run_whole(one, *model, lowering, 4);
      EXPECT_EQ(found.max_abs_difference, 0.0);
      ASSERT_EQ(found.run.losses.size(), 4U);
      EXPECT_NE(found.run.losses[0], found.run.losses[3]);
      for (std::size_t step = 0; step < 4; ++step)
        EXPECT_NEAR(found.run.losses[step], whole.run.losses[step], 1e-8) << "step " << step;
    }
  }
}

TEST(Vocabulary, InShardsIsUpdatedInExactIntegersOverReplicas) {
  LoweringOptions lowering;
  lowering.reduce_grad = lowering.optimizer = true;
  const auto model = make_transformer(test::vocabulary_transformer(Arithmetic::integer_exact)).value();
  for (const Case& one : {Case{"vocab-1", "sharded", 2, 3}, Case{"vocab-2", "first", 2, 3}}) {
    SCOPED_TRACE(one);
    const auto twice = replicated(schedule_of(one), 2).value();
    EXPECT_EQ(test::compared_run(lower(twice, lowering).value(), *model, 3).max_abs_difference, 0.0);
  }
}

TEST(Vocabulary, InShardsMayHaveItsBackwardInTwoParts) {
  const auto model = make_transformer(test::vocabulary_transformer(Arithmetic::float64)).value();
  for (const Case& one : {Case{"vocab-1", "sharded", 3, 4}, Case{"vocab-2", "sharded", 3, 4}}) {
    SCOPED_TRACE(one);
    const VerifiedRun whole = test::compared_run(lower(schedule_of(one), {}).value(), *model);
    const VerifiedRun parts =
        test::compared_run(lower(test::with_split_backward(schedule_of(one)), {}).value(), *model);
    EXPECT_EQ(whole.gradients_hash, parts.gradients_hash);
    EXPECT_EQ(whole.run.losses, parts.run.losses);
  }
}

TEST(Vocabulary, OtherStagesMayRecomputeAndOffload) {
  const auto model = make_transformer(test::vocabulary_transformer(Arithmetic::integer_exact)).value();
  LoweringOptions lowering;
  lowering.recompute = recompute_from_text("stages=0:full,4:selective,5").value();
  lowering.offload = {.percent = 100, .stages = {StageId(1)}};
  for (const char* name : {"vocab-1", "vocab-2"}) {
    const Schedule schedule = schedule_of({name, "sharded", 2, 4});
    EXPECT_EQ(test::compared_run(lower(schedule, lowering).value(), *model).max_abs_difference, 0.0) << name;
  }
}

/// The executor for GPUs gathers the parts and combines them on every rank: in the order of the CPU.
TEST(Vocabulary, HasTheBitsOfTheCpuOnTheStrictFake) {
  const auto model = make_transformer(test::vocabulary_transformer(Arithmetic::float32)).value();
  LoweringOptions training;
  training.load = training.unshard = training.optimizer = training.clip = true;
  for (const char* name : {"vocab-1", "vocab-2"}) {
    for (const int ranks : {1, 3}) {
      for (const bool graphs : {false, true}) {
        for (const CudaTransport transport : {CudaTransport::nccl, CudaTransport::copy}) {
          SCOPED_TRACE(std::string(name) + (graphs ? ", graphs" : ", streamed"));
          const Program program = lower(schedule_of({name, "sharded", ranks, 4}), training).value();
          test::FakeGpu gpu(test::devices_for(program));
          const auto found =
              test::run_on_fake(gpu, program, *model,
                                {.cuda = {.transport = transport, .graphs = graphs, .host_threads = false},
                                 .steps = 3,
                                 .exact = false});
          for (const test::Fault& fault : gpu.faults()) ADD_FAILURE() << fault;
          ASSERT_TRUE(found) << to_string(found.error());
          RunOptions on_cpu;
          on_cpu.unverified = true;
          on_cpu.steps = 3;
          EXPECT_EQ(max_gradient_difference(*model, found->gradients,
                                            execute(program, *model, on_cpu).value().gradients),
                    0.0);
        }
      }
    }
  }
}

std::string refusal(const Program& program) {
  const auto result = test::try_compared_run(
      program, *make_transformer(test::vocabulary_transformer(Arithmetic::float32)).value());
  if (result) return "";
  EXPECT_EQ(result.error().code, ErrorCode::bad_argument);
  return to_string(result.error());
}

TEST(Vocabulary, IsRefusedWhereTheStatisticsDoNotStay) {
  const Schedule schedule = schedule_of({"vocab-1", "first", 2, 2});
  const std::string statistics =
      "the transformer shares the statistics of its loss where F of a shard has saved them";
  LoweringOptions recomputed;
  recomputed.recompute = Recompute::full;
  EXPECT_EQ(refusal(lower(schedule, recomputed).value()),
            statistics + " (found 2R0, expected neither R nor OFFLOAD nor SEND_A)");
  const LoweringOptions offloaded{.order = IssueOrder::global, .offload = {.percent = 100, .stages = {}}};
  EXPECT_EQ(refusal(lower(schedule_of({"vocab-1", "first", 4, 8}), offloaded).value()),
            statistics + " (found 4OFFLOAD4, expected neither R nor OFFLOAD nor SEND_A)");
}

TEST(Vocabulary, HasATokenForEveryShard) {
  TransformerConfig config = test::vocabulary_transformer(Arithmetic::float64);
  config.vocab = 4;
  const auto model = make_transformer(config).value();
  const Case all{"vocab-2", "sharded", 4, 2};
  const VerifiedRun found = test::compared_run(lower(schedule_of(all), {}).value(), *model);
  EXPECT_LT(distance(test::in_one<double>(config, run_whole(all, *model).run.gradients, all),
                     test::in_shards<double>(config, found.run.gradients, all)),
            1e-13);
  const auto refused =
      test::try_compared_run(lower(schedule_of({"vocab-1", "first", 5, 2}), {}).value(), *model);
  ASSERT_FALSE(refused);
  EXPECT_EQ(
      to_string(refused.error()),
      "the transformer cannot run this pipeline: collective softmax computes a part of a microbatch in 5 "
      "shards of a vocabulary of 4 tokens");
}

std::string check_error(const std::function<void(PipelineSpec&)>& change) {
  PipelineSpec spec = schedule_of({"vocab-1", "sharded", 2, 2}).pipeline().spec();
  change(spec);
  const auto pipeline = Pipeline::make(spec);
  if (!pipeline) return to_string(pipeline.error());
  const auto good =
      make_transformer(test::vocabulary_transformer(Arithmetic::float32)).value()->check(*pipeline);
  return good ? "" : to_string(good.error());
}

TEST(Vocabulary, IsRefusedWhereItsCollectivesAreOthers) {
  const std::string start = "the transformer cannot run this pipeline: collective ";
  const CollectiveId softmax(0);
  const CollectiveId gradient(1);
  const CollectiveId embedding(2);
  EXPECT_EQ(check_error([](PipelineSpec&) {}), "");
  EXPECT_EQ(check_error([&](PipelineSpec& spec) { spec.collectives[softmax].before.stages.pop_back(); }),
            start + "softmax computes a part of a microbatch");
  EXPECT_EQ(check_error([&](PipelineSpec& spec) { spec.collectives[softmax].before = {}; }),
            start + "softmax computes a part of a microbatch");
  EXPECT_EQ(check_error([&](PipelineSpec& spec) {
              spec.collectives[gradient].before = {OpKind::backward, {StageId(0)}};
            }),
            start + "input gradient computes a part of a microbatch");
  EXPECT_EQ(
      check_error([&](PipelineSpec& spec) { spec.collectives[embedding].after.kind = OpKind::backward; }),
      start + "embedding computes a part of a microbatch");
  EXPECT_EQ(check_error([&](PipelineSpec& spec) { spec.placement[StageId(5)] = RankId(0); }),
            start + "embedding computes a part of a microbatch, expected a shard on each of its ranks");
  EXPECT_EQ(check_error([&](PipelineSpec& spec) { spec.slices = 2; }),
            start + "softmax computes a part of a microbatch, and of slices of it");
  EXPECT_EQ(check_error([&](PipelineSpec& spec) {
              spec.edges.push_back({StageId(4), StageId(1)});
            }),
            "the transformer cannot run this pipeline: on route 0 stages 0 and 1 both follow stage 4, "
            "expected a path through all stages, with other edges beside it");
}

}  // namespace
}  // namespace ppsim::vocabulary_test
