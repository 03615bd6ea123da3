#include "ppsim/planner/verified_run.hpp"

#include <gtest/gtest.h>

#include "ppsim/core/lowering/lowering.hpp"
#include "ppsim/gpu_backend/stage_model/gpu_stage_model.hpp"
#include "ppsim/gpu_backend/stage_model/null_model.hpp"
#include "ppsim/planner/effects/disturbed_steps.hpp"
#include "ppsim/schedules/registry.hpp"

namespace ppsim {
namespace {

/// Kernels that no test launches.
class Kernels final : public GpuStageModel {
 public:
  [[nodiscard]] Expected<void> check(const Pipeline& pipeline) const override {
    if (pipeline.stages() < 4) return {};
    return make_error(ErrorCode::bad_argument, "kernels for three stages at most");
  }
  [[nodiscard]] SizeTable sizes(const Pipeline& pipeline) const override {
    return NullModel().sizes(pipeline);
  }
  [[nodiscard]] ElementType gradient_type() const override { return ElementType::bfloat16; }
  [[nodiscard]] std::unique_ptr<GpuStages> open(const Pipeline&, const GpuPlace&) const override {
    return nullptr;
  }
};

Program program_on(int ranks) {
  return lower(generate("1f1b", {.ranks = ranks, .microbatches = 4}).value(), {}).value();
}

std::string refusal(int ranks, const VerifiedRunOptions& options) {
  const auto result = verify_then_run(program_on(ranks), Kernels(), options);
  return result ? "ran" : to_string(result.error());
}

/// The bf16 transformer is one too: what refuses it on a CPU must not refuse it on a GPU.
TEST(VerifiedRun, KernelsNeedNoCpuThatCouldRunThem) {
  VerifiedRunOptions options;
  options.run.backend = CudaOptions{.cuda_library = "/nowhere/libcuda.so"};
  EXPECT_NE(refusal(2, options).find("the CUDA backend needs /nowhere/libcuda.so"), std::string::npos)
      << refusal(2, options);
  EXPECT_NE(refusal(4, options).find("kernels for three stages at most"), std::string::npos);
}

TEST(VerifiedRun, OnACpuKernelsAreRefused) {
  EXPECT_NE(refusal(2, {}).find("kernels and nothing for a CPU"), std::string::npos);
  VerifiedRunOptions compared;
  compared.run.backend = CudaOptions{.cuda_library = "/nowhere/libcuda.so"};
  compared.compare = true;
  EXPECT_NE(refusal(2, compared).find("kernels and nothing for a CPU"), std::string::npos)
      << "there is no reference, and that is said before the run";
}

/// Step k of a run and sample k of the simulation are the same; what waking up takes only adds to it.
TEST(VerifiedRun, DisturbedStepsAreThoseThatAreSimulated) {
  CostBinding costs;
  costs.tables.costs.set({OpKind::forward}, 300'000);
  costs.tables.costs.set({OpKind::backward}, 600'000);
  costs.tables.costs.set({OpKind::send_forward}, 200'000);
  Disturbances disturbances;
  disturbances.varying.push_back({std::nullopt, {.deviation = 0.5}});
  disturbances.slow_links.push_back({RankId(0), RankId(1), 3});
  const Program program = program_on(2);
  const auto steps = DisturbedSteps::make(evaluate("1f1b", program, costs).value(), disturbances, 3).value();
  VerifiedRunOptions options;
  options.run.steps = 5;
  options.run.kept_traces = 3;
  options.disturbed = &steps;
  for (const BackendOptions& backend :
       {BackendOptions(CpuOptions{}), BackendOptions(EmulatedOptions{costs.tables.costs})}) {
    options.run.backend = backend;
    const VerifiedRun run = verify_then_run(program, NullModel(), options).value();
    ASSERT_EQ(run.disturbed_steps_ns, steps.steps(5));
    for (std::size_t k = 0; k < 5; ++k) EXPECT_GE(run.run.step_ns[k], run.disturbed_steps_ns[k]) << k;
    EXPECT_EQ(run.simulated, steps.trace(2 + run.compared)) << "two traces are not kept";
    EXPECT_EQ(run.simulated_step_ns, run.disturbed_steps_ns[2 + run.compared]);
    EXPECT_FALSE(run.repeated_step_ns.has_value());
  }
}

}  // namespace
}  // namespace ppsim
