// A model learns the same from every schedule, for as long as it runs, on batches that it has never seen.

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/gpu_backend/stage_model/reference.hpp"
#include "ppsim/gpu_backend/transformer/transformer.hpp"
#include "ppsim/planner/verified_run.hpp"
#include "ppsim/schedules/registry.hpp"
#include "support/fake_gpu/run.hpp"
#include "support/small_transformer.hpp"
#include "support/watching_model.hpp"

namespace ppsim::training_test {
namespace {

/// Next tokens of a walk over a vocabulary: three of four follow from the token before.
TransformerConfig small_language_task(Optimizer optimizer) {
  TransformerConfig config{
      .layers = 4, .hidden = 16, .heads = 2, .ffn = 24, .vocab = 13, .sequence = 8, .microbatch_size = 2};
  config.optimizer = optimizer;
  config.learning_rate = optimizer == Optimizer::adamw ? 0.01 : 0.02;
  return config;
}

/// The minimum loss of a token of the language: the entropy of a walk that goes on in three of four cases and
/// jumps to any token, the next one of the walk included, in the fourth.
double entropy_of_a_token(int vocab) {
  const double jump = 0.25 / vocab;  // to any one token
  const double goes_on = 0.75 + jump;
  return -goes_on * std::log(goes_on) - (vocab - 1) * jump * std::log(jump);
}

constexpr int kMicrobatches = 4;

Program training(const std::string& name, int chunks, bool loads_and_recomputes = false) {
  LoweringOptions lowering;
  lowering.optimizer = true;
  lowering.reduce_grad = true;
  lowering.load = loads_and_recomputes;
  if (loads_and_recomputes) lowering.recompute = Recompute::full;
  const ScheduleParameters parameters{.ranks = 2, .microbatches = kMicrobatches, .chunks = chunks};
  return lower(generate(name, parameters).value(), lowering).value();
}

RunResult train(const Program& program, const TransformerConfig& config, int steps) {
  const auto model = make_transformer(config).value();
  VerifiedRunOptions options;
  options.run.steps = steps;
  options.run.kept_traces = 2;
  auto result = verify_then_run(program, *model, options);
  if (!result) throw std::runtime_error(to_string(result.error()));
  return std::move(result->run);
}

class Training : public testing::TestWithParam<Optimizer> {};

TEST_P(Training, LosesTheSameInEverySchedule) {
  constexpr int kSteps = 200;
  const TransformerConfig config = small_language_task(GetParam());
  const std::vector<double> losses = train(training("1f1b", 1), config, kSteps).losses;
  ASSERT_EQ(losses.size(), static_cast<std::size_t>(kSteps));
  constexpr int kLast = 40;
  const double per_token = std::accumulate(losses.end() - kLast, losses.end(), 0.0) / (kLast * kMicrobatches);
  const double floor = entropy_of_a_token(config.vocab);
  EXPECT_LT(per_token, 1.15 * floor) << "at first it is " << std::log(config.vocab) << " at least";
  EXPECT_GT(per_token, 0.95 * floor) << "nobody knows where unseen walks jump to";
  EXPECT_EQ(train(training("interleaved-1f1b", 2), config, kSteps).losses, losses);
  EXPECT_EQ(train(training("zb-v", 2), config, kSteps).losses, losses);
  EXPECT_EQ(train(training("dualpipe-v", 2), config, kSteps).losses, losses);
}

INSTANTIATE_TEST_SUITE_P(Optimizers, Training, testing::Values(Optimizer::momentum, Optimizer::adamw));

/// The same Program and model after so many steps, as the devices of this test run them.
std::vector<BlockGradients> gradients_after(int steps, const Program& program, const CpuStageModel& model,
                                            const std::optional<CudaOptions>& cuda) {
  if (cuda) {
    test::FakeGpu gpu(test::devices_for(program));
    const auto result = test::run_on_fake(gpu, program, model, {.cuda = *cuda, .steps = steps});
    EXPECT_TRUE(gpu.faults().empty()) << gpu.faults().front();
    return result.value().gradients;
  }
  RunOptions options;
  options.unverified = true;
  options.steps = steps;
  return execute(program, model, options).value().gradients;
}

TEST(TrainingSteps, EachHasTheGradientsOfTheReferenceOnItsOwnBatches) {
  const auto model = test::exact_transformer(4);
  const std::optional<CudaOptions> devices[] = {std::nullopt, CudaOptions{.host_threads = false},
                                                CudaOptions{.graphs = true, .host_threads = false}};
  const std::vector<Program> programs = {
      training("1f1b", 1), training("interleaved-1f1b", 2, true), training("zb-v", 2),
      training("dualpipe-v", 2),
      lower(generate("pipedream", {.ranks = 2, .microbatches = 4}).value(), {}).value()};
  for (const Program& program : programs) {
    std::vector<BlockGradients> before;
    for (int steps = 1; steps <= 4; ++steps) {
      RunOptions run;
      run.steps = steps;
      const auto reference =
          reference_gradients(program.pipeline(), *model, reference_options(program, run)).value();
      EXPECT_NE(reference, before);
      for (const auto& device : devices) {
        const auto found = gradients_after(steps, program, *model, device);
        EXPECT_EQ(max_gradient_difference(*model, found, reference), 0) << "step " << steps;
      }
      before = reference;
    }
  }
}

TEST(TrainingOptions, AdamWInIntegersIsRefused) {
  TransformerConfig config;
  config.optimizer = Optimizer::adamw;
  config.arithmetic = Arithmetic::integer_exact;
  EXPECT_FALSE(make_transformer(config));
}

TEST(TrainingLosses, OfSeveralRanksAreCountedOnce) {
  // Both directions of Chimera end on ranks of their own, and their gradients are summed over both.
  const TransformerConfig config = small_language_task(Optimizer::momentum);
  const double one_way = train(training("1f1b", 1), config, 1).losses[0];
  EXPECT_NEAR(train(training("chimera", 2), config, 1).losses[0], one_way, 1e-9);
}

constexpr int kLong = 1000;

TEST(LongRuns, ResidentMemoryStaysAsItIs) {
  const Program program = training("zb-v", 2);
  const test::WatchingModel model(make_transformer(small_language_task(Optimizer::adamw)).value(), 100,
                                  kLong);
  VerifiedRunOptions options;
  options.run.steps = kLong;
  options.run.kept_traces = 1;
  const auto result = verify_then_run(program, model, options);
  ASSERT_TRUE(result) << to_string(result.error());
  EXPECT_EQ(result->run.losses.size(), static_cast<std::size_t>(kLong));
  EXPECT_LT(model.growth(), 1 << 20);  // 900 steps; threads and their stacks come and go
}

TEST(LongRuns, TheHighWaterMarkIsThePeakOfTheRunsOwnTracesWithinWhatIsProved) {
  const Program program = training("interleaved-1f1b", 2);
  const auto model = make_transformer(small_language_task(Optimizer::momentum)).value();
  VerifiedRunOptions options;
  options.run.steps = kLong;
  const auto result = verify_then_run(program, *model, options);
  ASSERT_TRUE(result) << to_string(result.error());
  ASSERT_EQ(result->run.traces.size(), static_cast<std::size_t>(kLong));
  const TensorTable table = tensor_table(program);
  const std::vector<Bytes> sizes = tensor_sizes(table, model->sizes(program.pipeline()));
  std::vector<Bytes> peaks(2, 0);
  for (const TimedTrace& trace : result->run.traces) {
    const auto profiles = replay_memory(program, trace, table, sizes);
    for (int r = 0; r < 2; ++r)
      peaks[static_cast<std::size_t>(r)] =
          std::max(peaks[static_cast<std::size_t>(r)], profiles[RankId(r)].peak_bytes);
  }
  for (int r = 0; r < 2; ++r) {
    const auto index = static_cast<std::size_t>(r);
    EXPECT_EQ(result->run.high_water_bytes[RankId(r)], peaks[index]);
    EXPECT_LE(peaks[index], result->proved_bytes[index]);
    EXPECT_LE(result->proved_bytes[index], result->run.pool_bytes[RankId(r)]);
  }
}

}  // namespace
}  // namespace ppsim::training_test
