// Data-parallel replicas of schedules: proved, and run on every transport, they give the gradients of the
// unpipelined model over the microbatches of all.

#include "ppsim/core/ir/replicas.hpp"

#include <gtest/gtest.h>

#include <sstream>

#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/gpu_backend/stage_model/reference.hpp"
#include "ppsim/gpu_backend/transformer/transformer.hpp"
#include "ppsim/planner/verified_run.hpp"
#include "ppsim/schedules/registry.hpp"
#include "support/fake_gpu/run.hpp"
#include "support/small_transformer.hpp"

namespace ppsim::replicas_test {
namespace {

constexpr int kReplicas = 3;
constexpr int kSteps = 2;

/// Every schedule of the registry that the model can run on two ranks.
std::vector<Program> replicated_programs() {
  std::vector<Program> programs;
  LoweringOptions options;
  options.reduce_grad = options.optimizer = options.clip = true;
  for (const ScheduleInfo& info : registered_schedules()) {
    const auto one = generate(info.name, {.ranks = 2, .microbatches = 4, .chunks = info.default_chunks});
    if (info.forward_only || !one || !one->pipeline().is_chain() || one->pipeline().slices() != 1) continue;
    const auto program = lower(replicated(*one, kReplicas).value(), options);
    if (program) programs.push_back(*program);  // asynchronous schedules bring updates of their own
  }
  return programs;
}

TEST(ReplicasCross, AreProvedAndGiveTheGradientsOfTheUnpipelinedModel) {
  const auto model = test::exact_transformer(4);
  const auto programs = replicated_programs();
  EXPECT_GE(programs.size(), 15U);
  for (const Program& program : programs) {
    VerifiedRunOptions options;
    options.run.steps = kSteps;
    options.run.poison = true;
    options.compare = true;
    const auto result = verify_then_run(program, *model, options);
    ASSERT_TRUE(result) << to_string(result.error());
    EXPECT_EQ(result->max_abs_difference, 0.0);
    ASSERT_EQ(result->run.gradients.size() % kReplicas, 0U);
    for (const BlockGradients& one : result->run.gradients) EXPECT_TRUE(one.reduced);
  }
}

TEST(ReplicasCross, GiveThemOnGpusToo) {
  const auto model = test::exact_transformer(4);
  for (const CudaTransport transport : {CudaTransport::nccl, CudaTransport::copy}) {
    for (const Program& program : replicated_programs()) {
      test::FakeGpu gpu(test::devices_for(program));
      test::FakeRunOptions options{.steps = kSteps};
      options.cuda.transport = transport;
      const auto result = test::run_on_fake(gpu, program, *model, options);
      ASSERT_TRUE(result) << to_string(result.error());
      EXPECT_TRUE(gpu.faults().empty()) << gpu.faults().front();
      RunOptions run;
      run.steps = kSteps;
      const auto reference =
          reference_gradients(program.pipeline(), *model, reference_options(program, run)).value();
      EXPECT_EQ(max_gradient_difference(*model, result->gradients, reference), 0.0);
    }
  }
}

/// In real numbers the loss of each step is that of one pipeline with all microbatches, but for rounding.
TEST(ReplicasCross, LearnAsOnePipelineWithAllMicrobatches) {
  const auto model =
      make_transformer({.layers = 2, .hidden = 16, .heads = 2, .ffn = 32, .sequence = 8}).value();
  LoweringOptions lowering;
  lowering.reduce_grad = lowering.optimizer = true;
  const auto losses = [&](const Schedule& schedule) {
    VerifiedRunOptions options;
    options.run.steps = 5;
    return verify_then_run(lower(schedule, lowering).value(), *model, options).value().run.losses;
  };
  const auto one = losses(generate("1f1b", {.ranks = 2, .microbatches = 6}).value());
  const auto all =
      losses(replicated(generate("1f1b", {.ranks = 2, .microbatches = 2}).value(), kReplicas).value());
  ASSERT_EQ(all.size(), one.size());
  for (std::size_t step = 0; step < one.size(); ++step) EXPECT_NEAR(all[step] / one[step], 1, 1e-4) << step;
}

}  // namespace
}  // namespace ppsim::replicas_test
